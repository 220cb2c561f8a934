//! Attention of a ragged batch over the paged KV cache: grouped heads, causal, optionally behind a sliding window.
//!
//! The CPU kernel reads blocks where they lie and keeps a running softmax (Milakov and Gimelshein 2018,
//! arXiv:1805.02867; Dao et al. 2022, arXiv:2205.14135). Keys are taken in partitions of fixed absolute boundaries
//! whose results are merged in order. A long decode spreads partitions over threads, a prefill spreads rows, and both
//! add up in the same order: a token's result does not depend on how its sequence was cut into steps.

use std::ops::Range;

use candle_core::{CpuStorage, CustomOp3, D, DType, Layout, Result, Shape, Tensor, bail};
use half::f16;
use half::slice::HalfFloatSliceExt;

use super::kv_write::{BlockGeometry, CacheSide, block_geometry};
use super::math::{exp, fma};
use super::parallel;
use super::prefetch::prefetch;
use super::rows::Rows;
use crate::batch::{Batch, BatchSequence, NULL_BLOCK};

/// Block sizes the CPU kernel is compiled for.
const BLOCK_SIZES: [usize; 2] = [16, 32];

/// Keys per partition; a multiple of every block size.
const PARTITION: usize = 256;
/// Query rows that share one pass over a block.
const TILE: usize = 16;

/// What a layer's attention computes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionParams {
    /// Factor on `q · k`.
    pub scale: f32,
    /// A query at position `p` sees keys at positions `p - window < k <= p`.
    pub window: Option<usize>,
    /// `softcap * tanh(score / softcap)`, applied after the scale.
    pub softcap: Option<f32>,
}

impl AttentionParams {
    /// First key position that a query at `position` sees.
    fn first_visible(&self, position: usize) -> usize {
        self.window.map_or(0, |window| (position + 1).saturating_sub(window))
    }
}

/// Attention of `q` `[T, heads, head_dim]` over the cache blocks that `batch` names for cache group `group`.
/// `keys` and `values` as [`super::kv_write`] lays them out, already holding this step's tokens. `[T, heads * head_dim]`
pub fn paged_attention(
    q: &Tensor,
    keys: &Tensor,
    values: &Tensor,
    batch: &Batch,
    group: usize,
    params: AttentionParams,
) -> Result<Tensor> {
    if !q.device().is_cpu() {
        return reference(q, keys, values, batch, group, params);
    }
    q.apply_op3_no_bwd(keys, values, &PagedAttention { batch, group, params })
}

/// [`paged_attention`] in plain Candle ops: gathers each sequence's blocks and computes the full score matrix.
pub fn reference(
    q: &Tensor,
    keys: &Tensor,
    values: &Tensor,
    batch: &Batch,
    group: usize,
    params: AttentionParams,
) -> Result<Tensor> {
    let geometry = block_geometry(keys.dims(), CacheSide::Keys)?;
    let rows: Vec<Tensor> = batch
        .sequences
        .iter()
        .map(|sequence| {
            let q = q.narrow(0, sequence.query_start, sequence.query_len)?;
            sequence_reference(&q, keys, values, sequence, group, params, geometry)
        })
        .collect::<Result<_>>()?;
    Tensor::cat(&rows, 0)
}

