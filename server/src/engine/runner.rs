//! The seam between the engine and the model: a batch goes in, logits come out.
//!
//! The engine knows nothing of tensors or devices; whoever implements [`ModelRunner`] owns weights and cache memory.

use taper_models::batch::Batch;

/// Runs the model on one batch. Implemented by the real model and, in tests, by one that checks what it reads.
pub trait ModelRunner {
    /// Writes the K and V of every token of `batch` and returns the logits of its `logit_rows`.
    fn forward(&mut self, batch: &Batch) -> Result<Logits, RunnerError>;

    /// Number of logits in a row.
    fn vocab_size(&self) -> usize;
}

/// The logits of one step. `R` rows, in the order of `Batch::logit_rows`.
#[derive(Debug, Clone, PartialEq)]
pub struct Logits {
    /// `[R * vocab_size]`
    pub rows: Vec<f32>,
    pub vocab_size: usize,
}

/// Why a step produced no logits.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RunnerError {
    /// This batch failed; the next may succeed. Its sequences end with the message.
    #[error("the model failed on this batch: {0}")]
    Batch(String),
    /// The device or the model is unusable. All sequences end with the message and the engine stops.
    #[error("the model can no longer run: {0}")]
    Fatal(String),
}
