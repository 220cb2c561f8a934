//! What a caller hears about its request: one event per token, then exactly one that says why and how it ended.

use std::time::Duration;

use super::sampling::TokenLogprobs;

/// One message to the caller of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Log probabilities of prompt tokens, in order, if `prompt_logprobs` asked for them: in pieces, from the second
    /// token to the last, all before the first sampled token.
    Prompt { logprobs: Vec<TokenLogprobs> },
    /// A sampled token. `index` counts the request's output tokens from 0.
    Token { id: u32, index: usize, logprobs: Option<TokenLogprobs> },
    /// The last event of a request.
    Finished { reason: FinishReason, usage: Usage, timings: Timings },
}

/// Why a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishReason {
    /// The model sampled this end-of-sequence or stop token. It is not sent as a token, but counted in the usage.
    Stop { token: u32 },
    /// The request's constraint allows nothing more.
    Complete,
    /// `max_tokens`, the model's context or the cache was used up.
    Length,
    /// The request's deadline has passed.
    Deadline,
    /// The output repeats itself, as `repetition_detection` puts it.
    Repetition,
    /// The caller cancelled or dropped its handle.
    Cancelled,
    /// The request's own rules (bans, `min_tokens`, a grammar) leave no token to choose; the message says so.
    Impossible(String),
    /// The request cannot go on; the message says why.
    Error(String),
}

impl FinishReason {
    /// Whether the request failed.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_) | Self::Impossible(_))
    }
}

/// Token counts of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub prompt_tokens: usize,
    /// Sampled tokens, a final stop token included.
    pub completion_tokens: usize,
    /// Prompt tokens whose K and V were found in the prefix cache when the request first ran.
    pub cached_tokens: usize,
    /// Tokens that were guessed, see `drafter.rs`, and those of them that the answer has.
    pub draft_tokens: usize,
    pub accepted_tokens: usize,
}

/// Where a request's time went. A phase that was never reached is zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timings {
    /// From submission to the first step it took part in.
    pub queue: Duration,
    /// From there to its first sampled token.
    pub prefill: Duration,
    /// From there to its end.
    pub decode: Duration,
}
