//! Geometry of `hip/cast.hip`: a strided tensor to a contiguous one of another type.

use crate::shape::check_aligned;
use crate::strided::{Strided, count};
use crate::{Args, DevicePtr, Dtype, Launch, ShapeError};

const BLOCK: u32 = 256;
const PER_THREAD: u32 = 4;

/// The source's shape and strides in elements, outermost dimension first. The two types differ.
#[derive(Clone, Copy, Debug)]
pub struct Cast<'a> {
    pub from: Dtype,
    pub to: Dtype,
    pub shape: &'a [usize],
    pub strides: &'a [usize],
    /// The first element of the source.
    pub x: DevicePtr,
    /// Contiguous, of the same shape.
    pub y: DevicePtr,
}

/// Converts as Rust's `as` does.
pub fn cast(cast: &Cast) -> Result<Launch, ShapeError> {
    const OP: &str = "cast";
    let same_bits = [[Dtype::U32, Dtype::I32], [Dtype::I32, Dtype::U32]].contains(&[cast.from, cast.to]);
    if cast.from == cast.to || same_bits {
        return Err(ShapeError::Dtype { op: "cast to the same bits", dtype: cast.to });
    }
    check_aligned(OP, cast.from.size(), &[("x", cast.x)])?;
    check_aligned(OP, cast.to.size(), &[("y", cast.y)])?;
    let num_elements = count(OP, cast.shape)?;
    let strided = Strided::new(cast.shape, [cast.strides]);
    // Pairs are read and written at once.
    let aligned = cast.x.is_aligned(2 * cast.from.size()) && cast.y.is_aligned(2 * cast.to.size());
    let args = Args::new().ptr(cast.x).ptr(cast.y).u32(num_elements);
    Ok(Launch {
        module: "cast",
        kernel: format!("cast_{}_{}", cast.from, cast.to),
        grid: [num_elements.div_ceil(BLOCK * PER_THREAD), 1, 1],
        block: BLOCK,
        lds: 0,
        args: strided.add_to(OP, args, strided.is_contiguous() && aligned)?,
    })
}
