//! Geometry of `hip/reduce.hip`: rows to single values.

use crate::shape::{check_aligned, check_dim, check_dtype};
use crate::{Args, DevicePtr, Dtype, Launch, ShapeError};

const BLOCK: u32 = 512;
/// Longer rows get a whole block.
const LONGEST_WAVE_ROW: u32 = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    Sum,
    Max,
    Min,
    /// The index of the first of the highest values, as u32.
    ArgMax,
}

impl Reduction {
    fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Max => "max",
            Self::Min => "min",
            Self::ArgMax => "argmax",
        }
    }
}

/// Rows of f32, f16 or bf16, contiguous and aligned to 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Reduce {
    pub reduction: Reduction,
    pub dtype: Dtype,
    pub rows: u32,
    /// Values in a row.
    pub n: u32,
    /// `[rows, n]`
    pub x: DevicePtr,
    /// `[rows]` of the same type; of u32 for [`Reduction::ArgMax`].
    pub y: DevicePtr,
}

/// One value for every row.
pub fn reduce(reduce: &Reduce) -> Result<Launch, ShapeError> {
    const OP: &str = "reduce";
    let Reduce { reduction, dtype, rows, n, x, y } = *reduce;
    check_dtype(OP, dtype, &[Dtype::F32, Dtype::F16, Dtype::Bf16])?;
    check_dim(OP, "rows", rows)?;
    check_dim(OP, "n", n)?;
    check_aligned(OP, 16, &[("x", x)])?;
    let size_of_y = if reduction == Reduction::ArgMax { Dtype::U32.size() } else { dtype.size() };
    check_aligned(OP, size_of_y, &[("y", y)])?;
    let (rows_per_block, who) = if n <= LONGEST_WAVE_ROW { (BLOCK / 32, "wave") } else { (1, "block") };
    Ok(Launch {
        module: "reduce",
        kernel: format!("{}_{who}_{dtype}", reduction.name()),
        grid: [rows.div_ceil(rows_per_block), 1, 1],
        block: BLOCK,
        lds: 0,
        args: Args::new().ptr(x).ptr(y).u32(rows).u32(n),
    })
}
