//! What `POST /v1/chat/completions` answers when it does not stream.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::message::ToolCall;
use crate::logprobs::ChatLogprobs;
use crate::object::ChatCompletionName;
use crate::usage::{FinishReason, Timings, Usage};

/// The answers to a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatCompletion {
    /// Names the completion, for logs.
    pub id: String,
    /// What this object is.
    pub object: ChatCompletionName,
    /// When it was begun, in seconds since 1970.
    pub created: u64,
    /// Id of the model that answered.
    pub model: String,
    /// Names model and settings: with the same fingerprint and seed a request gives the same text.
    pub system_fingerprint: String,
    /// The answers, `n` of them.
    pub choices: Vec<ChatChoice>,
    /// Tokens that it took.
    pub usage: Usage,
    /// Time that it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub timings: Option<Timings>,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatChoice {
    /// Which of the `n` answers it is, from 0.
    pub index: u64,
    /// The answer.
    pub message: ChatMessage,
    /// Log-probabilities of its tokens; null unless `logprobs` asked for them.
    #[schema(required)]
    pub logprobs: Option<ChatLogprobs>,
    /// Why it ended.
    pub finish_reason: FinishReason,
}

/// The message that a model answers with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatMessage {
    /// Who speaks.
    pub role: AssistantRole,
    /// The text; null if the model only called tools.
    #[schema(required)]
    pub content: Option<String>,
    /// Always null: Taper does not tell refusals from other text.
    #[schema(required)]
    pub refusal: Option<String>,
    /// What the model thought before it answered, if it is a model that does (llama-server, vLLM).
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
    pub tool_calls: Option<Vec<ToolCall>>,
    /// Why what was marked as a tool call stayed text: it could not be read, or named no tool (Taper).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub tool_parse_error: Option<String>,
}

/// The role of every answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AssistantRole {
    #[default]
    Assistant,
}
