//! Our vocabulary in llguidance's terms: the bytes of each token, which tokens steer the model, which ones end it.

use std::sync::Arc;

use toktrie::{TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use crate::text::{EncodeOptions, Tokenizer};

struct Vocabulary {
    trie: TokTrie,
    tokenizer: Arc<Tokenizer>,
}

/// The vocabulary of `tokenizer`. `end_tokens` end an answer. `None` without any of them: no grammar could end.
pub(super) fn vocabulary(tokenizer: &Arc<Tokenizer>, end_tokens: &[u32], num_logits: usize) -> Option<TokEnv> {
    // A token that the model has no logit for could be forced, and not be computed.
    let size = tokenizer.vocab_size().min(num_logits) as u32;
    let end_tokens: Vec<_> = end_tokens.iter().copied().filter(|id| *id < size).collect();
    let info = TokRxInfo::new(size, *end_tokens.first()?);
    let words: Vec<Vec<u8>> = (0..size).map(|id| word(tokenizer, id)).collect();
    let trie = TokTrie::from(&info, &words).with_eos_tokens(&end_tokens);
    Some(Arc::new(Vocabulary { trie, tokenizer: Arc::clone(tokenizer) }))
}

/// A token that steers the model is not text, even if a text could spell it.
fn word(tokenizer: &Tokenizer, id: u32) -> Vec<u8> {
    let bytes = tokenizer.token_bytes(id);
    if tokenizer.is_special(id) || tokenizer.is_end_of_generation(id) {
        return [&[TokTrie::SPECIAL_TOKEN_MARKER], bytes].concat();
    }
    bytes.to_vec()
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    /// Parts that are not UTF-8 go token by token as the trie finds them. Ends before what the vocabulary cannot spell.
    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let mut tokens = Vec::new();
        for chunk in bytes.utf8_chunks() {
            let options = EncodeOptions { add_special: false, parse_special: false };
            let ids = self.tokenizer.encode(chunk.valid(), options).unwrap_or_default();
            let valid = chunk.valid().as_bytes();
            let ids = if spells(&self.tokenizer, &ids, valid) { ids } else { self.trie.greedy_tokenize(valid) };
            let invalid = self.trie.greedy_tokenize(chunk.invalid());
            for (ids, bytes) in [(ids, valid), (invalid, chunk.invalid())] {
                if !spells(&self.tokenizer, &ids, bytes) {
                    return tokens;
                }
                tokens.extend(ids);
            }
        }
        tokens
    }
}

/// Some tokenizers add a space before a text, or change it, and some lack a byte; forced tokens must be exactly the text.
fn spells(tokenizer: &Tokenizer, ids: &[u32], text: &[u8]) -> bool {
    let mut rest = text;
    ids.iter().all(|id| {
        let after = rest.strip_prefix(tokenizer.token_bytes(*id));
        rest = after.unwrap_or(rest);
        after.is_some()
    }) && rest.is_empty()
}
