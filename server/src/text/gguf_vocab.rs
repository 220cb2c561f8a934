//! The vocabulary as a GGUF file states it: pieces, kinds, scores, merges and special ids, checked for size.
//!
//! Shared by the two tokenizer kinds we build from GGUF (`spm.rs`, `bpe.rs`). Keys and defaults are those of
//! <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md> and, where that is silent, of llama.cpp.

use std::borrow::Cow;

use super::special_tokens::{SpecialTokens, is_end_by_name};
use super::token_table::{TokenKind, TokenTable};
use super::tokenizer::TokenizerError;
use taper_models::weights::gguf::{Array, Gguf, StringArray};

/// A borrowed view of a file's vocabulary.
pub(super) struct GgufVocab<'a> {
    pub(super) gguf: &'a Gguf,
    pub(super) pieces: &'a StringArray,
    kinds: Option<&'a [i32]>,
}

impl<'a> GgufVocab<'a> {
    pub(super) fn new(gguf: &'a Gguf) -> Result<Self, TokenizerError> {
        let pieces = gguf.require(TOKENS, strings(gguf, TOKENS)?)?;
        if u32::try_from(pieces.len()).is_err() {
            return Err(TokenizerError::damaged(gguf, format!("{TOKENS:?} has {} tokens", pieces.len())));
        }
        let kinds = match gguf.array(TOKEN_TYPE)? {
            None => None,
            Some(Array::Signed(kinds)) => Some(kinds.as_slice()),
            Some(_) => {
                return Err(TokenizerError::damaged(gguf, format!("{TOKEN_TYPE:?} is no array of 32-bit integers")));
            }
        };
        let vocab = Self { gguf, pieces, kinds };
        if let Some(kinds) = kinds {
            vocab.check_len(TOKEN_TYPE, kinds.len())?;
        }
        Ok(vocab)
    }

    /// The kind of token `id`. End tokens are control tokens even if the file does not say so.
    pub(super) fn kind(&self, id: usize) -> TokenKind {
        let kind = self.kinds.map_or(TokenKind::Normal, |kinds| TokenKind::from_gguf(kinds[id]));
        match self.pieces.get(id) {
            Some(piece) if kind != TokenKind::Control && is_end_by_name(piece) => TokenKind::Control,
            _ => kind,
        }
    }

    /// The bytes of every token: pieces of text by `decode`, byte tokens as their byte, markers as they are spelt.
    pub(super) fn token_table(&self, decode: impl Fn(&[u8]) -> Cow<[u8]>) -> TokenTable {
        let mut tokens = TokenTable::with_capacity(self.pieces.len());
        for (id, piece) in self.pieces.iter().enumerate() {
            match self.kind(id) {
                TokenKind::Byte => match byte_of_piece(piece) {
                    Some(byte) => tokens.push(&[byte], TokenKind::Byte),
                    None => tokens.push(piece, TokenKind::Normal),
                },
                kind @ (TokenKind::Normal | TokenKind::Unused) => tokens.push(&decode(piece), kind),
                kind => tokens.push(piece, kind),
            }
        }
        tokens.shrink_to_fit();
        tokens
    }

    /// One score for each token.
    pub(super) fn scores(&self) -> Result<&'a [f32], TokenizerError> {
        match self.gguf.require(SCORES, self.gguf.array(SCORES)?)? {
            Array::Float(scores) => {
                self.check_len(SCORES, scores.len())?;
                Ok(scores)
            }
            _ => Err(TokenizerError::damaged(self.gguf, format!("{SCORES:?} is no array of floats"))),
        }
    }

    /// The merge rules, best first, each `left right`.
    pub(super) fn merges(&self) -> Result<&'a StringArray, TokenizerError> {
        Ok(self.gguf.require(MERGES, strings(self.gguf, MERGES)?)?)
    }

    /// Special ids and whether they are put around a text; `add_bos` is what holds if the file does not say.
    pub(super) fn special_tokens(&self, add_bos: bool) -> Result<SpecialTokens, TokenizerError> {
        let add_bos = self.gguf.bool("tokenizer.ggml.add_bos_token")?.unwrap_or(add_bos);
        let add_eos = self.gguf.bool("tokenizer.ggml.add_eos_token")?.unwrap_or(false);
        let bos = self.id("tokenizer.ggml.bos_token_id")?;
        let eos = self.id("tokenizer.ggml.eos_token_id")?;
        let mut special = SpecialTokens {
            bos,
            eos,
            eot: self.id("tokenizer.ggml.eot_token_id")?,
            prefix: if add_bos { bos.into_iter().collect() } else { Vec::new() },
            suffix: if add_eos { eos.into_iter().collect() } else { Vec::new() },
            end_of_generation: Vec::new(),
        };
        special.end_of_generation.extend(self.id("tokenizer.ggml.eom_token_id")?);
        Ok(special)
    }

    /// A token id stored under `key`.
    pub(super) fn id(&self, key: &str) -> Result<Option<u32>, TokenizerError> {
        match self.gguf.u64(key)? {
            None => Ok(None),
            Some(id) if id < self.pieces.len() as u64 => Ok(Some(id as u32)),
            Some(id) => {
                let size = self.pieces.len();
                Err(TokenizerError::damaged(
                    self.gguf,
                    format!("{key:?} is {id}, but the vocabulary has {size} tokens"),
                ))
            }
        }
    }

    fn check_len(&self, key: &str, len: usize) -> Result<(), TokenizerError> {
        if len < self.pieces.len() {
            let what = format!("{key:?} has {len} entries for {} tokens", self.pieces.len());
            return Err(TokenizerError::damaged(self.gguf, what));
        }
        Ok(())
    }
}

const TOKENS: &str = "tokenizer.ggml.tokens";
const TOKEN_TYPE: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";
const MERGES: &str = "tokenizer.ggml.merges";

fn strings<'a>(gguf: &'a Gguf, key: &str) -> Result<Option<&'a StringArray>, TokenizerError> {
    match gguf.array(key)? {
        None => Ok(None),
        Some(Array::String(strings)) => Ok(Some(strings)),
        Some(_) => Err(TokenizerError::damaged(gguf, format!("{key:?} is no array of strings"))),
    }
}

/// The byte that a piece such as `<0x0A>` stands for.
pub(super) fn byte_of_piece(piece: &[u8]) -> Option<u8> {
    let hex = piece.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    if hex.len() != 2 {
        return None;
    }
    u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
}
