//! What the reference device computes as a whole: convolutions, and custom ops that it takes by name, in f32. Of candle-core
//! `argsort`, of candle-nn `softmax-last-dim`, `rms-norm`, `layer-norm`, `rotary-emb` and `metal-sdpa`, written from their documentation, so
//! that they check the ops' parameters too.

use crate::storage::ReferenceStorage;
use candle_core::conv::ParamsConv2D;
use candle_core::custom::BoxedStorage;
use candle_core::{DType, Layout, Result, Shape, Storage, Tensor, bail};

type Operand<'a> = (&'a ReferenceStorage, &'a Layout);

/// `columns` is the size of the last dimension. Result: u32, of the same shape.
pub(crate) fn argsort((x, l): Operand, ascending: bool, columns: usize) -> Result<(BoxedStorage, Shape)> {
    let mut order = vec![];
    for row in x.in_order::<f32>(l).chunks(columns.max(1)) {
        let mut indices: Vec<u32> = (0..row.len() as u32).collect();
        indices.sort_by(|&a, &b| {
            let by_value = row[a as usize].total_cmp(&row[b as usize]);
            if ascending { by_value } else { by_value.reverse() }
        });
        order.extend(indices);
    }
    Ok((x.device.collect(order.len(), order), l.shape().clone()))
}

pub(crate) fn softmax((x, l): Operand) -> Result<(BoxedStorage, Shape)> {
    let mut elements = x.in_order::<f32>(l);
    elements.chunks_mut(last(l)).for_each(softmax_row);
    Ok((x.device.collect(elements.len(), elements), l.shape().clone()))
}

/// `weight` is `[columns]`.
pub(crate) fn rms_norm((x, l): Operand, (weight, wl): Operand, epsilon: f32) -> Result<(BoxedStorage, Shape)> {
    let weight = weight.in_order::<f32>(wl);
    let mut elements = x.in_order::<f32>(l);
    for row in elements.chunks_mut(last(l)) {
        let mean_square = row.iter().map(|x| x * x).sum::<f32>() / row.len() as f32;
        let scale = (mean_square + epsilon).sqrt();
        row.iter_mut().zip(&weight).for_each(|(x, weight)| *x = *x / scale * weight);
    }
    Ok((x.device.collect(elements.len(), elements), l.shape().clone()))
}

/// Weight and bias are `[columns]`.
pub(crate) fn layer_norm(operands: [Operand; 3], epsilon: f32) -> Result<(BoxedStorage, Shape)> {
    let [(x, l), (weight, wl), (bias, bl)] = operands;
    let (weight, bias) = (weight.in_order::<f32>(wl), bias.in_order::<f32>(bl));
    let mut elements = x.in_order::<f32>(l);
    for row in elements.chunks_mut(last(l)) {
        let mean = row.iter().sum::<f32>() / row.len() as f32;
        let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / row.len() as f32;
        let scale = (variance + epsilon).sqrt();
        for (x, (weight, bias)) in row.iter_mut().zip(weight.iter().zip(&bias)) {
            *x = (*x - mean) / scale * weight + bias;
        }
    }
    Ok((x.device.collect(elements.len(), elements), l.shape().clone()))
}

