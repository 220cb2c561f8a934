//! Llama 1 to 3 and the many models of the same shape (SmolLM2, TinyLlama, Yi, ...).

use super::{Family, common, names};
use crate::ops::rope::RopeStyle;
use crate::spec::DecoderSpec;
use crate::weights::{Config, LoadError};

pub(super) const FAMILY: Family = Family {
    name: "Llama",
    model_types: &["llama"],
    gguf_architectures: &["llama"],
    spec,
    hf_names: names::HF,
    gguf_names: names::GGUF,
};

pub(super) fn spec(config: &Config) -> Result<DecoderSpec, LoadError> {
    let mut common = common::read(config, &common::LLAMA_DEFAULTS, RopeStyle::Interleaved)?;
    let has = |tensor: &str| config.directory().tensors.contains_key(tensor);
    let flag = |key, tensor: &str| {
        if config.is_gguf() { Ok(has(tensor)) } else { config.bool(key).map(Option::unwrap_or_default) }
    };
    common.layer.attention.qkv_bias = flag(common::ATTENTION_BIAS, "blk.0.attn_q.bias")?;
    common.layer.attention.output_bias = flag(common::ATTENTION_BIAS, "blk.0.attn_output.bias")?;
    common.layer.mlp.bias = flag(common::MLP_BIAS, "blk.0.ffn_gate.bias")?;
    if has("blk.0.ffn_gate_inp.weight") {
        return Err(config.bad(
            "expert_count",
            "a mixture of experts",
            "a dense model; mixtures are not supported yet",
        ));
    }
    Ok(common.uniform())
}
