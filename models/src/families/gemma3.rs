//! Gemma 3, the text model: windows on five of six layers with a rotation of their own, norms before and after
//! attention and MLP, normalised queries and keys, scaled embeddings.

use serde_json::Value as Json;

use super::common::{self, Defaults};
use super::{Family, WeightNames, names, rope};
use crate::ops::activation::Activation;
use crate::ops::rope::{RopeScaling, RopeSpec, RopeStyle};
use crate::spec::DecoderSpec;
use crate::weights::{Config, Key, LoadError};

pub(super) const FAMILY: Family = Family {
    name: "Gemma 3",
    model_types: &["gemma3_text", "gemma3"],
    gguf_architectures: &["gemma3"],
    spec,
    hf_names: WeightNames {
        layer: names::LayerNames {
            attention_post_norm: "post_attention_layernorm.weight",
            mlp_norm: "pre_feedforward_layernorm.weight",
            mlp_post_norm: "post_feedforward_layernorm.weight",
            ..names::HF.layer
        },
        ..names::HF
    },
    gguf_names: names::GGUF,
};

const DEFAULTS: Defaults = Defaults {
    hidden_size: Some(2304),
    num_layers: Some(26),
    intermediate_size: Some(9216),
    num_heads: Some(8),
    num_kv_heads: Some(4),
    head_dim: Some(256),
    max_position: 131_072,
    vocab_size: Some(262_208),
    rope_base: 1_000_000.0,
    tied: true,
};
const BIDIRECTIONAL: Key = Key::new("use_bidirectional_attention", "");
const GLOBAL: usize = 0;
const LOCAL: usize = 1;
const LOCAL_BASE: Key = Key::new("rope_local_base_freq", "rope.freq_base_swa");
const DEFAULT_LOCAL_BASE: f64 = 10_000.0;
const PATTERN: Key = Key::new("sliding_window_pattern", "attention.sliding_window_pattern");
const DEFAULT_PATTERN: usize = 6;
const HIDDEN_ACTIVATION: Key = Key::new("hidden_activation", "");
const QUERY_SCALAR: Key = Key::new("query_pre_attn_scalar", "");
const ATTENTION_SOFTCAP: Key = Key::new("attn_logit_softcapping", "attn_logit_softcapping");
const LOGIT_SOFTCAP: Key = Key::new("final_logit_softcapping", "final_logit_softcapping");

fn spec(config: &Config) -> Result<DecoderSpec, LoadError> {
    if config.bool(BIDIRECTIONAL)? == Some(true) {
        return Err(config.bad(
            BIDIRECTIONAL.hf,
            "true (an embedding model)",
            "false; only models that generate text run",
        ));
    }
    let common::Common { num_layers, mut decoder, mut layer } = common::read(config, &DEFAULTS, RopeStyle::Half)?;
    let attention = &mut layer.attention;
    attention.qk_norm = true;
    attention.scale =
        attention_scale(config, decoder.hidden_size, num_layers, attention.num_heads, attention.head_dim)?;
    attention.softcap = softcap(config, ATTENTION_SOFTCAP)?;
    let bias = config.bool(common::ATTENTION_BIAS)?.unwrap_or(false);
    attention.qkv_bias = bias;
    attention.output_bias = bias;
    layer.mlp.activation = common::activation(config, HIDDEN_ACTIVATION, Activation::GeluTanh)?;
    layer.post_norms = true;
    decoder.embedding_scale = Some((decoder.hidden_size as f32).sqrt());
    decoder.logit_softcap = softcap(config, LOGIT_SOFTCAP)?;
    // Hugging Face stores the difference from 1; the GGUF converter adds the 1.
    decoder.norm_weight_offset = if config.is_gguf() { 0.0 } else { 1.0 };
    decoder.ropes = ropes(config, decoder.ropes.remove(0), layer.attention.head_dim, decoder.max_position)?;
    let window = if config.mentions(common::WINDOW) { common::window(config)? } else { Some(4096) };
    let pattern = config.usize(PATTERN)?.filter(|pattern| *pattern > 0).unwrap_or(DEFAULT_PATTERN);
    decoder.layers = common::sliding_layers(config, num_layers, |layer| !(layer + 1).is_multiple_of(pattern))?
        .into_iter()
        .map(|sliding| {
            let mut layer = layer.clone();
            layer.attention.window = window.filter(|_| sliding);
            layer.attention.rope = if sliding { LOCAL } else { GLOBAL };
            layer
        })
        .collect();
    Ok(decoder)
}

/// A soft cap; 0 means none, as in llama.cpp.
fn softcap(config: &Config, key: Key) -> Result<Option<f32>, LoadError> {
    Ok(config.f64(key)?.filter(|cap| *cap > 0.0).map(|cap| cap as f32))
}

/// `query_pre_attn_scalar ^ -1/2`. GGUF files do not have it: it is the head size, but for the 27B model (62 layers),
/// where it is hidden size over heads.
fn attention_scale(
    config: &Config,
    hidden: usize,
    num_layers: usize,
    heads: usize,
    head_dim: usize,
) -> Result<f32, LoadError> {
    let scalar = match config.f64(QUERY_SCALAR)? {
        Some(scalar) if scalar > 0.0 => scalar,
        Some(other) => return Err(config.bad(QUERY_SCALAR.hf, other.to_string(), "a positive number")),
        None if config.is_gguf() && num_layers == 62 => hidden as f64 / heads as f64,
        None if config.is_gguf() => head_dim as f64,
        None => 256.0,
    };
    Ok(scalar.powf(-0.5) as f32)
}

/// The rotations of full and sliding layers. Newer configurations have a set of parameters for each kind of layer;
/// older ones one base for each, and a scaling that holds for full layers only.
fn ropes(config: &Config, common: RopeSpec, head_dim: usize, max_position: usize) -> Result<Vec<RopeSpec>, LoadError> {
    if let Some(parameters) = config.json("rope_parameters")
        && let (Some(full), Some(sliding)) = (parameters.get("full_attention"), parameters.get("sliding_attention"))
    {
        let read = |parameters: &Json, base| rope::from_json(config, Some(parameters), base, head_dim, max_position);
        return Ok(vec![read(full, DEFAULTS.rope_base)?, read(sliding, DEFAULT_LOCAL_BASE)?]);
    }
    let base = config.f64(LOCAL_BASE)?.unwrap_or(DEFAULT_LOCAL_BASE);
    let local = RopeSpec { base, scaling: RopeScaling::None, ..common };
    let local = rope::checked(config, local, LOCAL_BASE, head_dim)?;
    Ok(vec![common, local])
}