fn sequence_reference(
    q: &Tensor, // [t, heads, head_dim]
    keys: &Tensor,
    values: &Tensor,
    sequence: &BatchSequence,
    group: usize,
    params: AttentionParams,
    geometry: BlockGeometry,
) -> Result<Tensor> {
    let BlockGeometry { kv_heads, head_dim, block_size, .. } = geometry;
    let (tokens, heads, _) = q.dims3()?;
    let context = sequence.context_len;
    let table: Vec<u32> = sequence.block_tables[group].iter().map(|b| if *b == NULL_BLOCK { 0 } else { *b }).collect();
    let (blocks, device) = (table.len(), q.device());
    // Keys that no row sees may be garbage, which no mask makes good.
    let seen = params.first_visible(context - tokens);
    let table = Tensor::new(table, device)?;
    let gather = |cache: &Tensor, permutation: [usize; 4]| -> Result<Tensor> {
        let gathered = cache.index_select(&table, 0)?.permute(permutation)?.contiguous()?; // [kv_heads, blocks, block_size, head_dim]
        gathered
            .reshape((kv_heads, blocks * block_size, head_dim))?
            .narrow(1, seen, context - seen)?
            .to_dtype(DType::F32)
    };
    let keys = gather(keys, [1, 0, 3, 2])?;
    let values = gather(values, [1, 0, 2, 3])?;
    let expand = |x: &Tensor| -> Result<Tensor> {
        let shape = (kv_heads, heads / kv_heads, context - seen, head_dim);
        x.unsqueeze(1)?.broadcast_as(shape)?.reshape((heads, context - seen, head_dim))
    };
    let q = q.transpose(0, 1)?.contiguous()?.to_dtype(DType::F32)?; // [heads, t, head_dim]
    let mut scores = (q.matmul(&expand(&keys)?.transpose(1, 2)?.contiguous()?)? * f64::from(params.scale))?;
    if let Some(cap) = params.softcap {
        scores = ((scores / f64::from(cap))?.tanh()? * f64::from(cap))?;
    }
    let mask = causal_mask(sequence, params, device)?.narrow(1, seen, context - seen)?;
    let scores = scores.broadcast_add(&mask)?; // [heads, t, context - seen]
    let weights = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)?.exp()?;
    let weights = weights.broadcast_div(&weights.sum_keepdim(D::Minus1)?)?;
    weights.matmul(&expand(&values)?)?.transpose(0, 1)?.reshape((tokens, heads * head_dim))
}

/// 0 where a row sees a key, -inf where not. `[t, context]`
fn causal_mask(sequence: &BatchSequence, params: AttentionParams, device: &candle_core::Device) -> Result<Tensor> {
    let (tokens, context) = (sequence.query_len, sequence.context_len);
    let mask: Vec<f32> = (context - tokens..context)
        .flat_map(|p| {
            (0..context).map(move |k| if k >= params.first_visible(p) && k <= p { 0.0 } else { f32::NEG_INFINITY })
        })
        .collect();
    Tensor::from_vec(mask, (tokens, context), device)
}

struct PagedAttention<'a> {
    batch: &'a Batch,
    group: usize,
    params: AttentionParams,
}

impl CustomOp3 for PagedAttention<'_> {
    fn name(&self) -> &'static str {
        "paged_attention"
    }

    fn cpu_fwd(
        &self,
        q: &CpuStorage,
        lq: &Layout,
        keys: &CpuStorage,
        lk: &Layout,
        values: &CpuStorage,
        lv: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let geometry = block_geometry(lk.dims(), CacheSide::Keys)?;
        if geometry != block_geometry(lv.dims(), CacheSide::Values)? {
            bail!("paged_attention: keys {lk:?} and values {lv:?} differ");
        }
        let (Some((k0, k1)), Some((v0, v1))) = (lk.contiguous_offsets(), lv.contiguous_offsets()) else {
            bail!("paged_attention: the cache must be contiguous");
        };
        let heads = lq.shape().dims3()?.1;
        let q = Rows::new(q, lq, "paged_attention")?;
        if q.width != heads * geometry.head_dim || !heads.is_multiple_of(geometry.kv_heads) {
            bail!("paged_attention: queries {lq:?} do not fit a cache of {geometry:?}");
        }
        self.check(q.count, geometry)?;
        let out = match (keys, values) {
            (CpuStorage::F32(k), CpuStorage::F32(v)) => self.run(q, &k[k0..k1], &v[v0..v1], geometry, heads),
            (CpuStorage::F16(k), CpuStorage::F16(v)) => self.run(q, &k[k0..k1], &v[v0..v1], geometry, heads),
            _ => bail!("paged_attention: the cache must be f32 or f16"),
        }?;
        Ok((CpuStorage::F32(out), (q.count, q.width).into()))
    }
}

/// One thread's piece: some rows of one sequence, some partitions of keys. All heads, since they lie together in a block.
struct Unit<'a> {
    sequence: &'a BatchSequence,
    rows: Range<usize>,
    partitions: Range<usize>,
    result: States,
}

