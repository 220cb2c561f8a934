//! Hyper-parameters that all families have, under the names that both formats give them.

use super::rope;
use crate::ops::activation::Activation;
use crate::ops::rope::RopeStyle;
use crate::spec::{AttentionSpec, DecoderSpec, LayerSpec, MlpSpec};
use crate::weights::file::{brief, brief_message};
use crate::weights::{Config, Key, LoadError};

pub const HIDDEN_SIZE: Key = Key::new("hidden_size", "embedding_length");
pub const NUM_LAYERS: Key = Key::new("num_hidden_layers", "block_count");
pub const INTERMEDIATE_SIZE: Key = Key::new("intermediate_size", "feed_forward_length");
pub const NUM_HEADS: Key = Key::new("num_attention_heads", "attention.head_count");
pub const NUM_KV_HEADS: Key = Key::new("num_key_value_heads", "attention.head_count_kv");
pub const HEAD_DIM: Key = Key::new("head_dim", "attention.key_length");
pub const VALUE_DIM: Key = Key::new("", "attention.value_length");
pub const MAX_POSITION: Key = Key::new("max_position_embeddings", "context_length");
pub const NORM_EPS: Key = Key::new("rms_norm_eps", "attention.layer_norm_rms_epsilon");
pub const VOCAB_SIZE: Key = Key::new("vocab_size", "vocab_size");
pub const WINDOW: Key = Key::new("sliding_window", "attention.sliding_window");
pub const ACTIVATION: Key = Key::new("hidden_act", "");
pub const ATTENTION_BIAS: Key = Key::new("attention_bias", "");
pub const MLP_BIAS: Key = Key::new("mlp_bias", "");
pub const TIED: Key = Key::new("tie_word_embeddings", "");

/// What a configuration class of `transformers` assumes where `config.json` is silent. `None`: the file must say it,
/// or for KV heads and head size, they follow from the other sizes.
#[derive(Debug, Clone, Copy)]
pub struct Defaults {
    pub hidden_size: Option<usize>,
    pub num_layers: Option<usize>,
    pub intermediate_size: Option<usize>,
    pub num_heads: Option<usize>,
    pub num_kv_heads: Option<usize>,
    pub head_dim: Option<usize>,
    pub max_position: usize,
    pub vocab_size: Option<usize>,
    pub rope_base: f64,
    pub tied: bool,
}

/// Llama's, on which the others build.
pub const LLAMA_DEFAULTS: Defaults = Defaults {
    hidden_size: None,
    num_layers: None,
    intermediate_size: None,
    num_heads: None,
    num_kv_heads: None,
    head_dim: None,
    max_position: 2048,
    vocab_size: None,
    rope_base: 10_000.0,
    tied: false,
};

/// The sizes every family starts from.
pub struct Common {
    pub num_layers: usize,
    /// A decoder with everything but its layers.
    pub decoder: DecoderSpec,
    /// The plainest layer that these hyper-parameters describe: full attention, no biases, no extra norms.
    pub layer: LayerSpec,
}

/// Reads the common hyper-parameters. `style` is the rotation's layout in GGUF files; in `config.json` it is `Half`.
pub fn read(config: &Config, defaults: &Defaults, gguf_style: RopeStyle) -> Result<Common, LoadError> {
    let size = |key: Key, default: Option<usize>| match (config.usize(key)?, default) {
        (None, Some(default)) if !config.is_gguf() => Ok(default),
        _ => config.require_usize(key),
    };
    let hidden_size = size(HIDDEN_SIZE, defaults.hidden_size)?;
    let num_heads = size(NUM_HEADS, defaults.num_heads)?;
    let default_of = |default: Option<usize>| if config.is_gguf() { None } else { default };
    let num_kv_heads = config.usize(NUM_KV_HEADS)?.or(default_of(defaults.num_kv_heads)).unwrap_or(num_heads);
    if num_kv_heads == 0 || !num_heads.is_multiple_of(num_kv_heads) {
        return Err(config.bad(
            &NUM_KV_HEADS.name(config),
            num_kv_heads.to_string(),
            format!("a divisor of the {num_heads} attention heads"),
        ));
    }
    let head_dim = match config.usize(HEAD_DIM)?.or(default_of(defaults.head_dim)) {
        Some(0) => return Err(config.bad(&HEAD_DIM.name(config), "0", "a positive count")),
        Some(head_dim) => head_dim,
        None if hidden_size.is_multiple_of(num_heads) => hidden_size / num_heads,
        None => {
            let expected = format!("a multiple of the {num_heads} attention heads, where no head size is given");
            return Err(config.bad(&HIDDEN_SIZE.name(config), hidden_size.to_string(), expected));
        }
    };
    if config.usize(VALUE_DIM)?.is_some_and(|value_dim| value_dim != head_dim) {
        return Err(config.bad(&VALUE_DIM.name(config), "another size than the keys'", head_dim.to_string()));
    }
    let intermediate_size = size(INTERMEDIATE_SIZE, defaults.intermediate_size)?;
    let num_layers = size(NUM_LAYERS, defaults.num_layers)?;
    let widths = [
        (HIDDEN_SIZE.name(config), hidden_size),
        (INTERMEDIATE_SIZE.name(config), intermediate_size),
        ("heads times head size".to_owned(), num_heads.saturating_mul(head_dim)),
    ];
    check_sizes(config, &widths, num_layers)?;
    let max_position = max_position(config, defaults)?;
    let rope = rope::read(config, defaults.rope_base, head_dim, max_position, rope_style(config, gguf_style))?;
    let decoder = DecoderSpec {
        vocab_size: vocab_size(config, defaults)?,
        hidden_size,
        max_position,
        norm_eps: norm_eps(config)?,
        norm_weight_offset: 0.0,
        embedding_scale: None,
        tied_embeddings: tied(config, defaults)?,
        logit_softcap: None,
        ropes: vec![rope],
        layers: Vec::new(),
    };
    let attention = AttentionSpec {
        num_heads,
        num_kv_heads,
        head_dim,
        scale: (head_dim as f32).powf(-0.5),
        window: None,
        softcap: None,
        rope: 0,
        qk_norm: false,
        qkv_bias: false,
        output_bias: false,
    };
    let mlp = MlpSpec { intermediate_size, activation: activation(config, ACTIVATION, Activation::Silu)?, bias: false };
    let layer = LayerSpec { attention, mlp, post_norms: false };
    Ok(Common { num_layers, decoder, layer })
}

