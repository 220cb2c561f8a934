//! BPE from GGUF, built for the `tokenizers` library: tokenizer models `gpt2` and `gemma4`.
//!
//! `gpt2` works on bytes written in GPT-2's alphabet, after a pre-tokenizer has cut the text into words. `gemma4` is
//! SentencePiece's vocabulary with explicit merges: spaces are `▁`, there are no words, and what has no piece becomes
//! byte tokens.

use ahash::AHashMap;
use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::Replace;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, SplitDelimiterBehavior, Tokenizer};

use super::gguf_vocab::GgufVocab;
use super::library::byte_level_bytes;
use super::pretokenizers::PreTokenizer;
use super::spm::unmark_spaces;
use super::token_table::{TokenKind, TokenTable};
use super::tokenizer::TokenizerError;

/// The pre-tokenizer that the file names.
pub(super) fn pre_tokenizer(vocab: &GgufVocab) -> Result<&'static PreTokenizer, TokenizerError> {
    let name = vocab.gguf.str("tokenizer.ggml.pre")?.unwrap_or_else(|| {
        tracing::warn!(
            "{}: no pre-tokenizer is named (tokenizer.ggml.pre); using \"default\", which may tokenize differently \
             from the original model. A newer conversion of the model has the name.",
            vocab.gguf.path.display()
        );
        "default"
    });
    PreTokenizer::named(name).ok_or_else(|| TokenizerError::PreTokenizer {
        path: vocab.gguf.path.clone(),
        name: name.to_owned(),
        supported: PreTokenizer::all_names(),
    })
}

/// The tokenizer of a `gpt2` file, and its tokens.
pub(super) fn byte_level(vocab: &GgufVocab, pre: &PreTokenizer) -> Result<(Tokenizer, TokenTable), TokenizerError> {
    let failed = |error: tokenizers::Error| TokenizerError::damaged(vocab.gguf, error.to_string());
    let (pieces, merges) = pieces_and_merges(vocab)?;
    let bpe = BPE::builder().vocab_and_merges(pieces, merges).ignore_merges(pre.ignore_merges);
    let mut tokenizer = Tokenizer::new(bpe.build().map_err(failed)?);
    let mut steps = Vec::new();
    for expression in pre.expressions {
        let pattern = SplitPattern::Regex((*expression).to_owned());
        let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false).map_err(failed)?;
        steps.push(PreTokenizerWrapper::Split(split));
    }
    // The expressions have cut the words already; this only writes them in GPT-2's alphabet.
    let alphabet = ByteLevel::new(false, false, false);
    steps.push(PreTokenizerWrapper::ByteLevel(alphabet));
    tokenizer.with_pre_tokenizer(Some(Sequence::new(steps)));
    add_markers(vocab, &mut tokenizer).map_err(failed)?;
    Ok((tokenizer, vocab.token_table(|piece| std::str::from_utf8(piece).map_or(piece.into(), byte_level_bytes))))
}

/// The tokenizer of a `gemma4` file, and its tokens.
pub(super) fn space_marked(vocab: &GgufVocab) -> Result<(Tokenizer, TokenTable), TokenizerError> {
    let failed = |error: tokenizers::Error| TokenizerError::damaged(vocab.gguf, error.to_string());
    let (pieces, merges) = pieces_and_merges(vocab)?;
    let bpe = BPE::builder().vocab_and_merges(pieces, merges).byte_fallback(true);
    let mut tokenizer = Tokenizer::new(bpe.build().map_err(failed)?);
    tokenizer.with_normalizer(Some(Replace::new(" ", "▁").map_err(failed)?)).map_err(failed)?;
    add_markers(vocab, &mut tokenizer).map_err(failed)?;
    Ok((tokenizer, vocab.token_table(unmark_spaces)))
}

type Pieces = AHashMap<String, u32>;
type Merges = Vec<(String, String)>;

fn pieces_and_merges(vocab: &GgufVocab) -> Result<(Pieces, Merges), TokenizerError> {
    let mut pieces = Pieces::with_capacity(vocab.pieces.len());
    for (id, piece) in vocab.pieces.iter().enumerate() {
        pieces.insert(as_utf8(vocab, piece)?.to_owned(), id as u32);
    }
    let rules = vocab.merges()?;
    let mut merges = Merges::with_capacity(rules.len());
    let mut num_skipped = 0;
    let mut merged = String::new();
    for rule in rules.iter() {
        let known = split_rule(as_utf8(vocab, rule)?).filter(|(left, right)| {
            merged.clear();
            merged.extend([*left, *right]);
            [left, right, merged.as_str()].into_iter().all(|piece| pieces.contains_key(piece))
        });
        match known {
            Some((left, right)) => merges.push((left.to_owned(), right.to_owned())),
            None => num_skipped += 1,
        }
    }
    if num_skipped > 0 {
        let path = vocab.gguf.path.display();
        tracing::debug!("{path}: {num_skipped} of {} merges lead to no token and are left out", rules.len());
    }
    Ok((pieces, merges))
}

/// The two sides of `left right`. Neither is empty, so a space at the very front belongs to `left`.
fn split_rule(rule: &str) -> Option<(&str, &str)> {
    let first_len = rule.chars().next()?.len_utf8();
    let space = first_len + rule[first_len..].find(' ')?;
    Some((&rule[..space], &rule[space + 1..]))
}

fn as_utf8<'a>(vocab: &GgufVocab, bytes: &'a [u8]) -> Result<&'a str, TokenizerError> {
    let not_utf8 = |_| {
        let what = format!("the BPE piece \"{}\" is not UTF-8", bytes.escape_ascii());
        TokenizerError::damaged(vocab.gguf, what)
    };
    std::str::from_utf8(bytes).map_err(not_utf8)
}

/// Registers the tokens that are found before any merging.
fn add_markers(vocab: &GgufVocab, tokenizer: &mut Tokenizer) -> Result<(), tokenizers::Error> {
    let mut markers = Vec::new();
    for (id, piece) in vocab.pieces.iter().enumerate() {
        let is_special = match vocab.kind(id) {
            TokenKind::Control | TokenKind::Unknown => true,
            TokenKind::UserDefined => false,
            TokenKind::Normal | TokenKind::Unused | TokenKind::Byte => continue,
        };
        markers.push(AddedToken::from(String::from_utf8_lossy(piece), is_special).normalized(false));
    }
    // In one call: each call builds the search automaton anew.
    tokenizer.add_tokens(markers)?;
    Ok(())
}
