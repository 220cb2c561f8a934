//! Writes new keys and values into the paged cache, in place.
//!
//! Keys lie as `[num_blocks, kv_heads, head_dim, block_size]` and values as `[num_blocks, kv_heads, block_size,
//! head_dim]`: in both, the innermost loop of attention runs over contiguous elements and needs no horizontal sum.

use candle_core::{CpuStorage, InplaceOp3, Layout, Result, Tensor, bail};
use half::f16;

use super::rows::Rows;

/// Which half of the cache is written, and so how a block is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheSide {
    Keys,
    Values,
}

/// Writes row `t` of `x` `[T, kv_heads, head_dim]` to slot `slots[t]` (`block * block_size + offset`, u32 `[T]`).
pub fn kv_write(cache: &Tensor, x: &Tensor, slots: &Tensor, side: CacheSide) -> Result<()> {
    if x.device().is_cpu() { cache.inplace_op3(x, slots, &KvWrite { side }) } else { reference(cache, x, slots, side) }
}

/// [`kv_write`] in plain Candle ops; still in place.
pub fn reference(cache: &Tensor, x: &Tensor, slots: &Tensor, side: CacheSide) -> Result<()> {
    let (tokens, heads, head_dim) = x.dims3()?;
    let block_size = block_geometry(cache.dims(), side)?.block_size;
    let mut index = Vec::with_capacity(tokens * heads * head_dim);
    for slot in slots.to_vec1::<u32>()? {
        let (block, offset) = (slot as usize / block_size, slot as usize % block_size);
        for head in 0..heads {
            for d in 0..head_dim {
                let base = (block * heads + head) * head_dim * block_size;
                index.push(match side {
                    CacheSide::Keys => base + d * block_size + offset,
                    CacheSide::Values => base + offset * head_dim + d,
                } as i64);
            }
        }
    }
    let index = Tensor::new(index, x.device())?;
    cache.flatten_all()?.scatter_set(&index, &x.contiguous()?.flatten_all()?.to_dtype(cache.dtype())?, 0)
}

/// Sizes read off a cache tensor's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockGeometry {
    pub(crate) num_blocks: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) block_size: usize,
}

pub(crate) fn block_geometry(dims: &[usize], side: CacheSide) -> Result<BlockGeometry> {
    match (dims, side) {
        (&[num_blocks, kv_heads, head_dim, block_size], CacheSide::Keys)
        | (&[num_blocks, kv_heads, block_size, head_dim], CacheSide::Values) => {
            Ok(BlockGeometry { num_blocks, kv_heads, head_dim, block_size })
        }
        _ => bail!("a cache tensor has four dimensions, got {dims:?}"),
    }
}

struct KvWrite {
    side: CacheSide,
}

impl InplaceOp3 for KvWrite {
    fn name(&self) -> &'static str {
        "kv_write"
    }

    fn cpu_fwd(
        &self,
        cache: &mut CpuStorage,
        lc: &Layout,
        x: &CpuStorage,
        lx: &Layout,
        slots: &CpuStorage,
        ls: &Layout,
    ) -> Result<()> {
        let geometry = block_geometry(lc.dims(), self.side)?;
        let x = Rows::new(x, lx, "kv_write")?;
        let (CpuStorage::U32(slots), Some((from, to))) = (slots, ls.contiguous_offsets()) else {
            bail!("kv_write: slots must be contiguous u32");
        };
        let slots = &slots[from..to];
        let Some((start, end)) = lc.contiguous_offsets() else { bail!("kv_write: the cache must be contiguous") };
        if x.width != geometry.kv_heads * geometry.head_dim || slots.len() != x.count {
            bail!("kv_write: {lx:?} with {} slots does not fit a cache of {geometry:?}", slots.len());
        }
        if let Some(slot) = slots.iter().find(|slot| **slot as usize >= geometry.num_blocks * geometry.block_size) {
            bail!("kv_write: slot {slot} is outside the cache of {geometry:?}");
        }
        match cache {
            CpuStorage::F32(cache) => write(&mut cache[start..end], x, slots, geometry, self.side, |v| v),
            CpuStorage::F16(cache) => write(&mut cache[start..end], x, slots, geometry, self.side, f16::from_f32),
            _ => bail!("kv_write: the cache must be f32 or f16"),
        }
        Ok(())
    }
}

fn write<T>(
    cache: &mut [T],
    x: Rows,
    slots: &[u32],
    geometry: BlockGeometry,
    side: CacheSide,
    convert: impl Fn(f32) -> T,
) {
    let BlockGeometry { kv_heads, head_dim, block_size, .. } = geometry;
    for (t, slot) in slots.iter().enumerate() {
        let (block, offset) = (*slot as usize / block_size, *slot as usize % block_size);
        for (head, x) in x.row(t).chunks_exact(head_dim).enumerate() {
            let cache = &mut cache[(block * kv_heads + head) * head_dim * block_size..][..head_dim * block_size];
            match side {
                CacheSide::Keys => {
                    for (cache, x) in cache[offset..].iter_mut().step_by(block_size).zip(x) {
                        *cache = convert(*x);
                    }
                }
                CacheSide::Values => {
                    for (cache, x) in cache[offset * head_dim..].iter_mut().zip(x) {
                        *cache = convert(*x);
                    }
                }
            }
        }
    }
}
