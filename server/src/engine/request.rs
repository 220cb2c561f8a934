//! What callers ask for, and what they can get wrong: every refusal is made here, with the numbers that explain it.
//!
//! What passes can be run to its end, so nothing behind this file checks a request again.

use std::sync::Arc;
use std::time::Instant;

use super::sampling::{ParamError, SamplingParams};
use super::sequence::StopRules;
use super::shares::{Party, Tier};

/// What a caller wants generated.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    pub prompt: Vec<u32>,
    pub params: SamplingParams,
    /// Cached prefixes are shared only between requests with the same salt.
    pub cache_salt: Option<String>,
    /// What the answer will probably be: where it agrees, it is computed in fewer steps.
    pub prediction: Arc<[u32]>,
    /// With whom it shares its turns.
    pub party: Party,
    pub tier: Tier,
    /// When it ends, finished or not.
    pub deadline: Option<Instant>,
}

/// Why a request was not accepted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SubmitError {
    #[error("the engine already holds {limit} requests, running and queued; try again when one has finished")]
    QueueFull { limit: usize },
    #[error(
        "this user or key already has {limit} requests, running and queued, the most of one; try again when one has finished"
    )]
    ShareTaken { limit: usize },
    #[error("the prompt is empty; it must have at least one token")]
    EmptyPrompt,
    #[error("the prompt contains token {token}, but the vocabulary has {vocab_size} tokens")]
    UnknownToken { token: u32, vocab_size: usize },
    #[error(
        "the prompt has {prompt_tokens} tokens, but the maximum context is {max_model_len} tokens, one of which is \
         needed for the answer; shorten the prompt"
    )]
    PromptTooLong { prompt_tokens: usize, max_model_len: usize },
    #[error(
        "{prompt_tokens} prompt tokens and {max_tokens} to generate do not fit the KV cache, which holds \
         {kv_capacity} tokens (the maximum context is {max_model_len}); shorten the prompt, lower `max_tokens` or give \
         the cache more memory"
    )]
    DoesNotFit { prompt_tokens: usize, max_tokens: usize, kv_capacity: usize, max_model_len: usize },
    #[error(transparent)]
    Params(#[from] ParamError),
    #[error("the engine is shutting down or has failed; it takes no more requests")]
    Stopped,
}

/// What a request is checked against.
pub(super) struct Limits {
    pub(super) max_model_len: usize,
    /// Tokens of the longest sequence that the pool can hold.
    pub(super) kv_capacity: usize,
    pub(super) vocab_size: usize,
    pub(super) eos_token_ids: Vec<u32>,
}

impl Limits {
    /// Refuses what cannot run to its end; else says when the request must stop.
    pub(super) fn check(&self, request: &Request) -> Result<StopRules, SubmitError> {
        let Request { prompt, params, .. } = request;
        if prompt.is_empty() {
            return Err(SubmitError::EmptyPrompt);
        }
        let vocab_size = self.vocab_size;
        if let Some(token) = prompt.iter().copied().find(|token| *token as usize >= vocab_size) {
            return Err(SubmitError::UnknownToken { token, vocab_size });
        }
        params.validate(vocab_size)?;
        let eos_token_ids = if params.ignore_eos { &[] } else { self.eos_token_ids.as_slice() };
        Ok(StopRules {
            max_new_tokens: self.max_new_tokens(prompt.len(), params.max_tokens)?,
            min_new_tokens: params.min_tokens,
            stop_token_ids: [eos_token_ids, &params.stop_token_ids].concat(),
            repetition: params.repetition_detection,
        })
    }

    /// `max_tokens`, cut to what the context leaves. Without it, all that context and cache have room for.
    fn max_new_tokens(&self, prompt_tokens: usize, max_tokens: Option<usize>) -> Result<usize, SubmitError> {
        let Self { max_model_len, kv_capacity, .. } = *self;
        if prompt_tokens >= max_model_len {
            return Err(SubmitError::PromptTooLong { prompt_tokens, max_model_len });
        }
        let context_room = max_model_len - prompt_tokens;
        // The last sampled token is never run through the model, so it needs no place in the cache.
        let cache_room = (kv_capacity + 1).saturating_sub(prompt_tokens);
        let max_tokens = max_tokens.unwrap_or(cache_room.max(1)).min(context_room);
        if max_tokens > cache_room {
            return Err(SubmitError::DoesNotFit { prompt_tokens, max_tokens, kv_capacity, max_model_len });
        }
        Ok(max_tokens)
    }
}
