//! Taper's models: what a checkpoint's files hold, and decoders that run it on Candle tensors.
//!
//! The crate knows no requests and no scheduler. It takes a [`Batch`] of tokens whose cache slots someone else chose,
//! and returns logits.

pub mod batch;
pub mod cache;
pub mod decoder;
pub mod families;
pub mod model;
pub mod ops;
pub mod quant;
pub mod spec;
pub mod threads;
pub mod weights;

pub use batch::{Batch, BatchSequence, NULL_BLOCK};
pub use cache::{CachePlan, KvCache};
pub use model::Model;
