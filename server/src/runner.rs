//! The real model behind the engine's seam: batches in, logits out, the KV cache in between.

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
        // An error here leaves weights and cache usable: slots that were written belong to the sequences that end.
        let run = || self.model.forward(batch, &self.cache)?.flatten_all()?.to_vec1::<f32>();
        let rows = run().map_err(|error| RunnerError::Batch(error.to_string()))?;
        Ok(Logits { rows, vocab_size: self.vocab_size() })
    }

    fn vocab_size(&self) -> usize {
        self.model.spec().vocab_size
    }
}
