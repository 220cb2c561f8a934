//! RMS normalisation: `x / sqrt(mean(x²) + eps) * weight` (Zhang and Sennrich 2019, arXiv:1910.07467), alone, after
//! adding a residual, and over each head of queries and keys.

use candle_core::{CpuStorage, CustomOp2, CustomOp3, D, InplaceOp2, Layout, Result, Shape, Tensor, bail};

use super::parallel;
use super::rows::{Rows, row_geometry};

/// Normalises the rows of `x` `[T, H]`, scaled by `weight` `[H]`. `[T, H]`
pub fn rms_norm(x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor> {
    if x.device().is_cpu() { x.apply_op2_no_bwd(weight, &RmsNorm { eps }) } else { reference(x, weight, eps) }
}

/// [`rms_norm`] in plain Candle ops.
pub fn reference(x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor> {
    let mean_square = x.sqr()?.mean_keepdim(D::Minus1)?;
    x.broadcast_div(&(mean_square + f64::from(eps))?.sqrt()?)?.broadcast_mul(weight)
}

/// Adds `x` to `residual`, both `[T, H]`, and normalises the sum. Returns `(normalised, sum)`, both `[T, H]`.
pub fn add_rms_norm(x: &Tensor, residual: &Tensor, weight: &Tensor, eps: f32) -> Result<(Tensor, Tensor)> {
    if !x.device().is_cpu() {
        return add_reference(x, residual, weight, eps);
    }
    let both = x.apply_op3_no_bwd(residual, weight, &AddRmsNorm { eps })?; // [2, T, H]
    Ok((both.get(0)?, both.get(1)?))
}

/// [`add_rms_norm`] in plain Candle ops.
pub fn add_reference(x: &Tensor, residual: &Tensor, weight: &Tensor, eps: f32) -> Result<(Tensor, Tensor)> {
    let sum = (x + residual)?;
    Ok((reference(&sum, weight, eps)?, sum))
}

/// Normalises each head of `x` `[T, heads, D]` in place, scaled by `weight` `[D]`. `x` may be a view of a wider tensor.
pub fn rms_norm_heads(x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor> {
    if !x.device().is_cpu() {
        return reference(x, weight, eps);
    }
    x.inplace_op2(weight, &RmsNormHeads { eps })?;
    Ok(x.clone())
}

struct RmsNorm {
    eps: f32,
}

impl CustomOp2 for RmsNorm {
    fn name(&self) -> &'static str {
        "rms_norm"
    }

    fn cpu_fwd(&self, x: &CpuStorage, lx: &Layout, w: &CpuStorage, lw: &Layout) -> Result<(CpuStorage, Shape)> {
        let x = Rows::new(x, lx, "rms_norm")?;
        let weight = weight_row(w, lw, x.width)?;
        let mut out = vec![0f32; x.count * x.width];
        let chunks = out.chunks_mut(x.width.max(1)).collect();
        parallel::for_each(chunks, x.count * x.width, |t, out| normalise(x.row(t), weight, self.eps, out));
        Ok((CpuStorage::F32(out), lx.shape().clone()))
    }
}

struct AddRmsNorm {
    eps: f32,
}

impl CustomOp3 for AddRmsNorm {
    fn name(&self) -> &'static str {
        "add_rms_norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        lx: &Layout,
        residual: &CpuStorage,
        lr: &Layout,
        w: &CpuStorage,
        lw: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, residual) = (Rows::new(x, lx, "add_rms_norm")?, Rows::new(residual, lr, "add_rms_norm")?);
        if lx.shape() != lr.shape() {
            bail!("add_rms_norm: shapes {:?} and {:?} differ", lx.shape(), lr.shape());
        }
        let weight = weight_row(w, lw, x.width)?;
        let mut out = vec![0f32; 2 * x.count * x.width];
        let (normalised, sums) = out.split_at_mut(x.count * x.width);
        let width = x.width.max(1);
        let chunks = normalised.chunks_mut(width).zip(sums.chunks_mut(width)).collect();
        parallel::for_each(chunks, x.count * x.width, |t, (normalised, sum)| {
            for ((sum, x), r) in sum.iter_mut().zip(x.row(t)).zip(residual.row(t)) {
                *sum = x + r;
            }
            normalise(sum, weight, self.eps, normalised);
        });
        let mut dims = vec![2];
        dims.extend(lx.dims());
        Ok((CpuStorage::F32(out), dims.into()))
    }
}

struct RmsNormHeads {
    eps: f32,
}

impl InplaceOp2 for RmsNormHeads {
    fn name(&self) -> &'static str {
        "rms_norm_heads"
    }

    fn cpu_fwd(&self, x: &mut CpuStorage, lx: &Layout, w: &CpuStorage, lw: &Layout) -> Result<()> {
        let (start, stride, count, width) = row_geometry(lx, "rms_norm_heads")?;
        let head_dim = *lx.dims().last().unwrap_or(&0);
        let weight = weight_row(w, lw, head_dim)?;
        let CpuStorage::F32(data) = x else { bail!("rms_norm_heads: f32 activations expected") };
        let rows: Vec<&mut [f32]> = data[start..].chunks_mut(stride.max(1)).take(count).collect();
        parallel::for_each(rows, count * width, |_, row| {
            for head in row[..width].chunks_exact_mut(head_dim) {
                let scale = inverse_rms(head, self.eps);
                for (x, w) in head.iter_mut().zip(weight) {
                    *x *= scale * w;
                }
            }
        });
        Ok(())
    }
}

fn weight_row<'a>(storage: &'a CpuStorage, layout: &Layout, width: usize) -> Result<&'a [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(data), Some((start, end))) if end - start == width => Ok(&data[start..end]),
        _ => bail!("norm: the weight must be {width} contiguous f32 values, got {layout:?}"),
    }
}

fn normalise(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let scale = inverse_rms(x, eps);
    for ((out, x), w) in out.iter_mut().zip(x).zip(weight) {
        *out = x * scale * w;
    }
}

fn inverse_rms(x: &[f32], eps: f32) -> f32 {
    // Sixteen partial sums: one vector register's worth, and a fixed order of addition on every machine.
    let mut partial = [0f32; 16];
    let chunks = x.chunks_exact(16);
    let tail: f32 = chunks.remainder().iter().map(|v| v * v).sum();
    for chunk in chunks {
        for (sum, v) in partial.iter_mut().zip(chunk) {
            *sum += v * v;
        }
    }
    let sum = partial.iter().sum::<f32>() + tail;
    1.0 / (sum / x.len() as f32 + eps).sqrt()
}