/// Running softmaxes of several query vectors.
struct States {
    head_dim: usize,
    /// Per vector: the largest score so far (-inf: none), and the sum of `exp(score - max)`.
    max_sum: Vec<(f32, f32)>,
    /// Per vector: the sum of `exp(score - max) * value`. `[vectors, head_dim]`
    acc: Vec<f32>,
}

impl States {
    fn new(vectors: usize, head_dim: usize) -> Self {
        Self { head_dim, max_sum: vec![(f32::NEG_INFINITY, 0.0); vectors], acc: vec![0.0; vectors * head_dim] }
    }

    fn reset(&mut self) {
        self.max_sum.fill((f32::NEG_INFINITY, 0.0));
        self.acc.fill(0.0);
    }

    /// Takes a block's scores into the running softmax of `vector`, and leaves their weights in their place.
    #[inline(always)]
    fn add_scores<const B: usize>(&mut self, vector: usize, scores: &mut [f32; B]) {
        let (max, sum) = &mut self.max_sum[vector];
        let new_max = max.max(reduce(*scores, f32::max));
        for score in scores.iter_mut() {
            *score = exp(*score - new_max);
        }
        if new_max > *max {
            let rescale = exp(*max - new_max);
            *sum *= rescale;
            self.acc[vector * self.head_dim..][..self.head_dim].iter_mut().for_each(|v| *v *= rescale);
            *max = new_max;
        }
        *sum += reduce(*scores, |a, b| a + b);
    }

    /// Folds vector `from` of `other`, over keys that come after, into vector `to`.
    fn merge(&mut self, to: usize, other: &States, from: usize) {
        let (other_max, other_sum) = other.max_sum[from];
        if other_max == f32::NEG_INFINITY {
            return;
        }
        let other_acc = &other.acc[from * self.head_dim..][..self.head_dim];
        let acc = &mut self.acc[to * self.head_dim..][..self.head_dim];
        let (max, sum) = &mut self.max_sum[to];
        if *max == f32::NEG_INFINITY {
            (*max, *sum) = (other_max, other_sum);
            acc.copy_from_slice(other_acc);
            return;
        }
        let new_max = max.max(other_max);
        let (ours, theirs) = (exp(*max - new_max), exp(other_max - new_max));
        (*max, *sum) = (new_max, *sum * ours + other_sum * theirs);
        for (acc, other) in acc.iter_mut().zip(other_acc) {
            *acc = *acc * ours + other * theirs;
        }
    }
}

/// An element type of the cache.
trait CacheElement: Copy + Sync {
    /// As f32, which is exact.
    fn widen<const N: usize>(elements: &[Self; N]) -> [f32; N];
}

impl CacheElement for f32 {
    #[inline(always)]
    fn widen<const N: usize>(elements: &[Self; N]) -> [f32; N] {
        *elements
    }
}

impl CacheElement for f16 {
    #[inline(always)]
    fn widen<const N: usize>(elements: &[Self; N]) -> [f32; N] {
        let mut wide = [0.0; N];
        elements.convert_to_f32_slice(&mut wide);
        wide
    }
}

