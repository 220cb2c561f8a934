//! DRY's sequence breakers: from the texts that a request or a setting names to the tokens that the engine looks for.
//!
//! A text can begin inside a token and end inside another, so a breaker is every token that has the whole text, and every
//! token that ends with a beginning of it, followed by the tokens of the rest. That takes a look at the whole vocabulary,
//! so the latest lists are kept; it is work for a thread that may take its time, not for the engine's.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::sampling::SequenceBreakers;
use crate::text::{EncodeOptions, Tokenizer, TokenizerError};

/// llama.cpp's breakers: ends of lines, and what names, quotations and emphasis begin or end with.
pub const DEFAULT_BREAKERS: [&str; 4] = ["\n", ":", "\"", "*"];
/// Characters of a breaker at most; llama.cpp cuts it after as many bytes.
pub const MAX_BREAKER_CHARS: usize = 40;
/// Tokens behind the first that are compared at most.
const MAX_TAIL: usize = 20;
/// Different lists that are kept.
const KEPT: usize = 16;

/// The tokens of `texts`.
///
/// # Errors
/// When the tokenizer fails on the rest of a text.
pub fn sequence_breakers(texts: &[String], tokenizer: &Tokenizer) -> Result<SequenceBreakers, TokenizerError> {
    let mut sequences = Vec::new();
    for text in texts.iter().filter(|text| !text.is_empty()) {
        let tail = |rest: &str| {
            let mut ids = tokenizer.encode(rest, EncodeOptions { add_special: false, parse_special: false })?;
            ids.truncate(MAX_TAIL);
            Ok::<_, TokenizerError>(ids)
        };
        // Where a character has a token for each of its bytes, none of them ends where a text can be cut.
        if let Some((head, tail)) = tail(text)?.split_first() {
            sequences.push((*head, tail.to_vec()));
        }
        // The rests by where they begin; each is needed by many tokens.
        let cuts = text.char_indices().map(|(at, _)| at).skip(1);
        let rests = cuts.map(|at| Ok((at, tail(&text[at..])?))).collect::<Result<Vec<_>, TokenizerError>>()?;
        for id in 0..tokenizer.vocab_size() as u32 {
            let bytes = tokenizer.token_bytes(id);
            if bytes.windows(text.len()).any(|part| part == text.as_bytes()) {
                sequences.push((id, Vec::new()));
                continue;
            }
            let begun = rests.iter().filter(|(at, _)| bytes.ends_with(&text.as_bytes()[..*at]));
            sequences.extend(begun.map(|(_, rest)| (id, rest.clone())));
        }
    }
    Ok(SequenceBreakers::new(sequences))
}

/// Lists of texts and their tokens, the latest first.
type Lists = VecDeque<(Vec<String>, Arc<SequenceBreakers>)>;

/// The breakers of one vocabulary.
pub struct BreakerBook {
    tokenizer: Arc<Tokenizer>,
    default: Vec<String>,
    latest: Mutex<Lists>,
}

impl BreakerBook {
    /// A book whose requests have the breakers `default` unless they bring their own.
    pub fn new(tokenizer: Arc<Tokenizer>, default: Vec<String>) -> Self {
        Self { tokenizer, default, latest: Mutex::default() }
    }

    /// The tokens of `texts`, or of the default ones.
    ///
    /// # Errors
    /// As [`sequence_breakers`].
    pub fn tokens(&self, texts: Option<&[String]>) -> Result<Arc<SequenceBreakers>, TokenizerError> {
        let texts = texts.unwrap_or(&self.default);
        if let Some(found) = self.latest().iter().find(|(known, _)| known == texts) {
            return Ok(Arc::clone(&found.1));
        }
        let breakers = Arc::new(sequence_breakers(texts, &self.tokenizer)?);
        let mut latest = self.latest();
        latest.push_front((texts.to_vec(), Arc::clone(&breakers)));
        latest.truncate(KEPT);
        Ok(breakers)
    }

    fn latest(&self) -> std::sync::MutexGuard<'_, Lists> {
        // The list is whole after every operation, so a panic elsewhere does not spoil it.
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
