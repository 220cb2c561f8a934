//! What `POST /v1/chat/completions` answers piece by piece when it streams.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::completion::AssistantRole;
use super::message::ToolType;
use crate::logprobs::ChatLogprobs;
use crate::object::ChatChunkName;
use crate::usage::{FinishReason, PromptProgress, Timings, Usage};

/// One event of a stream: what was added since the last one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatChunk {
    /// Names the completion; the same in all its chunks.
    pub id: String,
    /// What this object is.
    pub object: ChatChunkName,
    /// When the completion was begun, in seconds since 1970.
    pub created: u64,
    /// Id of the model that answers.
    pub model: String,
    /// Names model and settings: with the same fingerprint and seed a request gives the same text.
    pub system_fingerprint: String,
    /// What was added to which answer; empty in a chunk that has only `usage`.
    pub choices: Vec<ChatChunkChoice>,
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
pub struct ChatChunkChoice {
    /// Which of the `n` answers it is, from 0.
    pub index: u64,
    /// What was added.
    pub delta: ChatDelta,
    /// Log-probabilities of the tokens added; null unless `logprobs` asked for them.
    #[schema(required)]
    pub logprobs: Option<ChatLogprobs>,
    /// Why the answer ended; null until it has.
    #[schema(required)]
    pub finish_reason: Option<FinishReason>,
}

/// What was added: texts are to be appended to what came before.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatDelta {
    /// Who speaks; in the first chunk of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub role: Option<AssistantRole>,
    /// Text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Thoughts of the model (llama-server, vLLM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reasoning_content: Option<String>,
    /// The same under vLLM's newer name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reasoning: Option<String>,
    /// Tools that the model calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub tool_calls: Option<Vec<ToolCallDelta>>,
    /// Why what was marked as a tool call stayed text: it could not be read, or named no tool (Taper).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub tool_parse_error: Option<String>,
}

/// What was added to one tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToolCallDelta {
    /// Which call of the answer it is, from 0.
    pub index: u64,
    /// Names the call; in its first chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub id: Option<String>,
    /// What kind of tool it is; in its first chunk.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub kind: Option<ToolType>,
    /// What was added to the function and its arguments.
    pub function: FunctionCallDelta,
}

/// What was added to the name or the arguments of a function call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionCallDelta {
    /// Name of the function, whole; in the first chunk of its call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub name: Option<String>,
    /// Text of the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub arguments: Option<String>,
}
