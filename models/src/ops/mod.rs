//! Fused operations of the decoder, one file each.
//!
//! Each file has a public function on [`candle_core::Tensor`], a CPU kernel behind a Candle custom op, and `reference`:
//! the same computation in plain Candle ops. The reference is the oracle in tests and what runs on a device that has
//! no kernel here. Activations are f32; only the KV cache may be narrower.

pub mod activation;
pub mod attention;
pub mod kv_write;
pub mod norm;
pub mod rope;

mod math;
mod parallel;
mod prefetch;
mod rows;
