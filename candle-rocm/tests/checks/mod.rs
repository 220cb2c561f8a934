//! Checks of every kernel against a plain computation in f64, on whatever device a context stands for:
//! `tests/main.rs` runs them over hip-sim, `examples/nvidia_check.rs` on a card. Shapes are odd on purpose; outputs
//! are poisoned, and so is what lies behind them.

// As in a test: an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

pub mod attention;
pub mod binary;
pub mod cast;
pub mod copy;
pub mod data;
pub mod device;
pub mod gemm;
pub mod index;
pub mod matmul;
pub mod norm;
pub mod quant;
pub mod reduce;
pub mod softmax;
pub mod unary;

use candle_rocm::Context;

/// Name, and what panics where it does not hold.
pub type Check = (&'static str, fn(&Context));

pub const ALL: &[Check] = &[
    ("device", device::check),
    ("norm", norm::check),
    ("softmax", softmax::check),
    ("reduce", reduce::check),
    ("copy", copy::check),
    ("cast", cast::check),
    ("unary", unary::check),
    ("quant", quant::check),
    ("gemm", gemm::check),
    ("attention", attention::check),
    ("binary", binary::check),
    ("index", index::check),
    ("matmul", matmul::check),
];
