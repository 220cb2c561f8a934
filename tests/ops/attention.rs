//! Attention over the paged cache.

use candle_core::{DType, Device, Tensor};
use taper_models::ops::attention::{AttentionParams, paged_attention, reference};
use taper_models::{Batch, BatchSequence, NULL_BLOCK};

use crate::{assert_close, noise};

/// `(cached before, new)` tokens of each sequence.
type Lengths = &'static [(usize, usize)];

struct Case {
    lengths: Lengths,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    block_size: usize,
    window: Option<usize>,
    softcap: Option<f32>,
}

struct Inputs {
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    batch: Batch,
}

/// Fills the cache with NaN but for the tokens that exist, so that a read of anything else shows.
fn inputs(case: &Case, dtype: DType) -> Inputs {
    let Case { lengths, heads, kv_heads, head_dim, block_size, window, .. } = *case;
    let blocks_of = |(cached, new): &(usize, usize)| (cached + new).div_ceil(block_size);
    let num_blocks = lengths.iter().map(blocks_of).sum::<usize>() + 3;
    let (mut keys, mut values) = (
        vec![f32::NAN; num_blocks * kv_heads * head_dim * block_size],
        vec![f32::NAN; num_blocks * kv_heads * head_dim * block_size],
    );
    let mut next_block = num_blocks as u32;
    let mut batch = Batch::default();
    for (index, lengths @ &(cached, new)) in lengths.iter().enumerate() {
        let context = cached + new;
        let mut table: Vec<u32> = (0..blocks_of(lengths))
            .map(|_| {
                next_block -= 1;
                next_block
            })
            .collect();
        let (k, v) = (
            noise(10 + index as u64, &[context, kv_heads, head_dim]),
            noise(50 + index as u64, &[context, kv_heads, head_dim]),
        );
        let (k, v): (Vec<f32>, Vec<f32>) =
            (k.flatten_all().unwrap().to_vec1().unwrap(), v.flatten_all().unwrap().to_vec1().unwrap());
        for position in 0..context {
            for head in 0..kv_heads {
                for d in 0..head_dim {
                    let from = (position * kv_heads + head) * head_dim + d;
                    let base = (table[position / block_size] as usize * kv_heads + head) * head_dim * block_size;
                    keys[base + d * block_size + position % block_size] = k[from];
                    values[base + position % block_size * head_dim + d] = v[from];
                }
            }
        }
        if let Some(window) = window {
            let first_visible = (cached + 1).saturating_sub(window);
            table[..first_visible / block_size].fill(NULL_BLOCK);
        }
        let query_start = batch.tokens.len();
        batch.tokens.extend(vec![0; new]);
        batch.sequences.push(BatchSequence {
            query_start,
            query_len: new,
            context_len: context,
            block_tables: vec![vec![], table],
        });
    }
    let tensor =
        |data, shape: [usize; 4]| Tensor::from_vec(data, &shape, &Device::Cpu).unwrap().to_dtype(dtype).unwrap();
    Inputs {
        q: noise(1, &[batch.tokens.len(), heads, head_dim]),
        keys: tensor(keys, [num_blocks, kv_heads, head_dim, block_size]),
        values: tensor(values, [num_blocks, kv_heads, block_size, head_dim]),
        batch,
    }
}

fn params(case: &Case) -> AttentionParams {
    // A scale that makes some weights large: softmax is then far from uniform.
    AttentionParams { scale: 1.7, window: case.window, softcap: case.softcap }
}

