//! Scaled dot product attention in plain operations on the CPU: what `ops::sdpa`, which upstream has for Metal only, falls back
//! to on a device from another crate that does not run it by name.

use candle::backend::BackendStorage;
use candle::op::BackpropOp;
use candle::{CpuStorage, DType, Device, Layout, Result, Shape, Storage, Tensor, D};

/// What `ops::sdpa` documents.
pub(crate) struct Attention<'a> {
    pub scale: f32,
    /// 1 stands for none.
    pub softcapping: f32,
    /// `[batch, heads, rows, columns]`, added to the scores.
    pub mask: Option<&'a Tensor>,
    pub causal: bool,
}

impl Attention<'_> {
    /// `q` is `[batch, heads, rows, width]`, `k` and `v` are `[batch, kv_heads, columns, width]`; the widths of `q` and `v` may differ.
    pub(crate) fn forward(&self, [q, k, v]: [(&CpuStorage, &Layout); 3]) -> Result<(CpuStorage, Shape)> {
        let dtype = q.0.dtype();
        let [q, k, v] = [in_f32(q)?, in_f32(k)?, in_f32(v)?];
        let heads = q.dim(1)?;
        let (k, v) = (repeat_heads(&k, heads)?, repeat_heads(&v, heads)?);
        let weights = crate::ops::softmax_last_dim(&self.scores(&q, &k)?)?;
        let result = weights.matmul(&v)?.to_dtype(dtype)?;
        let (storage, _) = result.storage_and_layout();
        match &*storage {
            Storage::Cpu(elements) => Ok((elements.clone(), result.shape().clone())),
            _ => candle::bail!("attention on the CPU left it"),
        }
    }

    /// `[batch, heads, rows, columns]`, before the softmax.
    fn scores(&self, q: &Tensor, k: &Tensor) -> Result<Tensor> {
        let mut scores = (q.matmul(&k.t()?)? * f64::from(self.scale))?;
        if self.softcapping != 1. {
            let cap = f64::from(self.softcapping);
            scores = ((scores / cap)?.tanh()? * cap)?;
        }
        if let Some(mask) = self.mask {
            scores = scores.broadcast_add(&mask.to_device(&Device::Cpu)?.to_dtype(DType::F32)?)?;
        }
        if self.causal {
            scores = scores.broadcast_add(&causal_mask(scores.dim(D::Minus2)?, scores.dim(D::Minus1)?)?)?;
        }
        Ok(scores)
    }
}

/// The last row sees every column: rows are the newest of the positions that the columns hold.
fn causal_mask(rows: usize, columns: usize) -> Result<Tensor> {
    let hidden = |row: usize, column: usize| column + rows > row + columns;
    let mask: Vec<f32> =
        (0..rows * columns).map(|i| if hidden(i / columns, i % columns) { f32::NEG_INFINITY } else { 0. }).collect();
    Tensor::from_vec(mask, (rows, columns), &Device::Cpu)
}

/// `[batch, kv_heads, columns, width]` to `[batch, heads, columns, width]`: neighbours share a head.
fn repeat_heads(x: &Tensor, heads: usize) -> Result<Tensor> {
    let (batch, kv_heads, columns, width) = x.dims4()?;
    if heads % kv_heads != 0 {
        candle::bail!("sdpa: {heads} heads of q are no multiple of {kv_heads} heads of k and v")
    }
    x.unsqueeze(2)?
        .broadcast_as((batch, kv_heads, heads / kv_heads, columns, width))?
        .reshape((batch, heads, columns, width))
}

/// The tensor that lies at `layout` among `elements`.
fn in_f32((elements, layout): (&CpuStorage, &Layout)) -> Result<Tensor> {
    let elements = elements.to_dtype(layout, DType::F32)?;
    Ok(Tensor::from_storage(Storage::Cpu(elements), layout.shape().clone(), BackpropOp::none(), false))
}
