//! Geometry of `hip/copy.hip`: a strided tensor to a contiguous or a strided one, and one value to a strided one.

use crate::shape::{check_aligned, check_element_size};
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
    check_element_size(OP, copy.element_size)?;
    check_aligned(OP, copy.element_size, &[("x", copy.x), ("y", copy.y)])?;
    let num_elements = count(OP, copy.shape)?;
    let (unit, strided) = widest(copy, Strided::new(copy.shape, [copy.strides]));
    let num_units = num_elements / (unit / copy.element_size) as u32;
    Ok(Launch {
        module: "copy",
        kernel: format!("copy_{unit}"),
        grid: [num_units.div_ceil(PER_BLOCK), 1, 1],
        block: BLOCK,
        lds: 0,
        args: strided.add_to(OP, Args::new().ptr(copy.x).ptr(copy.y).u32(num_units), strided.is_contiguous())?,
    })
}

/// The largest unit, up to 16 bytes, that runs, strides and addresses allow.
fn widest(copy: &Copy, strided: Strided<1>) -> (u64, Strided<1>) {
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

/// Two tensors of one shape, which do not overlap.
#[derive(Clone, Copy, Debug)]
pub struct CopyBetween<'a> {
    /// Bytes of an element: 1, 2, 4 or 8.
    pub element_size: u64,
    pub shape: &'a [usize],
    /// The first element of the source, and its strides in elements.
    pub x: DevicePtr,
    pub strides_x: &'a [usize],
    /// The same of the destination.
    pub y: DevicePtr,
    pub strides_y: &'a [usize],
}

/// Copies every element to the place of its index.
pub fn copy_between(copy: &CopyBetween) -> Result<Launch, ShapeError> {
    const OP: &str = "copy";
    let CopyBetween { element_size, shape, x, strides_x, y, strides_y } = *copy;
    check_element_size(OP, element_size)?;
    check_aligned(OP, element_size, &[("x", x), ("y", y)])?;
    let num_elements = count(OP, shape)?;
    let mut unit = WIDEST;
    let mut both = Strided::new(shape, [strides_x, strides_y]);
    while unit > element_size {
        let aligned = x.is_aligned(unit) && y.is_aligned(unit);
        if let (true, Some(wide)) = (aligned, both.widened(unit / element_size)) {
            both = wide;
            break;
        }
        unit /= 2;
    }
    let num_units = num_elements / (unit / element_size) as u32;
    Ok(Launch {
        module: "copy",
        kernel: format!("copy_between_{unit}"),
        grid: [num_units.div_ceil(PER_BLOCK), 1, 1],
        block: BLOCK,
        lds: 0,
        args: both.add_to(OP, Args::new().ptr(x).ptr(y).u32(num_units), both.is_contiguous())?,
    })
}

/// One value for every element of a tensor.
#[derive(Clone, Copy, Debug)]
pub struct Fill<'a> {
    /// Bytes of an element: 1, 2, 4 or 8.
    pub element_size: u64,
    /// The element's bits, in the low bytes.
    pub value: u64,
    pub shape: &'a [usize],
    pub strides: &'a [usize],
    /// The first element.
    pub y: DevicePtr,
}

/// Writes the value to every element.
pub fn fill(fill: &Fill) -> Result<Launch, ShapeError> {
    const OP: &str = "fill";
    let Fill { element_size, value, shape, strides, y } = *fill;
    check_element_size(OP, element_size)?;
    check_aligned(OP, element_size, &[("y", y)])?;
    let num_elements = count(OP, shape)?;
    let to = Strided::new(shape, [strides]);
    Ok(Launch {
        module: "copy",
        kernel: format!("fill_{element_size}"),
        grid: [num_elements.div_ceil(PER_BLOCK), 1, 1],
        block: BLOCK,
        lds: 0,
        args: to.add_to(OP, Args::new().ptr(y).u32(num_elements).u64(value), to.is_contiguous())?,
    })
}
