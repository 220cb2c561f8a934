//! Geometry of `hip/binary.hip`: pairs of elements, strided, to a contiguous tensor.

use crate::shape::{check_aligned, check_dtype, check_element_size};
use crate::strided::{Strided, count};
use crate::{Args, DevicePtr, Dtype, Launch, ShapeError};

const BLOCK: u32 = 256;
const PER_BLOCK: u32 = BLOCK * 4;
const DTYPES: [Dtype; 6] = [Dtype::U8, Dtype::U32, Dtype::I64, Dtype::F16, Dtype::Bf16, Dtype::F32];

/// Where one of two floats is NaN, the larger and the smaller are the first. Integers wrap; what is divided by zero is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Function {
    Add,
    Mul,
    Sub,
    Div,
    Maximum,
    Minimum,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Comparison {
    Eq,
    Ne,
    Le,
    Ge,
    Lt,
    Gt,
}

/// A strided tensor: its first element, and strides in elements, outermost dimension first.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    pub ptr: DevicePtr,
    pub strides: &'a [usize],
}

/// Two tensors of one type and shape.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    pub dtype: Dtype,
    pub shape: &'a [usize],
    pub a: Operand<'a>,
    pub b: Operand<'a>,
    /// Contiguous, of the same shape.
    pub y: DevicePtr,
}

/// `y = function(a, b)`, of the same type.
pub fn binary(function: Function, pair: &Pair) -> Result<Launch, ShapeError> {
    launch("binary", function as u32, pair, pair.dtype.size())
}

/// `y = a < b` and the like: u8, 1 or 0.
pub fn compare(comparison: Comparison, pair: &Pair) -> Result<Launch, ShapeError> {
    launch("compare", comparison as u32, pair, 1)
}

fn launch(op: &'static str, which: u32, pair: &Pair, size_of_y: u64) -> Result<Launch, ShapeError> {
    let Pair { dtype, shape, a, b, y } = *pair;
    check_dtype(op, dtype, &DTYPES)?;
    check_aligned(op, dtype.size(), &[("a", a.ptr), ("b", b.ptr)])?;
    check_aligned(op, size_of_y, &[("y", y)])?;
    let count = count(op, shape)?;
    let from = Strided::new(shape, [a.strides, b.strides]);
    let args = Args::new().ptr(a.ptr).ptr(b.ptr).ptr(y).u32(count).u32(which);
    Ok(Launch {
        module: "binary",
        kernel: format!("{op}_{dtype}"),
        grid: [count.div_ceil(PER_BLOCK), 1, 1],
        block: BLOCK,
        lds: 0,
        args: from.add_to(op, args, from.is_contiguous())?,
    })
}

/// A condition and two tensors of one type, all of one shape.
#[derive(Clone, Copy, Debug)]
pub struct Where<'a> {
    /// Of the condition: u8, u32 or i64.
    pub condition_dtype: Dtype,
    /// Bytes of an element of the others: 1, 2, 4 or 8.
    pub element_size: u64,
    pub shape: &'a [usize],
    pub condition: Operand<'a>,
    pub on_true: Operand<'a>,
    pub on_false: Operand<'a>,
    /// Contiguous, of the same shape.
    pub y: DevicePtr,
}

/// `y = on_true` where the condition is not 0, else `on_false`.
pub fn where_cond(choice: &Where) -> Result<Launch, ShapeError> {
    const OP: &str = "where";
    let Where { condition_dtype, element_size, shape, condition, on_true, on_false, y } = *choice;
    check_dtype(OP, condition_dtype, &[Dtype::U8, Dtype::U32, Dtype::I64])?;
    check_element_size(OP, element_size)?;
    check_aligned(OP, condition_dtype.size(), &[("the condition", condition.ptr)])?;
    check_aligned(OP, element_size, &[("on_true", on_true.ptr), ("on_false", on_false.ptr), ("y", y)])?;
    let count = count(OP, shape)?;
    let from = Strided::new(shape, [condition.strides, on_true.strides, on_false.strides]);
    let args = Args::new().ptr(condition.ptr).ptr(on_true.ptr).ptr(on_false.ptr).ptr(y).u32(count);
    Ok(Launch {
        module: "binary",
        kernel: format!("where_{condition_dtype}_{}", 8 * element_size),
        grid: [count.div_ceil(PER_BLOCK), 1, 1],
        block: BLOCK,
        lds: 0,
        args: from.add_to(OP, args, from.is_contiguous())?,
    })
}
