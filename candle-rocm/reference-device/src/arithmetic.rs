//! What the reference device computes for one element: the formulas of Candle's CPU backend, written down once more.

use candle_core::op::{BinaryOp, CmpOp, UnaryOp};

/// Arithmetic that wraps around where integers overflow, as Candle's does in optimised builds.
pub(crate) trait Number: Copy + PartialOrd {
    const ZERO: Self;
    fn from_f64(x: f64) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($t:ty)*) => { $(impl Number for $t {
        const ZERO: Self = 0;
        fn from_f64(x: f64) -> Self { x as Self }
        fn add(self, other: Self) -> Self { self.wrapping_add(other) }
        fn sub(self, other: Self) -> Self { self.wrapping_sub(other) }
        fn mul(self, other: Self) -> Self { self.wrapping_mul(other) }
        fn div(self, other: Self) -> Self { self.wrapping_div(other) }
    })* };
}
macro_rules! floats {
    ($($t:ty)*) => { $(impl Number for $t {
        const ZERO: Self = 0.;
        fn from_f64(x: f64) -> Self { x as Self }
        fn add(self, other: Self) -> Self { self + other }
        fn sub(self, other: Self) -> Self { self - other }
        fn mul(self, other: Self) -> Self { self * other }
        fn div(self, other: Self) -> Self { self / other }
    })* };
}
integers!(u8 u32 i64);
floats!(f32 f64);

pub(crate) fn binary<T: Number>(op: BinaryOp, a: T, b: T) -> T {
    match op {
        BinaryOp::Add => a.add(b),
        BinaryOp::Sub => a.sub(b),
        BinaryOp::Mul => a.mul(b),
        BinaryOp::Div => a.div(b),
        BinaryOp::Maximum => {
            if a < b {
                b
            } else {
                a
            }
        }
        BinaryOp::Minimum => {
            if a > b {
                b
            } else {
                a
            }
        }
    }
}

pub(crate) fn compare<T: Number>(op: CmpOp, a: T, b: T) -> u8 {
    u8::from(match op {
        CmpOp::Eq => a == b,
        CmpOp::Ne => a != b,
        CmpOp::Lt => a < b,
        CmpOp::Le => a <= b,
        CmpOp::Gt => a > b,
        CmpOp::Ge => a >= b,
    })
}

/// `None` for what needs a special function that Rust's standard library lacks.
pub(crate) fn unary(op: UnaryOp) -> Option<fn(f32) -> f32> {
    Some(match op {
        UnaryOp::Exp => f32::exp,
        UnaryOp::Log => f32::ln,
        UnaryOp::Sin => f32::sin,
        UnaryOp::Cos => f32::cos,
        UnaryOp::Abs => f32::abs,
        UnaryOp::Neg => |x| -x,
        UnaryOp::Recip => f32::recip,
        UnaryOp::Sqr => |x| x * x,
        UnaryOp::Sqrt => f32::sqrt,
        UnaryOp::Gelu => |x| {
            let inner = (2. / std::f32::consts::PI).sqrt() * x * (1. + 0.044715 * x * x);
            0.5 * x * (1. + inner.tanh())
        },
        UnaryOp::Relu => |x| x.max(0.),
        UnaryOp::Silu => |x| x / (1. + (-x).exp()),
        UnaryOp::Tanh => f32::tanh,
        UnaryOp::Floor => f32::floor,
        UnaryOp::Ceil => f32::ceil,
        UnaryOp::Round => f32::round,
        UnaryOp::Sign => |x| f32::from(x > 0.) - f32::from(x < 0.),
        UnaryOp::Erf | UnaryOp::GeluErf => return None,
    })
}