impl PagedAttention<'_> {
    /// Everything the kernel relies on, so that a wrong batch is an error and not a read of someone else's keys.
    fn check(&self, rows: usize, geometry: BlockGeometry) -> Result<()> {
        for sequence in &self.batch.sequences {
            let BatchSequence { query_start, query_len, context_len, block_tables } = sequence;
            let Some(table) = block_tables.get(self.group) else {
                bail!("paged_attention: no block table for group {}", self.group)
            };
            if query_start + query_len > rows
                || query_len > context_len
                || table.len() * geometry.block_size < *context_len
            {
                bail!("paged_attention: {rows} rows and {} blocks do not hold {sequence:?}", table.len());
            }
            let first_block = self.params.first_visible(context_len - query_len) / geometry.block_size;
            let blocks = first_block..context_len.div_ceil(geometry.block_size);
            if let Some(block) = table[blocks].iter().find(|block| **block as usize >= geometry.num_blocks) {
                bail!("paged_attention: block {block} is visible but outside the cache of {geometry:?}");
            }
        }
        Ok(())
    }

    fn run<T: CacheElement>(
        &self,
        q: Rows,
        keys: &[T],
        values: &[T],
        geometry: BlockGeometry,
        heads: usize,
    ) -> Result<Vec<f32>> {
        let head_dim = geometry.head_dim;
        let kernel = match geometry.block_size {
            16 => partition_attention::<T, 16>,
            32 => partition_attention::<T, 32>,
            other => bail!("paged_attention: block size {other} is not one of {BLOCK_SIZES:?}"),
        };
        let mut units = self.units(heads, head_dim);
        let work: usize = self.batch.sequences.iter().map(|s| s.query_len * s.context_len * heads * head_dim).sum();
        parallel::for_each(units.iter_mut().collect(), work, |_, unit| {
            let mut partial = States::new(unit.result.max_sum.len(), head_dim);
            let mut wide = WideBlock::new(head_dim * geometry.block_size);
            for partition in unit.partitions.clone() {
                partial.reset();
                let range = KeyRange { partition, params: self.params, table: &unit.sequence.block_tables[self.group] };
                kernel(q, keys, values, geometry, range, unit, &mut partial, &mut wide);
                for vector in 0..partial.max_sum.len() {
                    unit.result.merge(vector, &partial, vector);
                }
            }
        });
        Ok(finish(&units, q.count, heads, head_dim))
    }

    /// A single row is spread over partitions; more rows are spread in tiles, each over all of its keys.
    fn units(&self, heads: usize, head_dim: usize) -> Vec<Unit<'_>> {
        let mut units = Vec::new();
        for sequence in &self.batch.sequences {
            let first_position = sequence.context_len - sequence.query_len;
            for start in (0..sequence.query_len).step_by(TILE) {
                let rows = start..sequence.query_len.min(start + TILE);
                let first = self.params.first_visible(first_position + rows.start) / PARTITION;
                let end = (first_position + rows.end).div_ceil(PARTITION);
                let step = if rows.len() == 1 { 1 } else { end - first };
                for partition in (first..end).step_by(step) {
                    let result = States::new(rows.len() * heads, head_dim);
                    units.push(Unit { sequence, rows: rows.clone(), partitions: partition..partition + step, result });
                }
            }
        }
        units
    }
}

/// Merges the units' results, which are in ascending order of keys, and divides by the sums. `[T * heads * head_dim]`
fn finish(units: &[Unit], tokens: usize, heads: usize, head_dim: usize) -> Vec<f32> {
    let mut out = States::new(tokens * heads, head_dim);
    for unit in units {
        let first = (unit.sequence.query_start + unit.rows.start) * heads;
        for vector in 0..unit.rows.len() * heads {
            out.merge(first + vector, &unit.result, vector);
        }
    }
    for (acc, (_, sum)) in out.acc.chunks_exact_mut(head_dim).zip(&out.max_sum) {
        acc.iter_mut().for_each(|v| *v /= sum);
    }
    out.acc
}

/// Which keys a call looks at.
struct KeyRange<'a> {
    partition: usize,
    params: AttentionParams,
    table: &'a [u32],
}

