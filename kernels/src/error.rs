//! What can be wrong with a launch: the shapes it is made for, and the kernel it is meant for.

use crate::Dtype;

/// A launch cannot be made for these shapes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    #[error("{op}: {what} is {value}; {rule}")]
    Value { op: &'static str, what: &'static str, value: u64, rule: &'static str },
    #[error("{op} has no kernel for {dtype}")]
    Dtype { op: &'static str, dtype: Dtype },
    #[error("{op}: the address of {what}, {address:#x}, must be a multiple of {align}")]
    Align { op: &'static str, what: &'static str, address: u64, align: u64 },
}

/// A launch does not fit the kernel that was loaded under its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    #[error("{kernel} takes {takes} arguments, the launch has {has}")]
    NumArgs { kernel: String, takes: usize, has: usize },
    #[error(
        "argument {index} of {kernel} is {takes_size} bytes at {takes_offset}, the launch has {has_size} at {has_offset}"
    )]
    Arg { kernel: String, index: usize, takes_offset: u32, takes_size: u32, has_offset: u32, has_size: u32 },
    #[error("{kernel} is built for blocks of {takes} threads, the launch has {has}")]
    Block { kernel: String, takes: u32, has: u32 },
    #[error("{kernel} needs {fixed} bytes of LDS and the launch adds {dynamic}; a block has {limit}")]
    Lds { kernel: String, fixed: u32, dynamic: u32, limit: u32 },
    #[error("the grid of {kernel} is {grid:?}: no side may be 0, x at most 2147483647, y and z at most 65535")]
    Grid { kernel: String, grid: [u32; 3] },
}
