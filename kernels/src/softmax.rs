//! Geometry of `hip/softmax.hip`.

use crate::shape::{check_aligned, check_dim, check_dtype};
use crate::{Args, DevicePtr, Dtype, Launch, ShapeError};

const BLOCK: u32 = 256;
/// Longer rows get a whole block. A wave keeps 512 values of f32, 1024 of 16 bits, or 128 where rows are read one by one;
/// it reads the rest of a row again.
const LONGEST_WAVE_ROW: u32 = 1024;

/// Rows of f32, f16 or bf16, contiguous and aligned to 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Softmax {
    pub dtype: Dtype,
    pub rows: u32,
    /// Values in a row.
    pub n: u32,
    /// `[rows, n]`
    pub x: DevicePtr,
    /// `[rows, n]`; may be `x`.
    pub y: DevicePtr,
}

/// `y = exp(x - max(x)) / sum(exp(x - max(x)))` for every row.
pub fn softmax(softmax: &Softmax) -> Result<Launch, ShapeError> {
    const OP: &str = "softmax";
    let Softmax { dtype, rows, n, x, y } = *softmax;
    check_dtype(OP, dtype, &[Dtype::F32, Dtype::F16, Dtype::Bf16])?;
    check_dim(OP, "rows", rows)?;
    check_dim(OP, "n", n)?;
    check_aligned(OP, 16, &[("x", x), ("y", y)])?;
    let (rows_per_block, who) = if n <= LONGEST_WAVE_ROW { (8, "wave") } else { (1, "block") };
    Ok(Launch {
        module: "softmax",
        kernel: format!("softmax_{who}_{dtype}"),
        grid: [rows.div_ceil(rows_per_block), 1, 1],
        block: BLOCK,
        lds: 0,
        args: Args::new().ptr(x).ptr(y).u32(rows).u32(n),
    })
}
