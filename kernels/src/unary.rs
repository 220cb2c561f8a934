//! Geometry of `hip/unary.hip`: functions of single elements.

use crate::shape::{check_aligned, check_dim, check_dtype};
use crate::{Args, DevicePtr, Dtype, Launch, ShapeError};

const BLOCK: u32 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    Exp,
    /// Natural logarithm.
    Log,
    Tanh,
    Erf,
    Sigmoid,
    /// `x * sigmoid(x)`
    Silu,
    /// With tanh.
    Gelu,
    /// With erf.
    GeluErf,
    /// Below 2^50; NaN from there on.
    Sin,
    /// Below 2^50; NaN from there on.
    Cos,
    Abs,
    Neg,
    Recip,
    Sqr,
    Sqrt,
    Relu,
    Floor,
    Ceil,
    /// Halves away from zero.
    Round,
    /// 0 for 0 and NaN.
    Sign,
    /// `x * p + q`
    Affine,
    /// x to the power of p.
    Powf,
    /// x where it is positive, else `p * (exp(x) - 1)`.
    Elu,
}

impl Function {
    pub const ALL: [Self; 23] = [
        Self::Exp,
        Self::Log,
        Self::Tanh,
        Self::Erf,
        Self::Sigmoid,
        Self::Silu,
        Self::Gelu,
        Self::GeluErf,
        Self::Sin,
        Self::Cos,
        Self::Abs,
        Self::Neg,
        Self::Recip,
        Self::Sqr,
        Self::Sqrt,
        Self::Relu,
        Self::Floor,
        Self::Ceil,
        Self::Round,
        Self::Sign,
        Self::Affine,
        Self::Powf,
        Self::Elu,
    ];

    /// As kernels are named.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exp => "exp",
            Self::Log => "log",
            Self::Tanh => "tanh",
            Self::Erf => "erf",
            Self::Sigmoid => "sigmoid",
            Self::Silu => "silu",
            Self::Gelu => "gelu",
            Self::GeluErf => "gelu_erf",
            Self::Sin => "sin",
            Self::Cos => "cos",
            Self::Abs => "abs",
            Self::Neg => "neg",
            Self::Recip => "recip",
            Self::Sqr => "sqr",
            Self::Sqrt => "sqrt",
            Self::Relu => "relu",
            Self::Floor => "floor",
            Self::Ceil => "ceil",
            Self::Round => "round",
            Self::Sign => "sign",
            Self::Affine => "affine",
            Self::Powf => "powf",
            Self::Elu => "elu",
        }
    }
}

/// A contiguous tensor of f32, f16 or bf16, aligned to 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Unary {
    pub function: Function,
    pub dtype: Dtype,
    /// Number of elements.
    pub count: u32,
    pub x: DevicePtr,
    /// May be `x`.
    pub y: DevicePtr,
    /// What [`Function::Affine`], [`Function::Powf`] and [`Function::Elu`] call p and q; others do not look at them.
    pub parameters: [f32; 2],
}

/// `y = function(x)` for every element, computed in f32.
pub fn unary(unary: &Unary) -> Result<Launch, ShapeError> {
    const OP: &str = "unary";
    let Unary { function, dtype, count, x, y, parameters: [p, q] } = *unary;
    check_dtype(OP, dtype, &[Dtype::F32, Dtype::F16, Dtype::Bf16])?;
    check_dim(OP, "count", count)?;
    check_aligned(OP, 16, &[("x", x), ("y", y)])?;
    let per_thread = 16 / dtype.size() as u32;
    Ok(Launch {
        module: "unary",
        kernel: format!("{}_{dtype}", function.name()),
        grid: [count.div_ceil(BLOCK * per_thread), 1, 1],
        block: BLOCK,
        lds: 0,
        args: Args::new().ptr(x).ptr(y).u32(count).f32(p).f32(q),
    })
}
