//! Geometry of `hip/index.hip`: slices of a tensor by their numbers.

use crate::shape::{check_aligned, check_dim, check_dtype, check_element_size};
use crate::strided::count;
use crate::{Args, DevicePtr, Dtype, Launch, ShapeError};

const BLOCK: u32 = 256;
const PER_BLOCK: u32 = BLOCK * 4;

/// The shapes of x, as `[left, size, right]`, and of y, as `[left, ids_count, right]`. All are contiguous.
#[derive(Clone, Copy, Debug)]
pub struct IndexSelect {
    /// Bytes of an element of x: 1, 2, 4 or 8.
    pub element_size: u64,
    /// u8, u32 or i64.
    pub ids_dtype: Dtype,
    pub left: u32,
    pub size: u32,
    pub right: u32,
    pub ids_count: u32,
    pub x: DevicePtr,
    pub ids: DevicePtr,
    pub y: DevicePtr,
    /// One i64, which a number that is out of range is written to.
    pub fault: DevicePtr,
}

/// Takes the slice of x that each number names. The largest number of the type names zeros.
pub fn index_select(select: &IndexSelect) -> Result<Launch, ShapeError> {
    const OP: &str = "index_select";
    let IndexSelect { element_size, ids_dtype, left, size, right, ids_count, x, ids, y, fault } = *select;
    check_dtype(OP, ids_dtype, &[Dtype::U8, Dtype::U32, Dtype::I64])?;
    check_element_size(OP, element_size)?;
    check_dim(OP, "the size of the dimension", size)?;
    check_aligned(OP, element_size, &[("x", x), ("y", y)])?;
    check_aligned(OP, ids_dtype.size(), &[("ids", ids)])?;
    check_aligned(OP, 8, &[("fault", fault)])?;
    let count = count(OP, &[left as usize, ids_count as usize, right as usize])?;
    let pointers = Args::new().ptr(x).ptr(ids).ptr(y).ptr(fault);
    Ok(Launch {
        module: "index",
        kernel: format!("index_select_{ids_dtype}_{}", 8 * element_size),
        grid: [count.div_ceil(PER_BLOCK), 1, 1],
        block: BLOCK,
        lds: 0,
        args: pointers.u32(count).u32(size).u32(ids_count).u32(right),
    })
}
