//! Geometry of `hip/norm.hip`: RMS norm of rows, with an optional addition before it.

use crate::shape::{check_aligned, check_dim, check_dtype};
use crate::{Args, DevicePtr, Dtype, Launch, ShapeError};

const BLOCK: u32 = 256;
/// Longer rows get a whole block. A wave keeps 512 values of f32, 1024 of 16 bits, or 128 where rows are read one by one;
/// it reads the rest of a row again.
const LONGEST_WAVE_ROW: u32 = 1024;

/// The tensors of an RMS norm. All are contiguous, of one type, and aligned to 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct RmsNorm {
    /// f32, f16 or bf16.
    pub dtype: Dtype,
    pub rows: u32,
    /// Values in a row.
    pub n: u32,
    /// Added to the mean of the squares.
    pub eps: f32,
    /// `[rows, n]`
    pub x: DevicePtr,
    /// `[n]`
    pub weight: DevicePtr,
    /// `[rows, n]`; may be `x`.
    pub y: DevicePtr,
    /// An addition before the norm.
    pub residual: Option<Residual>,
}

/// `sum = x + residual`, rounded to the type, is what is normalised.
#[derive(Clone, Copy, Debug)]
pub struct Residual {
    /// `[rows, n]`
    pub residual: DevicePtr,
    /// `[rows, n]`; may be `residual` or `x`, not `y`.
    pub sum: DevicePtr,
}

/// `y = x / sqrt(mean(x^2) + eps) * weight` for every row.
pub fn rms_norm(norm: &RmsNorm) -> Result<Launch, ShapeError> {
    const OP: &str = "rms_norm";
    check_dtype(OP, norm.dtype, &[Dtype::F32, Dtype::F16, Dtype::Bf16])?;
    check_dim(OP, "rows", norm.rows)?;
    check_dim(OP, "n", norm.n)?;
    let (residual, sum) = norm.residual.map_or((DevicePtr::NULL, DevicePtr::NULL), |r| (r.residual, r.sum));
    let pointers = [("x", norm.x), ("residual", residual), ("weight", norm.weight), ("sum", sum), ("y", norm.y)];
    check_aligned(OP, 16, &pointers)?;
    let (rows_per_block, who) = if norm.n <= LONGEST_WAVE_ROW { (8, "wave") } else { (1, "block") };
    let args = pointers.iter().fold(Args::new(), |args, (_, pointer)| args.ptr(*pointer));
    Ok(Launch {
        module: "norm",
        kernel: format!("rms_norm_{who}_{}", norm.dtype),
        grid: [norm.rows.div_ceil(rows_per_block), 1, 1],
        block: BLOCK,
        lds: 0,
        args: args.u32(norm.rows).u32(norm.n).f32(norm.eps),
    })
}
