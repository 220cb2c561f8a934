//! The tokens of one engine step, as every model sees them.
//!
//! A batch is ragged: the new tokens of all scheduled sequences lie one after the other without padding, whether a
//! sequence contributes one token (decode) or many (a prefill chunk). Keys and values are addressed through blocks;
//! a batch names physical blocks only and knows neither requests nor the allocator.

/// Marks a block-table entry whose block has been given back (it lies behind a sliding window) and must not be read.
pub const NULL_BLOCK: u32 = u32::MAX;

/// One step's input. `T` is the number of new tokens, `S` the number of sequences, `G` the number of cache groups
/// (see [`crate::cache::CachePlan`]).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// New token ids, sequence after sequence. `[T]`
    pub tokens: Vec<u32>,
    /// Position of each new token in its sequence. `[T]`
    pub positions: Vec<u32>,
    /// The sequences, in the order of their tokens. `[S]`
    pub sequences: Vec<BatchSequence>,
    /// Per cache group: the physical slot (`block * block_size + offset`) that each new token's K and V go to. `[G][T]`
    pub slot_mappings: Vec<Vec<u32>>,
    /// Rows of `tokens` whose logits are wanted, ascending. `[R]`
    pub logit_rows: Vec<u32>,
}

/// One sequence's share of a [`Batch`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BatchSequence {
    /// First row of this sequence in [`Batch::tokens`].
    pub query_start: usize,
    /// Number of new tokens.
    pub query_len: usize,
    /// Tokens in the cache once this step has run: those before, plus `query_len`.
    pub context_len: usize,
    /// Per cache group: physical block of each logical block, [`NULL_BLOCK`] where given back. `[G][ceil(context_len / block_size)]`
    pub block_tables: Vec<Vec<u32>>,
}

impl Batch {
    /// Number of new tokens.
    pub fn num_tokens(&self) -> usize {
        self.tokens.len()
    }
}
