//! Chat: a conversation in, its next message out, whole or in chunks.

mod chunk;
mod completion;
mod message;
mod request;
mod tools;

pub use chunk::{ChatChunk, ChatChunkChoice, ChatDelta, FunctionCallDelta, ToolCallDelta};
pub use completion::{AssistantRole, ChatChoice, ChatCompletion, ChatMessage};
pub use message::{ContentPart, FunctionCall, Message, MessageContent, Role, ToolCall, ToolType};
pub use request::{ChatRequest, Prediction, PredictionType, ReasoningFormatName};
pub use tools::{AllowedTool, AllowedTools, FunctionDefinition, FunctionName, ToolChoice, ToolDefinition, ToolMode};

pub(crate) mod paths {
    #![expect(dead_code, reason = "the functions stand for the server's; only their attributes are read")]

    use super::{ChatChunk, ChatCompletion, ChatRequest};
    use crate::error::{BodyErrors, TooManyRequests};

    /// Continue a conversation
    ///
    /// With `stream`, the answer is a series of server-sent events: each is `data: ` and a `ChatChunk`, the last is
    /// `data: [DONE]`. A failure after the first event is an event too, with an `ErrorResponse`. Fields that are not
    /// described here are accepted without effect and named in the header `x-ignored`.
    #[utoipa::path(
        post,
        path = "/v1/chat/completions",
        operation_id = "createChatCompletion",
        tag = "Generation",
        security(("bearer" = [])),
        request_body(content = ChatRequest, description = "The conversation and how to continue it.", examples(
            ("chat" = (summary = "One question", value = json!({
                "messages": [
                    { "role": "system", "content": "You answer in one sentence." },
                    { "role": "user", "content": "What is the capital of Korea?" },
                ],
                "max_tokens": 64,
                "temperature": 0.7,
            }))),
            ("stream" = (summary = "Piece by piece, with token counts", value = json!({
                "messages": [{ "role": "user", "content": [{ "type": "text", "text": "Count to five." }] }],
                "max_completion_tokens": 64,
                "stop": ["6"],
                "seed": 42,
                "stream": true,
                "stream_options": { "include_usage": true },
            }))),
        )),
        responses(
            (
                status = 200,
                description = "The answer, whole or as a stream.",
                headers(
                    ("x-ignored" = String, description = "Request fields that had no effect, separated by commas."),
                ),
                content(
                    (ChatCompletion = "application/json", example = json!({
                        "id": "chatcmpl-7b0d8f9e",
                        "object": "chat.completion",
                        "created": 1735689600,
                        "model": "SmolLM2-135M-Instruct",
                        "system_fingerprint": "taper-0.1.0",
                        "choices": [{
                            "index": 0,
                            "message": {
                                "role": "assistant",
                                "content": "The capital of Korea is Seoul.",
                                "refusal": null,
                            },
                            "logprobs": null,
                            "finish_reason": "stop",
                        }],
                        "usage": {
                            "prompt_tokens": 28,
                            "completion_tokens": 8,
                            "total_tokens": 36,
                            "prompt_tokens_details": { "cached_tokens": 0 },
                            "completion_tokens_details": {
                                "reasoning_tokens": 0,
                                "accepted_prediction_tokens": 0,
                                "rejected_prediction_tokens": 0,
                            },
                        },
                    })),
                    (ChatChunk = "text/event-stream", example = json!({
                        "id": "chatcmpl-7b0d8f9e",
                        "object": "chat.completion.chunk",
                        "created": 1735689600,
                        "model": "SmolLM2-135M-Instruct",
                        "system_fingerprint": "taper-0.1.0",
                        "choices": [{
                            "index": 0,
                            "delta": { "content": " Seoul" },
                            "logprobs": null,
                            "finish_reason": null,
                        }],
                    })),
                ),
            ),
            BodyErrors,
            (status = 429, response = TooManyRequests),
        ),
    )]
    fn chat_completions() {}
}