/// `x` is `[batch, heads, positions, width]`, or `[batch, positions, heads, width]` where positions come first; cosines and sines are
/// `[positions or more, width / 2]`, or the same for each batch.
pub(crate) fn rotary(operands: [Operand; 3], positions_first: bool) -> Result<(BoxedStorage, Shape)> {
    let [(x, l), (cos, cl), (sin, sl)] = operands;
    let (_, outer, inner, width) = l.shape().dims4()?;
    let half = width / 2;
    let (cos, sin) = (cos.in_order::<f32>(cl), sin.in_order::<f32>(sl));
    let batch_stride = if let &[_, positions, _] = cl.dims() { positions * half } else { 0 };
    let mut elements = x.in_order::<f32>(l);
    for (at, row) in elements.chunks_mut(width.max(1)).enumerate() {
        let position = if positions_first { at / inner % outer } else { at % inner };
        let angles = at / (outer * inner) * batch_stride + position * half;
        let (low, high) = row.split_at_mut(half);
        for (i, (a, b)) in low.iter_mut().zip(high).enumerate() {
            let (cos, sin) = (cos[angles + i], sin[angles + i]);
            (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
        }
    }
    Ok((x.device.collect(elements.len(), elements), l.shape().clone()))
}

/// How to attend.
pub(crate) struct Attention {
    pub(crate) scale: f32,
    /// The soft cap; 1 stands for none.
    pub(crate) cap: f32,
    pub(crate) causal: bool,
}

/// `q` is `[batch, heads, rows, width]`, `k` and `v` are `[batch, kv_heads, columns, width]`; a mask, `[batch, heads, rows, columns]`, is
/// added to the scores.
pub(crate) fn attention(
    operands: [Operand; 3],
    how: &Attention,
    mask: Option<&Tensor>,
) -> Result<(BoxedStorage, Shape)> {
    let [(q, ql), (k, kl), (v, vl)] = operands;
    let &Attention { scale, cap, causal } = how;
    let (batch, heads, rows, width) = ql.shape().dims4()?;
    let (_, kv_heads, columns, v_width) = vl.shape().dims4()?;
    let (keys, values) = (k.in_order::<f32>(kl), v.in_order::<f32>(vl));
    let mask = mask.map(elements_of).transpose()?;
    let mut result = vec![0f32; batch * heads * rows * v_width];
    for (at, (query, sums)) in q.in_order::<f32>(ql).chunks(width).zip(result.chunks_mut(v_width)).enumerate() {
        let (head, row) = (at / rows, at % rows);
        let first = (head / heads * kv_heads + head % heads * kv_heads / heads) * columns;
        let mut scores: Vec<f32> = (0..columns)
            .map(|column| {
                let key = &keys[(first + column) * width..][..width];
                let mut score = query.iter().zip(key).map(|(q, k)| q * k).sum::<f32>() * scale;
                if cap != 1. {
                    score = (score / cap).tanh() * cap;
                }
                let hidden = causal && column + rows > row + columns;
                score
                    + mask.as_ref().map_or(0., |mask| mask[at * columns + column])
                    + if hidden { f32::NEG_INFINITY } else { 0. }
            })
            .collect();
        softmax_row(&mut scores);
        for (column, score) in scores.iter().enumerate() {
            let value = &values[(first + column) * v_width..][..v_width];
            sums.iter_mut().zip(value).for_each(|(sum, value)| *sum += score * value);
        }
    }
    Ok((q.device.collect(result.len(), result), (batch, heads, rows, v_width).into()))
}

/// `x` is `[batch, c_in, i_h, i_w]`, `kernel` `[c_out, c_in, k_h, k_w]`, the result `[batch, c_out, out_h, out_w]`.
pub(crate) fn conv2d(x: &[f32], kernel: &[f32], p: &ParamsConv2D) -> Vec<f32> {
    let size =
        |input: usize, window: usize| (input + 2 * p.padding() - p.dilation() * (window - 1) - 1) / p.stride() + 1;
    let (height, width) = (size(p.i_h(), p.k_h()), size(p.i_w(), p.k_w()));
    let plane = height * width;
    let mut result = vec![0f32; p.b_size() * p.c_out() * plane];
    for (at, sums) in result.chunks_mut(plane).enumerate() {
        let (batch, out) = (at / p.c_out(), at % p.c_out());
        for input in 0..p.c_in() {
            let image = &x[(batch * p.c_in() + input) * p.i_h() * p.i_w()..][..p.i_h() * p.i_w()];
            let window = &kernel[(out * p.c_in() + input) * p.k_h() * p.k_w()..][..p.k_h() * p.k_w()];
            for (position, sum) in sums.iter_mut().enumerate() {
                *sum += window_sum(image, window, p, (position / width, position % width));
            }
        }
    }
    result
}

/// One window of one channel; what lies beyond the image is 0.
fn window_sum(image: &[f32], window: &[f32], p: &ParamsConv2D, (row, column): (usize, usize)) -> f32 {
    let inside = |position: usize, step: usize, size: usize| {
        (position * p.stride() + step * p.dilation()).checked_sub(p.padding()).filter(|&at| at < size)
    };
    let mut sum = 0.;
    for (i, weights) in window.chunks(p.k_w()).enumerate() {
        let Some(y) = inside(row, i, p.i_h()) else { continue };
        for (j, weight) in weights.iter().enumerate() {
            if let Some(x) = inside(column, j, p.i_w()) {
                sum += image[y * p.i_w() + x] * weight;
            }
        }
    }
    sum
}

fn softmax_row(row: &mut [f32]) {
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    row.iter_mut().for_each(|x| *x = (*x - largest).exp());
    let sum: f32 = row.iter().sum();
    row.iter_mut().for_each(|x| *x /= sum);
}

/// The f32 elements of a tensor that an op carries, which lies on the device as its operands do.
fn elements_of(tensor: &Tensor) -> Result<Vec<f32>> {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Custom(storage) if tensor.dtype() == DType::F32 => {
            Ok(crate::storage::of(storage.as_ref())?.in_order(layout))
        }
        _ => bail!("expected f32 on the reference device, got {:?} on {:?}", tensor.dtype(), tensor.device()),
    }
}

fn last(l: &Layout) -> usize {
    l.dims().last().copied().unwrap_or(1).max(1)
}