fn assert_equals_reference(case: &Case) {
    for dtype in [DType::F32, DType::F16] {
        let Inputs { q, keys, values, batch } = inputs(case, dtype);
        let found = paged_attention(&q, &keys, &values, &batch, 1, params(case)).unwrap();
        // The reference multiplies what it does not see by zero, so it gets zeros where the kernel gets NaN.
        let clean = |t: &Tensor| t.eq(t).unwrap().where_cond(t, &t.zeros_like().unwrap()).unwrap();
        let expected = reference(&q, &clean(&keys), &clean(&values), &batch, 1, params(case)).unwrap();
        let Case { lengths, heads, kv_heads, head_dim, block_size, window, softcap } = case;
        let what = format!(
            "{dtype:?} {lengths:?} heads {heads}/{kv_heads}x{head_dim} block {block_size} window {window:?} cap {softcap:?}"
        );
        assert_close(&what, &found, &expected, 2e-5);
    }
}

const PLAIN: Case =
    Case { lengths: &[(0, 1)], heads: 4, kv_heads: 2, head_dim: 16, block_size: 16, window: None, softcap: None };

#[test]
fn one_token_sees_itself() {
    assert_equals_reference(&PLAIN);
}

#[test]
fn ragged_batches_equal_the_reference() {
    let lengths: Lengths = &[(0, 5), (40, 1), (15, 2), (16, 17), (0, 33), (700, 1), (3, 1)];
    for (heads, kv_heads, head_dim, block_size) in
        [(1, 1, 1, 16), (3, 1, 20, 16), (4, 4, 33, 32), (9, 3, 64, 16), (4, 1, 256, 32), (14, 2, 80, 16)]
    {
        assert_equals_reference(&Case { lengths, heads, kv_heads, head_dim, block_size, ..PLAIN });
    }
}

#[test]
fn windows_equal_the_reference() {
    let lengths: Lengths = &[(0, 40), (100, 1), (64, 3), (1500, 1), (700, 20), (2, 1)];
    for window in [1, 5, 16, 17, 600] {
        assert_equals_reference(&Case { lengths, window: Some(window), ..PLAIN });
    }
}

#[test]
fn soft_caps_equal_the_reference() {
    assert_equals_reference(&Case { lengths: &[(0, 20), (530, 1)], softcap: Some(0.7), ..PLAIN });
}

#[test]
fn contexts_of_several_partitions_equal_the_reference() {
    assert_equals_reference(&Case { lengths: &[(2000, 1), (1030, 40), (255, 1), (256, 1), (257, 1)], ..PLAIN });
}

/// The promise that greedy text does not depend on chunking: bit for bit, not within a tolerance.
#[test]
fn a_row_is_the_same_bits_alone_and_in_a_prefill() {
    let case = Case { lengths: &[(0, 1100)], heads: 3, kv_heads: 1, head_dim: 40, ..PLAIN };
    for window in [None, Some(300)] {
        let Inputs { q, keys, values, batch } = inputs(&case, DType::F16);
        let params = AttentionParams { scale: 1.7, window, softcap: None };
        let whole = paged_attention(&q, &keys, &values, &batch, 1, params).unwrap().to_vec2::<f32>().unwrap();
        for row in [0, 15, 16, 255, 256, 257, 1024, 1099] {
            let sequence =
                BatchSequence { query_start: 0, query_len: 1, context_len: row + 1, ..batch.sequences[0].clone() };
            let alone = Batch { tokens: vec![0], sequences: vec![sequence], ..Batch::default() };
            let q = q.narrow(0, row, 1).unwrap();
            let found = paged_attention(&q, &keys, &values, &alone, 1, params).unwrap().to_vec2::<f32>().unwrap();
            assert_eq!(found[0], whole[row], "window {window:?}, row {row}");
        }
    }
}

#[test]
fn a_visible_block_that_was_given_back_is_an_error() {
    let Inputs { q, keys, values, mut batch } = inputs(&Case { lengths: &[(40, 1)], ..PLAIN }, DType::F32);
    batch.sequences[0].block_tables[1][0] = NULL_BLOCK;
    let error = paged_attention(&q, &keys, &values, &batch, 1, params(&PLAIN)).unwrap_err().to_string();
    assert!(error.contains("visible but outside the cache"), "{error}");
}
