//! Checks that the geometry functions share.

use crate::{DevicePtr, Dtype, ShapeError};

/// Kernels count elements of a row and rows in 32 bits.
pub(crate) fn check_dim(op: &'static str, what: &'static str, value: u32) -> Result<(), ShapeError> {
    let rule = "it must be between 1 and 2147483647";
    if value == 0 || value > i32::MAX as u32 {
        return Err(ShapeError::Value { op, what, value: u64::from(value), rule });
    }
    Ok(())
}

/// Sides y and z of a grid have 16 bits.
pub(crate) fn check_grid_side(op: &'static str, what: &'static str, blocks: u32) -> Result<(), ShapeError> {
    let rule = "it must be at most 65535";
    if blocks > 65535 { Err(ShapeError::Value { op, what, value: blocks.into(), rule }) } else { Ok(()) }
}

pub(crate) fn check_multiple(
    op: &'static str,
    what: &'static str,
    value: u32,
    rule: (u32, &'static str),
) -> Result<(), ShapeError> {
    check_dim(op, what, value)?;
    if !value.is_multiple_of(rule.0) {
        return Err(ShapeError::Value { op, what, value: u64::from(value), rule: rule.1 });
    }
    Ok(())
}

pub(crate) fn check_dtype(op: &'static str, dtype: Dtype, known: &[Dtype]) -> Result<(), ShapeError> {
    if known.contains(&dtype) { Ok(()) } else { Err(ShapeError::Dtype { op, dtype }) }
}

pub(crate) fn check_aligned(
    op: &'static str,
    align: u64,
    pointers: &[(&'static str, DevicePtr)],
) -> Result<(), ShapeError> {
    match pointers.iter().find(|(_, pointer)| !pointer.is_aligned(align)) {
        Some(&(what, pointer)) => Err(ShapeError::Align { op, what, address: pointer.0, align }),
        None => Ok(()),
    }
}

/// Kernels that move elements as bits know these sizes.
pub(crate) fn check_element_size(op: &'static str, bytes: u64) -> Result<(), ShapeError> {
    let rule = "it must be 1, 2, 4 or 8";
    let what = "the size of an element";
    if matches!(bytes, 1 | 2 | 4 | 8) { Ok(()) } else { Err(ShapeError::Value { op, what, value: bytes, rule }) }
}