/// Refuses sizes that no file of ours could hold, before anything is made of them or multiplied with them.
fn check_sizes(config: &Config, widths: &[(String, usize)], num_layers: usize) -> Result<(), LoadError> {
    const MAX_WIDTH: usize = 1 << 24;
    if let Some((name, width)) = widths.iter().find(|(_, width)| *width == 0 || *width > MAX_WIDTH) {
        return Err(config.bad(name, width.to_string(), format!("between 1 and {MAX_WIDTH}")));
    }
    let tensors = config.directory().tensors.len();
    if num_layers > tensors {
        return Err(config.bad(
            &NUM_LAYERS.name(config),
            num_layers.to_string(),
            format!("no more layers than the {tensors} tensors in the file"),
        ));
    }
    Ok(())
}

/// Positions are numbered with 32 bits in places, and tables of blocks are sized by them.
pub(super) const MAX_POSITIONS: usize = 1 << 27;

fn max_position(config: &Config, defaults: &Defaults) -> Result<usize, LoadError> {
    match config.usize(MAX_POSITION)?.unwrap_or(defaults.max_position) {
        positions @ 1..=MAX_POSITIONS => Ok(positions),
        other => {
            Err(config.bad(&MAX_POSITION.name(config), other.to_string(), format!("between 1 and {MAX_POSITIONS}")))
        }
    }
}

fn norm_eps(config: &Config) -> Result<f32, LoadError> {
    match config.f64(NORM_EPS)?.unwrap_or(1e-6) {
        eps if (0.0..=1.0).contains(&eps) => Ok(eps as f32),
        other => Err(config.bad(&NORM_EPS.name(config), other.to_string(), "a number between 0 and 1")),
    }
}

/// The sliding window in tokens. 0 means none, as in llama.cpp.
pub fn window(config: &Config) -> Result<Option<usize>, LoadError> {
    Ok(config.usize(WINDOW)?.filter(|window| *window > 0))
}

impl Common {
    /// The decoder with all layers alike.
    pub fn uniform(self) -> DecoderSpec {
        let layers = vec![self.layer; self.num_layers];
        DecoderSpec { layers, ..self.decoder }
    }
}

/// The layout of rotated pairs.
pub fn rope_style(config: &Config, gguf_style: RopeStyle) -> RopeStyle {
    if config.is_gguf() { gguf_style } else { RopeStyle::Half }
}

/// `key` as an activation; `default` where the configuration is silent.
pub fn activation(config: &Config, key: Key, default: Activation) -> Result<Activation, LoadError> {
    match config.str(key)?.as_deref() {
        None => Ok(default),
        Some("silu" | "swish") => Ok(Activation::Silu),
        Some("gelu_pytorch_tanh" | "gelu_new" | "gelu_fast") => Ok(Activation::GeluTanh),
        Some("gelu") => Ok(Activation::GeluErf),
        Some(other) => Err(config.bad(key.hf, brief(other), "silu, gelu or gelu_pytorch_tanh")),
    }
}

/// Per layer, whether its attention is behind the window: `layer_types` where the configuration has it, else `rule`.
pub fn sliding_layers(
    config: &Config,
    num_layers: usize,
    rule: impl Fn(usize) -> bool,
) -> Result<Vec<bool>, LoadError> {
    let Some(types) = config.json("layer_types") else {
        return Ok((0..num_layers).map(rule).collect());
    };
    let Some(types) = types.as_array() else {
        return Err(config.bad("layer_types", brief_message(types), "a list, one of each layer"));
    };
    if types.len() != num_layers {
        return Err(config.bad(
            "layer_types",
            format!("a list of {}", types.len()),
            format!("a list of {num_layers}, one per layer"),
        ));
    }
    types
        .iter()
        .map(|ty| match ty.as_str() {
            Some("full_attention") => Ok(false),
            Some("sliding_attention") => Ok(true),
            _ => Err(config.bad("layer_types", brief_message(ty), "full_attention or sliding_attention")),
        })
        .collect()
}

/// Whether the output projection is the embedding table. A GGUF file of a tied model simply has no output tensor.
fn tied(config: &Config, defaults: &Defaults) -> Result<bool, LoadError> {
    if config.is_gguf() {
        return Ok(!config.directory().tensors.contains_key(super::names::GGUF.output));
    }
    Ok(config.bool(TIED)?.unwrap_or(defaults.tied))
}

fn vocab_size(config: &Config, defaults: &Defaults) -> Result<usize, LoadError> {
    // The embedding table is the authority in GGUF files, where vocab_size is optional and sometimes unpadded.
    let embedding =
        config.directory().tensors.get(super::names::GGUF.embedding).and_then(|entry| entry.shape.first().copied());
    if config.is_gguf()
        && let Some(rows) = embedding.filter(|rows| *rows > 0)
    {
        return Ok(rows);
    }
    match config.usize(VOCAB_SIZE)?.or(defaults.vocab_size).or(config.gguf_vocabulary()) {
        Some(size) if size > 0 => Ok(size),
        _ => config.require_usize(VOCAB_SIZE),
    }
}
