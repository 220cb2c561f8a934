//! Geometry of `hip/copy.hip`: a strided tensor to a contiguous one.

use crate::shape::check_aligned;
use crate::strided::{Strided, count};
use crate::{Args, DevicePtr, Launch, ShapeError};

const BLOCK: u32 = 256;
const PER_BLOCK: u32 = BLOCK * 4;
const WIDEST: u64 = 16;

/// The source's shape and strides in elements, outermost dimension first.
#[derive(Clone, Copy, Debug)]
pub struct Copy<'a> {
    /// Bytes of an element: 1, 2, 4 or 8.
    pub element_size: u64,
    pub shape: &'a [usize],
    pub strides: &'a [usize],
    /// The first element of the source.
    pub x: DevicePtr,
    /// Contiguous, of the same shape.
    pub y: DevicePtr,
}

/// Copies every element to its place in a contiguous tensor.
pub fn copy(copy: &Copy) -> Result<Launch, ShapeError> {
    const OP: &str = "copy";
    if !matches!(copy.element_size, 1 | 2 | 4 | 8) {
        let rule = "it must be 1, 2, 4 or 8";
        return Err(ShapeError::Value { op: OP, what: "the size of an element", value: copy.element_size, rule });
    }
    check_aligned(OP, copy.element_size, &[("x", copy.x), ("y", copy.y)])?;
    let num_elements = count(OP, copy.shape)?;
    let (unit, strided) = widest(copy, Strided::new(copy.shape, copy.strides));
    let num_units = num_elements / (unit / copy.element_size) as u32;
    Ok(Launch {
        module: "copy",
        kernel: format!("copy_{unit}"),
        grid: [num_units.div_ceil(PER_BLOCK), 1, 1],
        block: BLOCK,
        lds: 0,
        args: Args::new().ptr(copy.x).ptr(copy.y).u32(num_units).words(&strided.words(OP)?),
    })
}

/// The largest unit, up to 16 bytes, that runs, strides and addresses allow.
fn widest(copy: &Copy, strided: Strided) -> (u64, Strided) {
    let mut unit = WIDEST;
    while unit > copy.element_size {
        let aligned = copy.x.is_aligned(unit) && copy.y.is_aligned(unit);
        if let (true, Some(wide)) = (aligned, strided.widened(unit / copy.element_size)) {
            return (unit, wide);
        }
        unit /= 2;
    }
    (unit, strided)
}
