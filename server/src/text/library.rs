//! Tokenizers that the `tokenizers` library runs: those of a `tokenizer.json`, and BPE from GGUF (see `bpe.rs`).
//!
//! The library's pipeline is driven step by step, since its one call cannot say per text whether special tokens are
//! parsed, and tracks offsets that nobody here reads. Decoding is ours too: the decoder named in the file is turned
//! into the bytes of each token once.

use std::borrow::Cow;
use std::time::Instant;

use serde_json::Value;
use taper_models::weights::file::brief_message;
use tokenizers::{AddedVocabulary, Model, OffsetReferential, OffsetType};

use super::guard::guarded;
use super::pipeline::{MAX_TIME, Pipeline};
use super::spm::unmark_spaces;
use super::token_table::{TokenKind, TokenTable};
use super::{gguf_vocab::byte_of_piece, tokenizer::TokenizerError};

/// A tokenizer of the library, in both readings of special tokens.
pub(super) struct Library {
    tokenizer: tokenizers::Tokenizer,
    pipeline: Pipeline,
    /// The added tokens with the special ones taken as plain text.
    without_special: AddedVocabulary,
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library").finish_non_exhaustive()
    }
}

impl Library {
    pub(super) fn new(tokenizer: tokenizers::Tokenizer) -> Result<Self, TokenizerError> {
        let mut without_special = tokenizer.get_added_vocabulary().clone();
        without_special.set_encode_special_tokens(true);
        let pipeline = Pipeline::of(&tokenizer).map_err(|error| TokenizerError::Encode(error.to_string()))?;
        Ok(Self { tokenizer, pipeline, without_special })
    }

    /// Appends the tokens of `text` to `ids`.
    pub(super) fn encode(&self, text: &str, parse_special: bool, ids: &mut Vec<u32>) -> Result<(), TokenizerError> {
        match guarded(|| self.try_encode(text, parse_special, ids)) {
            Ok(result) => result.map_err(|error| TokenizerError::Encode(error.to_string())),
            Err(panic) => Err(TokenizerError::Encode(format!("the tokenizers library gave up: {panic}"))),
        }
    }

    fn try_encode(&self, text: &str, parse_special: bool, ids: &mut Vec<u32>) -> tokenizers::Result<()> {
        let added = if parse_special { self.tokenizer.get_added_vocabulary() } else { &self.without_special };
        let until = Instant::now() + MAX_TIME;
        let normalizer = self.pipeline.normalizer(until);
        let mut words = added.extract_and_normalize(Some(&normalizer), text);
        normalizer.finish()?;
        self.pipeline.split(&mut words, until)?;
        words.tokenize(|word| self.tokenizer.get_model().tokenize(word.get()))?;
        for (_, _, tokens) in words.get_splits(OffsetReferential::Normalized, OffsetType::None) {
            ids.extend(tokens.iter().flatten().map(|token| token.id));
        }
        Ok(())
    }

    /// What the post-processor puts before and after a text.
    pub(super) fn around_text(&self) -> Result<(Vec<u32>, Vec<u32>), TokenizerError> {
        const PROBE: &str = "a";
        let mut bare = Vec::new();
        self.encode(PROBE, true, &mut bare)?;
        let full = guarded(|| self.tokenizer.encode(PROBE, true))
            .map_err(TokenizerError::Encode)?
            .map_err(|error| TokenizerError::Encode(error.to_string()))?;
        let full = full.get_ids();
        let start = full.windows(bare.len().max(1)).position(|window| window == bare).unwrap_or(0);
        let end = (start + bare.len()).min(full.len());
        Ok((full[..start].to_vec(), full[end..].to_vec()))
    }

    /// The id of the token spelt `token`.
    pub(super) fn id(&self, token: &str) -> Option<u32> {
        self.tokenizer.token_to_id(token)
    }

    /// The bytes of every token, and whether decoding drops the first space of a text.
    pub(super) fn token_table(&self) -> Result<(TokenTable, bool), TokenizerError> {
        let decoding = Decoding::of(&self.tokenizer)?;
        let mut by_id: Vec<(u32, String)> =
            self.tokenizer.get_vocab(true).into_iter().map(|(token, id)| (id, token)).collect();
        by_id.sort_unstable();
        let added = self.tokenizer.get_added_tokens_decoder();
        let mut tokens = TokenTable::with_capacity(by_id.len());
        for (id, token) in by_id {
            while tokens.len() < id as usize {
                tokens.push(b"", TokenKind::Unused);
            }
            match added.get(&id) {
                // Two spellings of one id: the added one is the one that counts.
                _ if tokens.len() > id as usize => {}
                Some(added) if added.special => tokens.push(added.content.as_bytes(), TokenKind::Control),
                Some(added) => tokens.push(added.content.as_bytes(), TokenKind::UserDefined),
                None => {
                    let (bytes, kind) = decoding.bytes(&token);
                    tokens.push(&bytes, kind);
                }
            }
        }
        tokens.shrink_to_fit();
        Ok((tokens, decoding.strips_first_space))
    }
}

