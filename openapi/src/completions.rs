//! Text completions: a prompt in, what follows it out, whole or in chunks.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::body::{Body, BodyError, Unknown, read};
use crate::logprobs::TextLogprobs;
use crate::object::TextCompletionName;
use crate::sampling::SamplingFields;
use crate::schema::schema_of;
use crate::usage::{FinishReason, PromptProgress, Timings, Usage};
use crate::values::TokenId;

/// A prompt, and how to continue it.
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
pub struct CompletionRequest {
    /// What to continue. Of several prompts each gets `n` answers.
    pub prompt: Prompt,
    #[serde(flatten)]
    pub sampling: SamplingFields,

    /// Text that comes after the answer; for models that were trained to fill in. Not supported yet: refused unless
    /// empty.
    pub suffix: Option<String>,
    /// Whether the answer begins with the prompt.
    #[schema(default = false)]
    pub echo: Option<bool>,
    /// Number of answers to choose from. Anything but `n` is refused.
    #[schema(minimum = 1, maximum = 128)]
    pub best_of: Option<i64>,
    /// Number of most likely tokens to report at each place, beside the chosen one; 0 reports the chosen token alone.
    /// With `echo`, the prompt's tokens are reported, too.
    #[schema(minimum = 0, maximum = 20)]
    pub logprobs: Option<i64>,

    #[serde(flatten)]
    #[schema(ignore)]
    pub unknown: Unknown,
}

impl Body for CompletionRequest {
    fn unknown(&self) -> &Unknown {
        &self.unknown
    }

    fn unknown_mut(&mut self) -> &mut Unknown {
        &mut self.unknown
    }

    fn check_flattened(body: &Value) -> Result<(), BodyError> {
        read::<SamplingFields>(body).map(drop)
    }
}

/// What to continue. An empty array is read as no texts.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a string, an array of strings, an array of token ids, or an array of arrays of token ids"
)]
pub enum Prompt {
    Text(String),
    Texts(Vec<String>),
    Tokens(Vec<TokenId>),
    TokenLists(Vec<Vec<TokenId>>),
}

schema_of!(Prompt, {
    "description": "Text, tokens, or several of either.",
    "oneOf": [
        { "type": "string" },
        { "type": "array", "items": { "type": "string" }, "minItems": 1 },
        { "type": "array", "items": { "$ref": "#/components/schemas/TokenId" }, "minItems": 1 },
        {
            "type": "array",
            "items": { "type": "array", "items": { "$ref": "#/components/schemas/TokenId" }, "minItems": 1 },
            "minItems": 1,
        },
    ],
});

/// What follows a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Completion {
    /// Names the completion, for logs.
    pub id: String,
    /// What this object is.
    pub object: TextCompletionName,
    /// When it was begun, in seconds since 1970.
    pub created: u64,
    /// Id of the model that answered.
    pub model: String,
    /// Names model and settings: with the same fingerprint and seed a request gives the same text.
    pub system_fingerprint: String,
    /// The answers: `n` for each prompt, in the order of the prompts.
    pub choices: Vec<CompletionChoice>,
    /// Tokens that it took.
    pub usage: Usage,
    /// Time that it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub timings: Option<Timings>,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CompletionChoice {
    /// Which answer it is: answer `i` of prompt `p` is `p * n + i`.
    pub index: u64,
    /// The text.
    pub text: String,
    /// Log-probabilities of its tokens; null unless `logprobs` asked for them.
    #[schema(required)]
    pub logprobs: Option<TextLogprobs>,
    /// Why it ended.
    pub finish_reason: FinishReason,
}

/// One event of a stream: what was added since the last one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CompletionChunk {
    /// Names the completion; the same in all its chunks.
    pub id: String,
    /// What this object is.
    pub object: TextCompletionName,
    /// When the completion was begun, in seconds since 1970.
    pub created: u64,
    /// Id of the model that answers.
    pub model: String,
    /// Names model and settings: with the same fingerprint and seed a request gives the same text.
    pub system_fingerprint: String,
    /// What was added to which answer; empty in a chunk that has only `usage`.
    pub choices: Vec<CompletionChunkChoice>,
    /// Tokens that it took, if `stream_options` asked for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Time that it took so far; in the last chunk, or in all with `timings_per_token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub timings: Option<Timings>,
    /// How much of the prompt is done, with `return_progress`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub prompt_progress: Option<PromptProgress>,
}

/// What was added to one answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CompletionChunkChoice {
    /// Which answer it is: answer `i` of prompt `p` is `p * n + i`.
    pub index: u64,
    /// The text that was added.
    pub text: String,
    /// Log-probabilities of the tokens added; null unless `logprobs` asked for them.
    #[schema(required)]
    pub logprobs: Option<TextLogprobs>,
    /// Why the answer ended; null until it has.
    #[schema(required)]
    pub finish_reason: Option<FinishReason>,
}

pub(crate) mod paths {
    #![expect(dead_code, reason = "the functions stand for the server's; only their attributes are read")]

    use super::{Completion, CompletionChunk, CompletionRequest};
    use crate::error::{BodyErrors, TooManyRequests};

    /// Continue a text
    ///
    /// No chat template is applied. With `stream`, the answer is a series of server-sent events: each is `data: ` and
    /// a `CompletionChunk`, the last is `data: [DONE]`. A failure after the first event is an event too, with an
    /// `ErrorResponse`. Fields that are not described here are accepted without effect and named in the header
    /// `x-ignored`.
    #[utoipa::path(
        post,
        path = "/v1/completions",
        operation_id = "createCompletion",
        tag = "Generation",
        security(("bearer" = [])),
        request_body(content = CompletionRequest, description = "The prompt and how to continue it.", examples(
            ("text" = (summary = "One prompt", value = json!({
                "prompt": "The capital of Korea is",
                "max_tokens": 16,
                "temperature": 0,
            }))),
            ("several" = (summary = "Two prompts, with two answers each", value = json!({
                "prompt": ["One, two,", "Red, green,"],
                "max_tokens": 8,
                "n": 2,
                "logit_bias": { "0": -100 },
            }))),
        )),
        responses(
            (
                status = 200,
                description = "What follows the prompt, whole or as a stream.",
                headers(
                    ("x-ignored" = String, description = "Request fields that had no effect, separated by commas."),
                ),
                content(
                    (Completion = "application/json", example = json!({
                        "id": "cmpl-7b0d8f9e",
                        "object": "text_completion",
                        "created": 1735689600,
                        "model": "SmolLM2-135M-Instruct",
                        "system_fingerprint": "taper-0.1.0",
                        "choices": [{ "index": 0, "text": " Seoul.", "logprobs": null, "finish_reason": "stop" }],
                        "usage": {
                            "prompt_tokens": 5,
                            "completion_tokens": 3,
                            "total_tokens": 8,
                            "prompt_tokens_details": { "cached_tokens": 0 },
                            "completion_tokens_details": {
                                "reasoning_tokens": 0,
                                "accepted_prediction_tokens": 0,
                                "rejected_prediction_tokens": 0,
                            },
                        },
                    })),
                    (CompletionChunk = "text/event-stream", example = json!({
                        "id": "cmpl-7b0d8f9e",
                        "object": "text_completion",
                        "created": 1735689600,
                        "model": "SmolLM2-135M-Instruct",
                        "system_fingerprint": "taper-0.1.0",
                        "choices": [{ "index": 0, "text": " Seoul", "logprobs": null, "finish_reason": null }],
                    })),
                ),
            ),
            BodyErrors,
            (status = 429, response = TooManyRequests),
        ),
    )]
    fn completions() {}
}
