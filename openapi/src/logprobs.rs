//! Log-probabilities of tokens, as chat completions and as text completions write them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// Log-probabilities of an answer or of one chunk of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatLogprobs {
    /// One entry for each token of the content.
    #[schema(required)]
    pub content: Option<Vec<TokenLogprob>>,
    /// One entry for each token of a refusal. Always null: Taper knows no refusals.
    #[schema(required)]
    pub refusal: Option<Vec<TokenLogprob>>,
}

/// A token that was chosen, and what else was likely in its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TokenLogprob {
    /// The token's text; where a token is a part of a character, that part is replaced by U+FFFD.
    pub token: String,
    /// Natural logarithm of the token's probability; -9999 where it was zero.
    #[schema(maximum = 0)]
    pub logprob: f64,
    /// The token's bytes.
    #[schema(required)]
    pub bytes: Option<Vec<u8>>,
    /// The most likely tokens, best first; as many as `top_logprobs` asked for.
    #[schema(max_items = 20)]
    pub top_logprobs: Vec<TopLogprob>,
}

/// A token that was likely.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TopLogprob {
    /// The token's text; where a token is a part of a character, that part is replaced by U+FFFD.
    pub token: String,
    /// Natural logarithm of the token's probability; -9999 where it was zero.
    #[schema(maximum = 0)]
    pub logprob: f64,
    /// The token's bytes.
    #[schema(required)]
    pub bytes: Option<Vec<u8>>,
}

/// Log-probabilities of a text completion: four lists with one entry for each token.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TextLogprobs {
    /// Texts of the tokens.
    pub tokens: Vec<String>,
    /// Natural logarithms of their probabilities; null for the first token of an echoed prompt.
    pub token_logprobs: Vec<Option<f64>>,
    /// The most likely tokens at each place: from text to logarithm of the probability; null for the first token of an
    /// echoed prompt.
    #[schema(value_type = Vec<Option<std::collections::HashMap<String, f64>>>)]
    pub top_logprobs: Vec<Option<Map<String, Value>>>,
    /// Where each token begins, in characters from the start of the text.
    pub text_offset: Vec<u64>,
}