/// One KV head's part of a block as f32.
struct WideBlock {
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl WideBlock {
    fn new(elements: usize) -> Self {
        Self { keys: vec![0.0; elements], values: vec![0.0; elements] }
    }
}

/// Attention of a unit's rows over the keys of one partition, into `states` (`[rows, heads]` vectors).
#[allow(clippy::too_many_arguments)] // a kernel: one caller, a few lines above
fn partition_attention<T: CacheElement, const B: usize>(
    q: Rows,
    keys: &[T],
    values: &[T],
    geometry: BlockGeometry,
    range: KeyRange,
    unit: &Unit,
    states: &mut States,
    wide: &mut WideBlock,
) {
    let BlockGeometry { kv_heads, head_dim, .. } = geometry;
    let first_position = unit.sequence.context_len - unit.sequence.query_len;
    let positions = first_position + unit.rows.start..first_position + unit.rows.end;
    let from = range.params.first_visible(positions.start).max(range.partition * PARTITION);
    let to = positions.end.min((range.partition + 1) * PARTITION);
    let heads = states.max_sum.len() / unit.rows.len();
    let group_heads = heads / kv_heads;
    let blocks = from / B..to.div_ceil(B);
    // Where a block's part for one KV head lies, in keys as in values.
    let part = |block: usize, kv_head: usize| {
        let start = (range.table[block] as usize * kv_heads + kv_head) * head_dim * B;
        start..start + head_dim * B
    };
    for block in blocks.clone() {
        for kv_head in 0..kv_heads {
            let next = if kv_head + 1 < kv_heads { (block, kv_head + 1) } else { (block + 1, 0) };
            let next_keys = if next.0 < blocks.end { &keys[part(next.0, next.1)] } else { &[] };
            let part = Part { keys: &keys[part(block, kv_head)], values: &values[part(block, kv_head)], next_keys };
            // Several rows read a part many times, so it pays to widen it once; for a single row it is widened on the
            // way into the products.
            let widened = (unit.rows.len() > 1).then(|| part.widen::<B>(wide));
            for (i, position) in positions.clone().enumerate() {
                let visible = range.params.first_visible(position).saturating_sub(block * B)
                    ..(position + 1).saturating_sub(block * B).min(B);
                if visible.is_empty() {
                    continue;
                }
                let q = q.row(unit.sequence.query_start + unit.rows.start + i);
                let q = &q[kv_head * group_heads * head_dim..][..group_heads * head_dim];
                let first = i * heads + kv_head * group_heads;
                match widened {
                    Some(part) => row_attention::<f32, B>(q, part, range.params, visible, states, first),
                    None => row_attention::<T, B>(q, part, range.params, visible, states, first),
                }
            }
        }
    }
}

/// One KV head's keys `[head_dim, B]` and values `[B, head_dim]` of a block.
#[derive(Clone, Copy)]
struct Part<'a, T> {
    keys: &'a [T],
    values: &'a [T],
    /// The keys of the part after this one. Blocks lie anywhere, so the hardware does not see them coming.
    next_keys: &'a [T],
}

impl<T: CacheElement> Part<'_, T> {
    fn widen<'a, const B: usize>(&self, wide: &'a mut WideBlock) -> Part<'a, f32> {
        prefetch(self.values);
        widen_all::<T, B>(self.keys, &mut wide.keys);
        prefetch(self.next_keys);
        widen_all::<T, B>(self.values, &mut wide.values);
        Part { keys: &wide.keys, values: &wide.values, next_keys: &[] }
    }
}

fn widen_all<T: CacheElement, const B: usize>(elements: &[T], wide: &mut [f32]) {
    for (elements, wide) in elements.as_chunks::<B>().0.iter().zip(wide.as_chunks_mut::<B>().0) {
        *wide = T::widen(elements);
    }
}

/// Attention of a row's heads `q` `[group_heads, head_dim]`, which share a KV head, over a part of a block, into the
/// vectors of `states` from `first`.
#[inline(always)]
fn row_attention<T: CacheElement, const B: usize>(
    q: &[f32],
    part: Part<T>,
    params: AttentionParams,
    visible: Range<usize>,
    states: &mut States,
    first: usize,
) {
    let heads = q.len() / states.head_dim;
    let mut done = 0;
    while done < heads {
        let q = &q[done * states.head_dim..];
        // What is loaded and widened serves as many heads as have room for their sums in 16 vector registers.
        done += match heads - done {
            1 => heads_attention::<T, B, 1>(q, part, params, &visible, states, first + done),
            2 => heads_attention::<T, B, 2>(q, part, params, &visible, states, first + done),
            _ => heads_attention::<T, B, 3>(q, part, params, &visible, states, first + done),
        };
    }
}

/// The same for the first `H` heads of `q`; returns `H`.
#[inline(always)]
fn heads_attention<T: CacheElement, const B: usize, const H: usize>(
    q: &[f32],
    part: Part<T>,
    params: AttentionParams,
    visible: &Range<usize>,
    states: &mut States,
    first: usize,
) -> usize {
    let head_dim = states.head_dim;
    let mut weights = dot_keys::<T, B, H>(q, head_dim, part.keys, part.values);
    for (h, scores) in weights.iter_mut().enumerate() {
        finish_scores(scores, params, visible);
        states.add_scores(first + h, scores);
    }
    let acc = &mut states.acc[first * head_dim..][..H * head_dim];
    add_values(acc, &weights, part.values, head_dim, visible.end, part.next_keys);
    H
}

