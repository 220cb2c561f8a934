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
}

impl Function {
    pub const ALL: [Self; 8] =
        [Self::Exp, Self::Log, Self::Tanh, Self::Erf, Self::Sigmoid, Self::Silu, Self::Gelu, Self::GeluErf];

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
}

/// `y = function(x)` for every element, computed in f32.
pub fn unary(unary: &Unary) -> Result<Launch, ShapeError> {
    const OP: &str = "unary";
    let Unary { function, dtype, count, x, y } = *unary;
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
        args: Args::new().ptr(x).ptr(y).u32(count),
    })
}
