//! Element by element: functions of one element and of two, comparison, choice, and other types.

use candle_core::op::{BinaryOp, CmpOp, UnaryOp};
use candle_core::{DType, Layout};
use taper_kernels::Dtype;
use taper_kernels::binary::{self, Comparison, Operand, Pair, Where};
use taper_kernels::cast::{self, Cast};
use taper_kernels::unary::{self, Function, Unary};

use super::{Computed, RocmStorage, WIDE, float_dtype, kernel_dtype};

fn function(op: UnaryOp) -> Function {
    match op {
        UnaryOp::Exp => Function::Exp,
        UnaryOp::Log => Function::Log,
        UnaryOp::Sin => Function::Sin,
        UnaryOp::Cos => Function::Cos,
        UnaryOp::Abs => Function::Abs,
        UnaryOp::Neg => Function::Neg,
        UnaryOp::Recip => Function::Recip,
        UnaryOp::Sqr => Function::Sqr,
        UnaryOp::Sqrt => Function::Sqrt,
        UnaryOp::Gelu => Function::Gelu,
        UnaryOp::GeluErf => Function::GeluErf,
        UnaryOp::Erf => Function::Erf,
        UnaryOp::Relu => Function::Relu,
        UnaryOp::Silu => Function::Silu,
        UnaryOp::Tanh => Function::Tanh,
        UnaryOp::Floor => Function::Floor,
        UnaryOp::Ceil => Function::Ceil,
        UnaryOp::Round => Function::Round,
        UnaryOp::Sign => Function::Sign,
    }
}

impl RocmStorage {
    fn operand<'a>(&self, l: &'a Layout) -> Operand<'a> {
        Operand { ptr: self.at(l.start_offset()), strides: l.stride() }
    }

    pub(super) fn unary_of(&self, op: UnaryOp, l: &Layout) -> Computed {
        self.function_of(function(op), [0.0; 2], l)
    }

    pub(super) fn affine_of(&self, l: &Layout, mul: f64, add: f64) -> Computed {
        self.function_of(Function::Affine, [mul as f32, add as f32], l)
    }

    pub(super) fn powf_of(&self, l: &Layout, exponent: f64) -> Computed {
        self.function_of(Function::Powf, [exponent as f32, 0.0], l)
    }

    pub(super) fn elu_of(&self, l: &Layout, alpha: f64) -> Computed {
        self.function_of(Function::Elu, [alpha as f32, 0.0], l)
    }

    fn function_of(&self, function: Function, parameters: [f32; 2], l: &Layout) -> Computed {
        let Some(dtype) = float_dtype(self.dtype) else { return Ok(None) };
        let Some(x) = self.dense(l, WIDE)? else { return Ok(None) };
        let Ok(count) = u32::try_from(l.shape().elem_count()) else { return Ok(None) };
        self.computed(self.dtype, l, |y| unary::unary(&Unary { function, dtype, count, x: x.ptr, y, parameters }))
    }

    pub(super) fn binary_of(&self, op: BinaryOp, l: &Layout, other: &Self, other_l: &Layout) -> Computed {
        let function = match op {
            BinaryOp::Add => binary::Function::Add,
            BinaryOp::Mul => binary::Function::Mul,
            BinaryOp::Sub => binary::Function::Sub,
            BinaryOp::Div => binary::Function::Div,
            BinaryOp::Maximum => binary::Function::Maximum,
            BinaryOp::Minimum => binary::Function::Minimum,
        };
        let Some(dtype) = kernel_dtype(self.dtype) else { return Ok(None) };
        let (shape, a, b) = (l.dims(), self.operand(l), other.operand(other_l));
        self.computed(self.dtype, l, |y| binary::binary(function, &Pair { dtype, shape, a, b, y }))
    }

    pub(super) fn cmp_of(&self, op: CmpOp, l: &Layout, other: &Self, other_l: &Layout) -> Computed {
        let comparison = match op {
            CmpOp::Eq => Comparison::Eq,
            CmpOp::Ne => Comparison::Ne,
            CmpOp::Le => Comparison::Le,
            CmpOp::Ge => Comparison::Ge,
            CmpOp::Lt => Comparison::Lt,
            CmpOp::Gt => Comparison::Gt,
        };
        let Some(dtype) = kernel_dtype(self.dtype) else { return Ok(None) };
        let (shape, a, b) = (l.dims(), self.operand(l), other.operand(other_l));
        self.computed(DType::U8, l, |y| binary::compare(comparison, &Pair { dtype, shape, a, b, y }))
    }

    pub(super) fn where_of(&self, l: &Layout, (t, tl): (&Self, &Layout), (f, fl): (&Self, &Layout)) -> Computed {
        let Some(condition_dtype) = kernel_dtype(self.dtype) else { return Ok(None) };
        let (shape, condition) = (l.dims(), self.operand(l));
        let (on_true, on_false) = (t.operand(tl), f.operand(fl));
        let element_size = t.dtype.size_in_bytes() as u64;
        self.computed(t.dtype, l, |y| {
            binary::where_cond(&Where { condition_dtype, element_size, shape, condition, on_true, on_false, y })
        })
    }

    pub(super) fn as_dtype(&self, l: &Layout, dtype: DType) -> Computed {
        // The same bits: a copy. Integers of 32 bits differ in nothing but how they are read.
        let same_bits = self.dtype == dtype || [self.dtype, dtype].iter().all(|t| matches!(t, DType::U32 | DType::I32));
        if same_bits {
            return Ok(self.copied(l)?.map(|copy| Self { dtype, ..copy }));
        }
        let types: Option<(Dtype, Dtype)> = kernel_dtype(self.dtype).zip(kernel_dtype(dtype));
        let Some((from, to)) = types else { return Ok(None) };
        let (shape, strides, x) = (l.dims(), l.stride(), self.at(l.start_offset()));
        self.computed(dtype, l, |y| cast::cast(&Cast { from, to, shape, strides, x, y }))
    }
}
