//! Geometry of `hip/matmul.hip`: matrix products at any strides, without matrix instructions.

use crate::shape::{check_aligned, check_dim, check_dtype, check_grid_side};
use crate::{Args, DevicePtr, Dtype, Launch, ShapeError};

const BLOCK: u32 = 256;
const TILE: u32 = 64;

/// Where the elements of a batch of matrices lie; strides count elements.
#[derive(Clone, Copy, Debug)]
pub struct Matrix {
    pub ptr: DevicePtr,
    /// From one row to the next.
    pub row: u64,
    /// From one column to the next.
    pub column: u64,
    /// From one matrix to the next; 0 repeats the matrix.
    pub batch: u64,
}

/// `c = a * b`: `[batch, m, k]` by `[batch, k, n]` to `[batch, m, n]`, contiguous.
#[derive(Clone, Copy, Debug)]
pub struct Matmul {
    /// f32, f16 or bf16; sums are f32.
    pub dtype: Dtype,
    pub batch: u32,
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub a: Matrix,
    pub b: Matrix,
    pub c: DevicePtr,
}

/// The product of each pair of matrices.
pub fn matmul(matmul: &Matmul) -> Result<Launch, ShapeError> {
    const OP: &str = "matmul";
    let Matmul { dtype, batch, m, n, k, a, b, c } = *matmul;
    check_dtype(OP, dtype, &[Dtype::F32, Dtype::F16, Dtype::Bf16])?;
    for (what, value) in [("batch", batch), ("m", m), ("n", n), ("k", k)] {
        check_dim(OP, what, value)?;
    }
    check_grid_side(OP, "batch", batch)?;
    check_grid_side(OP, "the number of tiles along m", m.div_ceil(TILE))?;
    check_aligned(OP, dtype.size(), &[("a", a.ptr), ("b", b.ptr), ("c", c)])?;
    let args = Args::new().ptr(a.ptr).ptr(b.ptr).ptr(c).u32(m).u32(n).u32(k);
    Ok(Launch {
        module: "matmul",
        kernel: format!("matmul_{dtype}"),
        grid: [n.div_ceil(TILE), m.div_ceil(TILE), batch],
        block: BLOCK,
        lds: 0,
        args: args.words(&words(a)).words(&words(b)),
    })
}

/// The structure `Matrix` of the kernel.
fn words(matrix: Matrix) -> [u32; 6] {
    let strides = [matrix.row, matrix.column, matrix.batch];
    let [row, column, batch] = strides.map(|stride| stride as u32);
    let [row_high, column_high, batch_high] = strides.map(|stride| (stride >> 32) as u32);
    [row, column, batch, row_high, column_high, batch_high]
}
