//! Candle's element-wise operations as values: upstream names them by type, which a trait object cannot take. And the names of
//! reductions, which upstream keeps to itself.

use crate::backend::BackendStorage;
use crate::op::{self, BinaryOp, BinaryOpT, ReduceOp, UnaryOp, UnaryOpT};
use crate::{CpuStorage, Layout, Result};

/// Candle's name of a reduction, as in `argmax`.
pub fn reduce_name(op: ReduceOp) -> &'static str {
    op.name()
}

macro_rules! element_wise {
    (unary: $($unary:ident)*; binary: $($binary:ident)*) => {
        /// The value for a unary operation that is named by its type.
        pub(crate) fn unary_op<B: UnaryOpT>() -> Result<UnaryOp> {
            $(if B::KERNEL == <op::$unary as UnaryOpT>::KERNEL { return Ok(UnaryOp::$unary) })*
            bail!("no device from another crate knows the unary operation {}", B::NAME)
        }

        /// The value for a binary operation that is named by its type.
        pub(crate) fn binary_op<B: BinaryOpT>() -> Result<BinaryOp> {
            $(if B::KERNEL == <op::$binary as BinaryOpT>::KERNEL { return Ok(BinaryOp::$binary) })*
            bail!("no device from another crate knows the binary operation {}", B::NAME)
        }

        /// Candle's name of a unary operation, as in `gelu_erf`.
        pub fn unary_name(op: UnaryOp) -> &'static str {
            match op { $(UnaryOp::$unary => <op::$unary as UnaryOpT>::NAME,)* }
        }

        /// Candle's name of a binary operation, as in `maximum`.
        pub fn binary_name(op: BinaryOp) -> &'static str {
            match op { $(BinaryOp::$binary => <op::$binary as BinaryOpT>::NAME,)* }
        }

        /// Candle's own CPU code for a unary operation.
        pub fn cpu_unary(op: UnaryOp, x: &CpuStorage, l: &Layout) -> Result<CpuStorage> {
            match op { $(UnaryOp::$unary => x.unary_impl::<op::$unary>(l),)* }
        }

        /// Candle's own CPU code for a binary operation.
        pub fn cpu_binary(op: BinaryOp, a: &CpuStorage, b: &CpuStorage, al: &Layout, bl: &Layout) -> Result<CpuStorage> {
            match op { $(BinaryOp::$binary => a.binary_impl::<op::$binary>(b, al, bl),)* }
        }
    };
}

element_wise! {
    unary: Exp Log Sin Cos Abs Neg Recip Sqr Sqrt Gelu GeluErf Erf Relu Silu Tanh Floor Ceil Round Sign;
    binary: Add Mul Sub Div Maximum Minimum
}
