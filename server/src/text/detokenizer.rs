//! Tokens to text as they come, never splitting a character.
//!
//! A token may end in the middle of a UTF-8 character. Such bytes are held back until the character is whole; bytes
//! that can no longer become one are shown as U+FFFD at once. The deltas put together are what [`Tokenizer::decode`]
//! gives for all tokens.

use std::collections::HashSet;
use std::sync::Arc;

use super::tokenizer::{DecodeOptions, Tokenizer};

/// The text of one growing sequence of tokens.
#[derive(Debug)]
pub struct Detokenizer {
    tokenizer: Arc<Tokenizer>,
    skip_special: bool,
    /// Control tokens that are shown all the same.
    shown: Arc<HashSet<u32>>,
    at_start: bool,
    /// The beginning of a character, at most 3 bytes between calls.
    pending: Vec<u8>,
}

impl Detokenizer {
    /// Starts a stream.
    pub fn new(tokenizer: Arc<Tokenizer>, options: DecodeOptions) -> Self {
        let DecodeOptions { skip_special, starts_text } = options;
        Self { tokenizer, skip_special, shown: Arc::default(), at_start: starts_text, pending: Vec::new() }
    }

    /// The same, with these control tokens shown even where others are not.
    pub fn showing(self, shown: Arc<HashSet<u32>>) -> Self {
        Self { shown, ..self }
    }

    /// The text that token `id` completes; often empty.
    pub fn push(&mut self, id: u32) -> String {
        let skip_special = self.skip_special && !self.shown.contains(&id);
        let bytes = self.tokenizer.shown_bytes(id, skip_special, &mut self.at_start);
        self.pending.extend_from_slice(bytes);
        let mut delta = String::new();
        let mut num_done = 0;
        for chunk in self.pending.utf8_chunks() {
            delta.push_str(chunk.valid());
            num_done += chunk.valid().len();
            let invalid = chunk.invalid();
            if invalid.is_empty() || is_incomplete(&self.pending[num_done..]) {
                break;
            }
            delta.push(char::REPLACEMENT_CHARACTER);
            num_done += invalid.len();
        }
        self.pending.drain(..num_done);
        delta
    }

    /// The end of the text: a character that was never completed is shown as U+FFFD.
    pub fn finish(mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
    }
}

/// Whether `bytes` is the beginning of a character whose other bytes may follow.
fn is_incomplete(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}
