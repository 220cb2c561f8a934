//! Log probabilities as chat completions and as text completions write them.

use serde_json::{Map, Value};
use taper_openapi::logprobs::{ChatLogprobs, TextLogprobs, TokenLogprob, TopLogprob};

use super::generation::ScoredToken;
use crate::engine::sampling::TokenLogprobs;
use crate::text::Tokenizer;

/// What JSON has for the logarithm of zero; OpenAI's value.
const NEVER: f64 = -9999.0;

/// The tokens of an answer or of one chunk of it.
pub fn of_chat(tokens: &[ScoredToken], tokenizer: &Tokenizer) -> ChatLogprobs {
    let content = tokens.iter().map(|token| chat_token(token, tokenizer)).collect();
    ChatLogprobs { content: Some(content), refusal: None }
}

fn chat_token(token: &ScoredToken, tokenizer: &Tokenizer) -> TokenLogprob {
    let top = |(id, logprob): &(u32, f32)| TopLogprob {
        token: text_of(*id, tokenizer),
        logprob: finite(*logprob),
        bytes: Some(tokenizer.token_bytes(*id).to_vec()),
    };
    TokenLogprob {
        token: text_of(token.id, tokenizer),
        logprob: finite(token.logprobs.logprob),
        bytes: Some(tokenizer.token_bytes(token.id).to_vec()),
        top_logprobs: token.logprobs.top.iter().map(top).collect(),
    }
}

/// Writes the log probabilities of one text completion: knows how much text lies before the next token.
#[derive(Debug, Clone, Default)]
pub struct TextWriter {
    /// In characters.
    offset: u64,
}

impl TextWriter {
    /// Those of an echoed prompt, whose first token has none: nothing comes before it.
    pub fn prompt(&mut self, prompt: &[u32], logprobs: &[TokenLogprobs], tokenizer: &Tokenizer) -> TextLogprobs {
        let mut list = TextLogprobs::default();
        let logprobs = std::iter::once(None).chain(logprobs.iter().map(Some));
        for (id, logprobs) in prompt.iter().zip(logprobs) {
            self.push(&mut list, *id, logprobs, tokenizer);
        }
        list
    }

    /// Adds those of an answer or of one chunk of it.
    pub fn answer(&mut self, list: &mut TextLogprobs, tokens: &[ScoredToken], tokenizer: &Tokenizer) {
        for token in tokens {
            self.push(list, token.id, Some(&token.logprobs), tokenizer);
        }
    }

    fn push(&mut self, list: &mut TextLogprobs, id: u32, logprobs: Option<&TokenLogprobs>, tokenizer: &Tokenizer) {
        list.tokens.push(text_of(id, tokenizer));
        list.token_logprobs.push(logprobs.map(|logprobs| finite(logprobs.logprob)));
        list.top_logprobs.push(logprobs.map(|logprobs| top_map(logprobs, id, tokenizer)));
        list.text_offset.push(self.offset);
        if !tokenizer.is_special(id) {
            // A character counts with the token that has its first byte.
            let first_bytes = tokenizer.token_bytes(id).iter().filter(|byte| **byte & 0xC0 != 0x80).count();
            self.offset += first_bytes as u64;
        }
    }
}

/// The likely tokens, and the token itself, as in OpenAI's API. Of tokens with the same text the likelier is told.
fn top_map(logprobs: &TokenLogprobs, id: u32, tokenizer: &Tokenizer) -> Map<String, Value> {
    let mut map = Map::new();
    let own = (id, logprobs.logprob);
    for (id, logprob) in logprobs.top.iter().chain([&own]) {
        map.entry(text_of(*id, tokenizer)).or_insert_with(|| finite(*logprob).into());
    }
    map
}

fn text_of(id: u32, tokenizer: &Tokenizer) -> String {
    String::from_utf8_lossy(tokenizer.token_bytes(id)).into_owned()
}

fn finite(logprob: f32) -> f64 {
    if logprob.is_finite() { f64::from(logprob) } else { NEVER }
}
