//! What every answer says besides its text: why it ended, how many tokens it took, and where the time went.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model ended it, or a stop string or stop token did.
    Stop,
    /// `max_tokens` or the context was used up.
    Length,
    /// The answer repeated itself, as `repetition_detection` puts it (vLLM). Only where that is asked for.
    Repetition,
    /// The model calls a tool.
    ToolCalls,
    /// Withheld. Taper filters nothing; the value is part of OpenAI's API.
    ContentFilter,
}

/// Token counts of a request, over all its answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// Tokens of the prompt, cached ones included.
    pub prompt_tokens: u64,
    /// Tokens that were generated, a final stop token included.
    pub completion_tokens: u64,
    /// Both together.
    pub total_tokens: u64,
    /// The prompt tokens by origin.
    pub prompt_tokens_details: PromptTokensDetails,
    /// The generated tokens by purpose.
    pub completion_tokens_details: CompletionTokensDetails,
}

/// The prompt tokens by origin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PromptTokensDetails {
    /// Prompt tokens that did not have to be run, since an earlier request began the same way.
    pub cached_tokens: u64,
}

/// The generated tokens by purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CompletionTokensDetails {
    /// Tokens of `reasoning_content`.
    pub reasoning_tokens: u64,
    /// Tokens of a predicted output that came true.
    pub accepted_prediction_tokens: u64,
    /// Tokens of a predicted output that did not.
    pub rejected_prediction_tokens: u64,
}

/// Where the time of a request went (llama-server). A phase that was not reached is zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Timings {
    /// Prompt tokens that were cached.
    pub cache_n: u64,
    /// Prompt tokens that were run.
    pub prompt_n: u64,
    /// Milliseconds from the first step to the first generated token.
    #[schema(minimum = 0)]
    pub prompt_ms: f64,
    /// `prompt_ms` per token run.
    #[schema(minimum = 0)]
    pub prompt_per_token_ms: f64,
    /// Prompt tokens run per second.
    #[schema(minimum = 0)]
    pub prompt_per_second: f64,
    /// Generated tokens.
    pub predicted_n: u64,
    /// Milliseconds from the first generated token to the last.
    #[schema(minimum = 0)]
    pub predicted_ms: f64,
    /// `predicted_ms` per generated token.
    #[schema(minimum = 0)]
    pub predicted_per_token_ms: f64,
    /// Generated tokens per second.
    #[schema(minimum = 0)]
    pub predicted_per_second: f64,
    /// Tokens that were guessed, and computed with the one before them; none while it runs.
    pub draft_n: u64,
    /// Those of them that the answer has.
    pub draft_n_accepted: u64,
    /// Milliseconds that the request waited before its first step (Taper).
    #[schema(minimum = 0)]
    pub queue_ms: f64,
}

/// How much of the prompt is done (llama-server).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PromptProgress {
    /// Tokens of the prompt.
    pub total: u64,
    /// How many of them were cached.
    pub cache: u64,
    /// How many of them are done, cached ones included.
    pub processed: u64,
    /// Milliseconds since the prompt was begun.
    #[schema(minimum = 0)]
    pub time_ms: f64,
}
