//! Weights in any storage format: GGUF's block types and dense floats.

mod ggml;
mod linear;

pub use ggml::GgmlType;
pub use linear::{Embedding, Linear, Weight};
