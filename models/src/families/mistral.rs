//! Mistral: Llama's shape with an optional sliding window on every layer. Its GGUF files say "llama".

use super::{Family, common, names};
use crate::ops::rope::RopeStyle;
use crate::spec::DecoderSpec;
use crate::weights::{Config, LoadError};

pub(super) const FAMILY: Family = Family {
    name: "Mistral",
    model_types: &["mistral"],
    gguf_architectures: &[],
    spec,
    hf_names: names::HF,
    gguf_names: names::GGUF,
};

const DEFAULTS: common::Defaults =
    common::Defaults { num_kv_heads: Some(8), max_position: 4096 * 32, ..common::LLAMA_DEFAULTS };

fn spec(config: &Config) -> Result<DecoderSpec, LoadError> {
    let mut common = common::read(config, &DEFAULTS, RopeStyle::Interleaved)?;
    // Null means no window; only where nothing is said does the first version's 4096 hold.
    common.layer.attention.window = match common::window(config)? {
        None if !config.mentions(common::WINDOW) => Some(4096),
        given => given,
    };
    Ok(common.uniform())
}
