//! Qwen 2 and 2.5: Llama's shape with biases on queries, keys and values, and optionally a window on upper layers.

use super::{Family, common, names};
use crate::ops::rope::RopeStyle;
use crate::spec::{DecoderSpec, LayerSpec};
use crate::weights::{Config, Key, LoadError};

pub(super) const FAMILY: Family = Family {
    name: "Qwen2",
    model_types: &["qwen2"],
    gguf_architectures: &["qwen2"],
    spec,
    hf_names: names::HF,
    gguf_names: names::GGUF,
};

const DEFAULTS: common::Defaults =
    common::Defaults { num_kv_heads: Some(32), max_position: 32_768, ..common::LLAMA_DEFAULTS };
const USE_WINDOW: Key = Key::new("use_sliding_window", "");
const MAX_WINDOW_LAYERS: Key = Key::new("max_window_layers", "");

fn spec(config: &Config) -> Result<DecoderSpec, LoadError> {
    let mut common = common::read(config, &DEFAULTS, RopeStyle::Half)?;
    common.layer.attention.qkv_bias = true;
    with_windows(config, common)
}

/// The layers, those from `max_window_layers` on behind the window if the configuration switches it on.
pub(super) fn with_windows(config: &Config, common: common::Common) -> Result<DecoderSpec, LoadError> {
    let window = match config.bool(USE_WINDOW)? {
        Some(true) if !config.mentions(common::WINDOW) => Some(4096),
        Some(true) => common::window(config)?,
        _ => None,
    };
    let first = config.usize(MAX_WINDOW_LAYERS)?.unwrap_or(28);
    let sliding = common::sliding_layers(config, common.num_layers, |layer| window.is_some() && layer >= first)?;
    let layers = sliding
        .into_iter()
        .map(|sliding| {
            let mut layer: LayerSpec = common.layer.clone();
            layer.attention.window = if sliding { window } else { None };
            layer
        })
        .collect();
    Ok(DecoderSpec { layers, ..common.decoder })
}
