//! The paged KV cache: how layers share blocks, and the tensors that hold them.
//!
//! Layers that keep tokens for the same time form a *kind* (full attention, or a window of some length). Kinds are cut
//! into *groups* of equally many layers, and a physical block holds `block_size` tokens of one group. So one pool of
//! blocks serves all kinds, and a sliding-window group gives blocks back that a full-attention group can take:
//!
//! ```text
//! layers    S S S S S F S S S S S F    S: behind a window, F: full attention
//! groups    A A B B C F C D D E E F    each of as many layers as the rarest kind has
//! block 7   tokens 32..48 of one sequence, in the layers of one group
//! ```

use candle_core::{DType, Device, Result, Tensor};
use half::f16;
use half::vec::HalfBitsVecExt;

use crate::spec::DecoderSpec;

/// Which layers share a block table.
#[derive(Debug, Clone, PartialEq)]
pub struct CachePlan {
    pub groups: Vec<CacheGroup>,
    /// Per layer, where its keys and values lie.
    pub layers: Vec<LayerPlace>,
    pub layers_per_group: usize,
    pub num_kv_heads: usize,
    pub head_dim: usize,
}

/// A set of layers with one block table per sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheGroup {
    /// Tokens further back than this are never read again. `None`: all are.
    pub window: Option<usize>,
}

/// A layer's group, and its index within the group's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerPlace {
    pub group: usize,
    pub index: usize,
}

impl CachePlan {
    /// Groups the layers of `spec`. Fails if layers differ in KV heads or head size, which one pool cannot hold.
    pub fn new(spec: &DecoderSpec) -> Result<Self> {
        let shape = |layer: &crate::spec::LayerSpec| (layer.attention.num_kv_heads, layer.attention.head_dim);
        let Some((num_kv_heads, head_dim)) = spec.layers.first().map(shape) else {
            candle_core::bail!("a decoder without layers");
        };
        if let Some(odd) = spec.layers.iter().position(|layer| shape(layer) != (num_kv_heads, head_dim)) {
            candle_core::bail!(
                "layer {odd} has other KV heads or another head size than layer 0; that is not supported"
            );
        }
        let kinds = layers_by_kind(spec);
        let layers_per_group = kinds.iter().map(|(_, layers)| layers.len()).min().unwrap_or(1);
        let mut groups = Vec::new();
        let mut places = vec![LayerPlace { group: 0, index: 0 }; spec.layers.len()];
        for (window, layers) in kinds {
            for chunk in layers.chunks(layers_per_group) {
                for (index, layer) in chunk.iter().enumerate() {
                    places[*layer] = LayerPlace { group: groups.len(), index };
                }
                groups.push(CacheGroup { window });
            }
        }
        Ok(Self { groups, layers: places, layers_per_group, num_kv_heads, head_dim })
    }

    /// Bytes of one physical block.
    pub fn block_bytes(&self, block_size: usize, dtype: DType) -> usize {
        2 * self.layers_per_group * self.num_kv_heads * self.head_dim * block_size * dtype.size_in_bytes()
    }

    /// Windows of the groups, in order.
    pub fn windows(&self) -> Vec<Option<usize>> {
        self.groups.iter().map(|group| group.window).collect()
    }
}

/// Layers with the same window, in the order in which the windows first occur.
fn layers_by_kind(spec: &DecoderSpec) -> Vec<(Option<usize>, Vec<usize>)> {
    let mut kinds: Vec<(Option<usize>, Vec<usize>)> = Vec::new();
    for (index, layer) in spec.layers.iter().enumerate() {
        match kinds.iter_mut().find(|(window, _)| *window == layer.attention.window) {
            Some((_, layers)) => layers.push(index),
            None => kinds.push((layer.attention.window, vec![index])),
        }
    }
    kinds
}

/// Zeros that, on the CPU, take no memory before they are written: `Tensor::zeros` would touch every page of f16.
fn zeros(shape: (usize, usize, usize, usize), dtype: DType, device: &Device) -> Result<Tensor> {
    if !device.is_cpu() || dtype != DType::F16 {
        return Tensor::zeros(shape, dtype, device);
    }
    let zeros: Vec<f16> = vec![0u16; shape.0 * shape.1 * shape.2 * shape.3].reinterpret_into();
    Tensor::from_vec(zeros, shape, device)
}

/// Keys and values of all sequences.
#[derive(Debug)]
pub struct KvCache {
    pub plan: CachePlan,
    pub num_blocks: usize,
    pub block_size: usize,
    /// Per layer index within a group: `[num_blocks, kv_heads, head_dim, block_size]`.
    keys: Vec<Tensor>,
    /// Per layer index within a group: `[num_blocks, kv_heads, block_size, head_dim]`.
    values: Vec<Tensor>,
}

impl KvCache {
    /// Reserves `num_blocks` blocks. On the CPU the memory is taken as it is first written.
    pub fn new(plan: CachePlan, num_blocks: usize, block_size: usize, dtype: DType, device: &Device) -> Result<Self> {
        let (heads, dim) = (plan.num_kv_heads, plan.head_dim);
        let tensors = |shape: (usize, usize, usize, usize)| -> Result<Vec<Tensor>> {
            (0..plan.layers_per_group).map(|_| zeros(shape, dtype, device)).collect()
        };
        let keys = tensors((num_blocks, heads, dim, block_size))?;
        let values = tensors((num_blocks, heads, block_size, dim))?;
        Ok(Self { plan, num_blocks, block_size, keys, values })
    }

    /// Keys and values that `layer` writes and reads.
    pub fn layer(&self, layer: usize) -> (&Tensor, &Tensor) {
        let place = self.plan.layers[layer];
        (&self.keys[place.index], &self.values[place.index])
    }

    /// Fills the cache with `value`. Tests poison it with NaN, so that reading what was never written shows.
    pub fn fill(&self, value: f32) -> Result<()> {
        for tensor in self.keys.iter().chain(&self.values) {
            let dtype = tensor.dtype();
            tensor.const_set(match dtype {
                DType::F16 => f16::from_f32(value).into(),
                _ => value.into(),
            })?;
        }
        Ok(())
    }
}
