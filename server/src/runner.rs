//! The real model behind the engine's seam: batches in, logits out, the KV cache in between.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use candle_core::DType;
use taper_models::{Batch, KvCache, Model};

use crate::engine::{Logits, ModelRunner, RunnerError};

/// A model with the cache it writes to.
pub struct CandleRunner {
    model: Model,
    cache: KvCache,
}

impl CandleRunner {
    /// `model` with a cache of `num_blocks` blocks.
    pub fn new(model: Model, num_blocks: usize, block_size: usize, dtype: DType) -> candle_core::Result<Self> {
        let cache = model.new_cache(num_blocks, block_size, dtype)?;
        Ok(Self { model, cache })
    }
}

impl ModelRunner for CandleRunner {
    fn forward(&mut self, batch: &Batch) -> Result<Logits, RunnerError> {
        // An error leaves weights and cache usable: slots that were written belong to the sequences that end with it.
        // So does a panic, which is a bug in a kernel; it must not take the other requests with it.
        let run = || self.model.forward(batch, &self.cache)?.flatten_all()?.to_vec1::<f32>();
        let rows = catch_unwind(AssertUnwindSafe(run))
            .map_err(|panic| RunnerError::Batch(format!("a kernel panicked: {}", message(&*panic))))?
            .map_err(|error| RunnerError::Batch(error.to_string()))?;
        Ok(Logits { rows, vocab_size: self.vocab_size() })
    }

    fn vocab_size(&self) -> usize {
        self.model.spec().vocab_size
    }
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
