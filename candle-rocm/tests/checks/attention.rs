use candle_rocm::Context;
use taper_kernels::attention::{Decode, decode};
use taper_kernels::{DevicePtr, Dtype};

use super::data::{Input, Random, assert_close, input, input_u32, output, rounding, run};

/// One call: everything that a kernel is chosen by or takes.
#[derive(Clone, Debug)]
pub struct Case {
    pub dtype: Dtype,
    pub head_dim: usize,
    pub kv_heads: usize,
    pub group: usize,
    pub block_size: usize,
    pub lengths: Vec<usize>,
    pub window: Option<u32>,
    pub splits: u32,
}

pub fn check(context: &Context) {
    let base = Case {
        dtype: Dtype::F16,
        head_dim: 128,
        kv_heads: 2,
        group: 4,
        block_size: 16,
        lengths: vec![1, 0, 17, 77],
        window: None,
        splits: 1,
    };
    for head_dim in [64, 96, 128, 256] {
        for group in [1, 2, 3, 8] {
            let dtype = if group == 2 { Dtype::Bf16 } else { Dtype::F16 };
            one(context, &Case { head_dim, group, dtype, ..base.clone() });
        }
    }
    one(context, &Case { group: 12, kv_heads: 1, dtype: Dtype::Bf16, ..base.clone() });
    one(context, &Case { block_size: 1, group: 1, ..base.clone() });
    for splits in [2, 5] {
        one(context, &Case { splits, lengths: vec![3, 0, 130], ..base.clone() });
        one(context, &Case { splits, window: Some(40), lengths: vec![3, 39, 40, 41, 130], ..base.clone() });
    }
    one(context, &Case { window: Some(1), lengths: vec![50], dtype: Dtype::Bf16, ..base });
}

pub fn one(context: &Context, case: &Case) {
    let Case { dtype, head_dim, kv_heads, group, block_size, .. } = *case;
    let heads = kv_heads * group;
    let mut random = Random(12);
    let (table, table_width, num_blocks) = table(case, &mut random);
    // Large scores, so that weights differ much.
    let q = input(
        context,
        dtype,
        &random.units(case.lengths.len() * heads * head_dim).iter().map(|x| 3.0 * x).collect::<Vec<_>>(),
    );
    let mut keys = random.units(num_blocks * kv_heads * block_size * head_dim);
    let mut values = random.units(keys.len());
    poison_unused(case, &table, table_width, [&mut keys, &mut values]);
    let (keys, values) = (input(context, dtype, &keys), input(context, dtype, &values));
    let out = output(context, case.lengths.len() * heads * head_dim * dtype.size() as usize);
    let lengths: Vec<u32> = case.lengths.iter().map(|length| *length as u32).collect();
    let (lengths_buffer, table_buffer) = (input_u32(context, &lengths), input_u32(context, &table));
    let mut shape = Decode {
        dtype,
        sequences: lengths.len() as u32,
        heads: heads as u32,
        kv_heads: kv_heads as u32,
        head_dim: head_dim as u32,
        block_size: block_size as u32,
        table_width: table_width as u32,
        window: case.window,
        scale: 1.0 / (head_dim as f32).sqrt(),
        splits: case.splits,
        q: q.buffer.ptr(),
        keys: keys.buffer.ptr(),
        values: values.buffer.ptr(),
        table: table_buffer.ptr(),
        lengths: lengths_buffer.ptr(),
        out: out.buffer.ptr(),
        partial: DevicePtr::NULL,
    };
    let partial = output(context, shape.partial_bytes() as usize);
    shape.partial = partial.buffer.ptr();
    let (first, second) = decode(&shape).unwrap();
    run(context, &first);
    if let Some(join) = &second {
        run(context, join);
    }
    let want = reference(case, &table, table_width, [&q, &keys, &values]);
    // Sums of weighted values, all below 1: f32 errors of scores up to 30, and one rounding.
    let bound = |i: usize| want[i].abs() * 1.01 * rounding(dtype) + 1e-5;
    assert_close(&format!("{case:?}"), &out.values(dtype), &want, bound);
}

/// Blocks of every sequence, in no order; behind a sequence's last one, numbers that must not be followed.
fn table(case: &Case, random: &mut Random) -> (Vec<u32>, usize, usize) {
    let blocks_of = |length: &usize| length.div_ceil(case.block_size);
    let width = case.lengths.iter().map(blocks_of).max().unwrap_or(0) + 1;
    let num_blocks: usize = case.lengths.iter().map(blocks_of).sum::<usize>() + 1;
    let mut free: Vec<u32> = (0..num_blocks as u32).collect();
    let mut table = Vec::new();
    for length in &case.lengths {
        for index in 0..width {
            let block = if index < blocks_of(length) { free.swap_remove(random.below(free.len())) } else { u32::MAX };
            table.push(block);
        }
    }
    (table, width, num_blocks)
}

/// What no sequence holds is NaN.
fn poison_unused(case: &Case, table: &[u32], width: usize, caches: [&mut Vec<f32>; 2]) {
    let (d, kv_heads, block_size) = (case.head_dim, case.kv_heads, case.block_size);
    for cache in caches {
        let mut used = vec![f32::NAN; cache.len()];
        for (sequence, length) in case.lengths.iter().enumerate() {
            for token in 0..*length {
                for kv_head in 0..kv_heads {
                    let block = table[sequence * width + token / block_size] as usize;
                    let at = ((block * kv_heads + kv_head) * block_size + token % block_size) * d;
                    used[at..at + d].copy_from_slice(&cache[at..at + d]);
                }
            }
        }
        *cache = used;
    }
}

fn reference(case: &Case, table: &[u32], width: usize, [q, keys, values]: [&Input; 3]) -> Vec<f64> {
    let (d, kv_heads, block_size) = (case.head_dim, case.kv_heads, case.block_size);
    let heads = kv_heads * case.group;
    let mut out = vec![0.0; case.lengths.len() * heads * d];
    for (sequence, &length) in case.lengths.iter().enumerate() {
        for head in 0..heads {
            let row = (sequence * heads + head) * d;
            let query = &q.values[row..row + d];
            let place = |token: usize| {
                let block = table[sequence * width + token / block_size] as usize;
                ((block * kv_heads + head / case.group) * block_size + token % block_size) * d
            };
            let first = length.saturating_sub(case.window.map_or(length, |window| window as usize));
            let score = |token: usize| {
                let key = &keys.values[place(token)..][..d];
                query.iter().zip(key).map(|(q, k)| q * k).sum::<f64>() / (d as f64).sqrt()
            };
            let scores: Vec<f64> = (first..length).map(score).collect();
            let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = scores.iter().map(|score| (score - highest).exp()).sum();
            for (token, score) in (first..length).zip(&scores) {
                let weight = (score - highest).exp() / total;
                let value = &values.values[place(token)..][..d];
                out[row..row + d].iter_mut().zip(value).for_each(|(out, value)| *out += weight * value);
            }
        }
    }
    out
}
