//! Qwen 3 (dense): Qwen 2's shape with normalised queries and keys instead of biases.

use super::{Family, common, names, qwen2};
use crate::ops::rope::RopeStyle;
use crate::spec::DecoderSpec;
use crate::weights::{Config, LoadError};

pub(super) const FAMILY: Family = Family {
    name: "Qwen3",
    model_types: &["qwen3"],
    gguf_architectures: &["qwen3"],
    spec,
    hf_names: names::HF,
    gguf_names: names::GGUF,
};

const DEFAULTS: common::Defaults =
    common::Defaults { num_kv_heads: Some(32), head_dim: Some(128), max_position: 32_768, ..common::LLAMA_DEFAULTS };

fn spec(config: &Config) -> Result<DecoderSpec, LoadError> {
    let mut common = common::read(config, &DEFAULTS, RopeStyle::Half)?;
    common.layer.attention.qk_norm = true;
    let bias = config.bool(common::ATTENTION_BIAS)?.unwrap_or(false);
    common.layer.attention.qkv_bias = bias;
    common.layer.attention.output_bias = bias;
    qwen2::with_windows(config, common)
}