/// `q · k` for each key of a block and each of `H` heads. `q` `[H, head_dim]`, `keys` `[head_dim, B]`.
/// `upcoming` is asked for on the way.
#[inline(always)]
fn dot_keys<T: CacheElement, const B: usize, const H: usize>(
    q: &[f32],
    head_dim: usize,
    keys: &[T],
    upcoming: &[T],
) -> [[f32; B]; H] {
    let keys = &keys.as_chunks::<B>().0[..head_dim];
    let q: [&[f32]; H] = std::array::from_fn(|h| &q[h * head_dim..][..head_dim]);
    let mut upcoming = upcoming.chunks(B);
    let mut sums = [[0f32; B]; H];
    for (d, key) in keys.iter().enumerate() {
        prefetch(upcoming.next().unwrap_or_default());
        let key = T::widen(key);
        for h in 0..H {
            add_scaled(&mut sums[h], q[h][d], &key);
        }
    }
    sums
}

/// `sums += factor * values`.
#[inline(always)]
fn add_scaled<const N: usize>(sums: &mut [f32; N], factor: f32, values: &[f32; N]) {
    for j in 0..N {
        sums[j] = fma(factor, values[j], sums[j]);
    }
}

#[inline(always)]
fn finish_scores<const B: usize>(scores: &mut [f32; B], params: AttentionParams, visible: &Range<usize>) {
    for (j, score) in scores.iter_mut().enumerate() {
        *score *= params.scale;
        if let Some(cap) = params.softcap {
            *score = cap * (*score / cap).tanh();
        }
        if !visible.contains(&j) {
            *score = f32::NEG_INFINITY;
        }
    }
}

/// Folds by halves, which vectorises where a fold from the left cannot. `B` is a power of two.
#[inline(always)]
fn reduce<const B: usize>(mut x: [f32; B], f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut half = B / 2;
    while half > 0 {
        for j in 0..half {
            x[j] = f(x[j], x[j + half]);
        }
        half /= 2;
    }
    x[0]
}

/// `acc += weights · values` for `H` heads: `acc` `[H, head_dim]`, `values` `[B, head_dim]`, of which only the first
/// `end` rows are read. `upcoming` is asked for on the way.
#[inline(always)]
fn add_values<T: CacheElement, const B: usize, const H: usize>(
    acc: &mut [f32],
    weights: &[[f32; B]; H],
    values: &[T],
    head_dim: usize,
    end: usize,
    upcoming: &[T],
) {
    let mut upcoming = upcoming.chunks(B);
    let mut done = 0;
    while done + 32 <= head_dim {
        add_columns::<T, B, H, 32>(acc, weights, &values[done..], head_dim, end, done, &mut upcoming);
        done += 32;
    }
    while done + 8 <= head_dim {
        add_columns::<T, B, H, 8>(acc, weights, &values[done..], head_dim, end, done, &mut upcoming);
        done += 8;
    }
    while done < head_dim {
        add_columns::<T, B, H, 1>(acc, weights, &values[done..], head_dim, end, done, &mut upcoming);
        done += 1;
    }
}

/// The same for columns `from..from + N`, whose sums stay in registers over all keys.
#[inline(always)]
fn add_columns<T: CacheElement, const B: usize, const H: usize, const N: usize>(
    acc: &mut [f32],
    weights: &[[f32; B]; H],
    values: &[T],
    head_dim: usize,
    end: usize,
    from: usize,
    upcoming: &mut std::slice::Chunks<T>,
) {
    let mut sums: [[f32; N]; H] =
        std::array::from_fn(|h| *acc[h * head_dim + from..].first_chunk().expect("N columns"));
    for (j, value) in values.chunks(head_dim).enumerate().take(end) {
        prefetch(upcoming.next().unwrap_or_default());
        let Some(value) = value.first_chunk() else { break };
        let value = T::widen(value);
        for h in 0..H {
            add_scaled(&mut sums[h], weights[h][j], &value);
        }
    }
    for (h, sums) in sums.iter().enumerate() {
        acc[h * head_dim + from..][..N].copy_from_slice(sums);
    }
}
