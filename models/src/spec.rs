//! A decoder described by data: what a family says about a checkpoint, and all that the decoder needs to know.

use crate::ops::activation::Activation;
use crate::ops::rope::{RopeScaling, RopeSpec};

/// A decoder-only transformer.
#[derive(Debug, Clone, PartialEq)]
pub struct DecoderSpec {
    pub vocab_size: usize,
    pub hidden_size: usize,
    /// Longest sequence the checkpoint is made for.
    pub max_position: usize,
    pub norm_eps: f32,
    /// Added to every norm weight: 1 for checkpoints that store the difference from 1.
    pub norm_weight_offset: f32,
    /// Factor on token embeddings.
    pub embedding_scale: Option<f32>,
    /// The output projection is the embedding table.
    pub tied_embeddings: bool,
    /// `softcap * tanh(logits / softcap)`.
    pub logit_softcap: Option<f32>,
    /// Rotary embeddings in use; layers refer to them by index.
    pub ropes: Vec<RopeSpec>,
    pub layers: Vec<LayerSpec>,
}

/// One layer: attention and MLP, each behind a norm, added to the residual.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerSpec {
    pub attention: AttentionSpec,
    pub mlp: MlpSpec,
    /// Attention's and MLP's outputs are normalised before they are added (Gemma's "sandwich").
    pub post_norms: bool,
}

/// Softmax attention with grouped heads.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionSpec {
    pub num_heads: usize,
    pub num_kv_heads: usize,
    pub head_dim: usize,
    pub scale: f32,
    /// Sees the last `window` positions only, its own included.
    pub window: Option<usize>,
    pub softcap: Option<f32>,
    /// Index into [`DecoderSpec::ropes`].
    pub rope: usize,
    /// RMS norm over each head of queries and keys, before the rotation.
    pub qk_norm: bool,
    /// Biases on the query, key and value projections.
    pub qkv_bias: bool,
    pub output_bias: bool,
}

/// A gated MLP: `down(act(gate(x)) * up(x))`.
#[derive(Debug, Clone, PartialEq)]
pub struct MlpSpec {
    pub intermediate_size: usize,
    pub activation: Activation,
    pub bias: bool,
}

impl DecoderSpec {
    /// Longest sequence that can be asked for: `max_position`, or what scaled rotations stretch it to, since many
    /// configurations state the length before scaling.
    pub fn context_limit(&self) -> usize {
        let stretched = self.ropes.iter().filter_map(|rope| match rope.scaling {
            RopeScaling::Dynamic { factor, original_max_position }
            | RopeScaling::Yarn { factor, original_max_position, .. } => {
                Some((original_max_position as f64 * factor) as usize)
            }
            RopeScaling::Linear { factor } => Some((self.max_position as f64 * factor) as usize),
            _ => None,
        });
        stretched.max().unwrap_or(self.max_position).max(self.max_position)
    }

    /// Bytes of KV cache that one token takes in all layers together, at `element_size` bytes a number.
    pub fn kv_bytes_per_token(&self, element_size: usize) -> usize {
        self.layers.iter().map(|layer| 2 * layer.attention.num_kv_heads * layer.attention.head_dim * element_size).sum()
    }
}