/// How a piece's characters stand for bytes.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Decoding {
    /// Each character is one byte, in GPT-2's alphabet.
    byte_level: bool,
    /// `▁` is a space.
    space_mark: bool,
    /// `<0x0A>` is a byte.
    byte_fallback: bool,
    /// The first space of a text is not part of it.
    strips_first_space: bool,
}

impl Decoding {
    fn of(tokenizer: &tokenizers::Tokenizer) -> Result<Self, TokenizerError> {
        let mut decoding = Self::default();
        if let Some(decoder) = tokenizer.get_decoder() {
            let decoder = serde_json::to_value(decoder).map_err(|error| TokenizerError::Decoder(error.to_string()))?;
            decoding.add(&decoder)?;
        }
        Ok(decoding)
    }

    /// Takes in one decoder of the file, or a sequence of them.
    fn add(&mut self, decoder: &Value) -> Result<(), TokenizerError> {
        match decoder["type"].as_str().unwrap_or_default() {
            "Sequence" => {
                for decoder in decoder["decoders"].as_array().into_iter().flatten() {
                    self.add(decoder)?;
                }
            }
            "ByteLevel" => self.byte_level = true,
            "ByteFallback" => self.byte_fallback = true,
            "Fuse" => {}
            "Metaspace" if decoder["replacement"] == "▁" => {
                self.space_mark = true;
                self.strips_first_space = decoder["prepend_scheme"] != "never";
            }
            "Replace" if decoder["pattern"]["String"] == "▁" && decoder["content"] == " " => self.space_mark = true,
            "Strip" if decoder["content"] == " " && decoder["start"] == 1 && decoder["stop"] == 0 => {
                self.strips_first_space = true;
            }
            _ => return Err(TokenizerError::Decoder(brief_message(decoder))),
        }
        Ok(())
    }

    fn bytes<'a>(&self, token: &'a str) -> (Cow<'a, [u8]>, TokenKind) {
        if self.byte_fallback
            && let Some(byte) = byte_of_piece(token.as_bytes())
        {
            return (vec![byte].into(), TokenKind::Byte);
        }
        let bytes = match self {
            Self { byte_level: true, .. } => byte_level_bytes(token),
            Self { space_mark: true, .. } => unmark_spaces(token.as_bytes()),
            _ => token.as_bytes().into(),
        };
        (bytes, TokenKind::Normal)
    }
}

/// The bytes of a piece in GPT-2's alphabet, where every byte is a printable character. A piece with anything outside
/// the alphabet is plain text.
pub(super) fn byte_level_bytes(piece: &str) -> Cow<'_, [u8]> {
    match piece.chars().map(byte_level_byte).collect::<Option<Vec<u8>>>() {
        Some(bytes) => bytes.into(),
        None => piece.as_bytes().into(),
    }
}

/// Printable Latin-1 characters are their own byte; the other 68 bytes follow in order from U+0100 on.
fn byte_level_byte(char: char) -> Option<u8> {
    match u32::from(char) {
        code @ (33..=126 | 161..=172 | 174..=255) => Some(code as u8),
        code @ 256..=288 => Some((code - 256) as u8),
        code @ 289..=322 => Some((code - 289 + 127) as u8),
        323 => Some(173),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_level_alphabet_covers_every_byte_once() {
        let mut bytes: Vec<u8> = (0..=323).filter_map(char::from_u32).filter_map(byte_level_byte).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
    }

    #[test]
    fn byte_level_space_and_newline_are_those_of_gpt2() {
        assert_eq!(byte_level_bytes("ĠaĊ").as_ref(), b" a\n");
    }

    #[test]
    fn an_unknown_decoder_is_refused_by_name() {
        let error = Decoding::default().add(&serde_json::json!({"type": "WordPiece"})).unwrap_err();
        assert!(error.to_string().contains("WordPiece"), "{error}");
    }
}
