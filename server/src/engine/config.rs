//! What an engine is built from: the shape of its cache and the limits of a step. Built once, by whoever sized the cache.

/// Settings of one engine.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineConfig {
    /// Physical cache blocks in the pool, shared by all cache groups.
    pub num_blocks: usize,
    /// Tokens per block.
    pub block_size: usize,
    /// One entry per cache group of the model: its sliding window in tokens, or `None` for full attention.
    pub windows: Vec<Option<usize>>,
    /// Longest sequence (prompt and output) the model is run on.
    pub max_model_len: usize,
    /// Sequences that run at the same time.
    pub max_num_seqs: usize,
    /// Tokens of one step, over all sequences. Bounds how long a prefill can hold up the decoding sequences.
    pub max_num_batched_tokens: usize,
    /// Rows of logits for prompt tokens in one step, over all sequences that want their prompts scored. A row has a number
    /// for each token of the vocabulary, so those of a whole step could take gigabytes.
    pub max_scored_rows: usize,
    /// Requests that may wait beyond `max_num_seqs` before `submit` answers that the queue is full.
    /// One party may have half of them.
    pub max_queued_seqs: usize,
    /// Tokens that are guessed at a time from what a sequence has had before; 0 guesses only for requests with a prediction.
    pub draft_max: usize,
    /// Whether tokens are guessed only where that saves time, by what steps have taken. What is guessed then depends on the
    /// machine; the answer does not.
    pub weigh_drafts: bool,
    /// Whether sequences share the blocks of equal prefixes.
    pub prefix_caching: bool,
    /// Tokens that end a sequence unless its request sets `ignore_eos`.
    pub eos_token_ids: Vec<u32>,
}

/// A setting, or a pair of settings, that no engine can run with.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConfigError {
    #[error("`{field}` is 0; it must be at least 1")]
    Zero { field: &'static str },
    #[error("the model has no cache groups; there must be at least one")]
    NoGroups,
    #[error(
        "max_num_batched_tokens ({max_num_batched_tokens}) is below max_num_seqs ({max_num_seqs}); every running \
         sequence needs one token of each step, so raise the first or lower the second"
    )]
    BudgetBelowSequences { max_num_batched_tokens: usize, max_num_seqs: usize },
    #[error("{num_blocks} blocks of {block_size} tokens are more slots than 32 bits can number; lower the cache size")]
    TooManySlots { num_blocks: usize, block_size: usize },
    #[error("{num_blocks} cache blocks cannot hold a single token in all cache groups; raise the cache size")]
    PoolTooSmall { num_blocks: usize },
}

impl EngineConfig {
    /// Checks the settings that can be judged without the block manager.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let counts = [
            ("num_blocks", self.num_blocks),
            ("block_size", self.block_size),
            ("max_model_len", self.max_model_len),
            ("max_num_seqs", self.max_num_seqs),
            ("max_scored_rows", self.max_scored_rows),
            ("window", self.windows.iter().flatten().copied().min().unwrap_or(1)),
        ];
        if let Some((field, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(ConfigError::Zero { field });
        }
        if self.windows.is_empty() {
            return Err(ConfigError::NoGroups);
        }
        let (max_num_batched_tokens, max_num_seqs) = (self.max_num_batched_tokens, self.max_num_seqs);
        if max_num_batched_tokens < max_num_seqs {
            return Err(ConfigError::BudgetBelowSequences { max_num_batched_tokens, max_num_seqs });
        }
        // Slots are `u32`, and the highest one marks a block that was given back.
        let slots = self.num_blocks.checked_mul(self.block_size);
        if slots.is_none_or(|slots| slots >= u32::MAX as usize) {
            return Err(ConfigError::TooManySlots { num_blocks: self.num_blocks, block_size: self.block_size });
        }
        Ok(())
    }
}
