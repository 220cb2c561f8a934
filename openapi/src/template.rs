//! A conversation as the model sees it, written out by its chat template.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::body::{Body, Unknown};
use crate::chat::{Message, ToolChoice, ToolDefinition};

/// A conversation to write out.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, ToSchema)]
pub struct ApplyTemplateRequest {
    /// Id or alias of the model. Default: the served model.
    pub model: Option<String>,
    /// The conversation, oldest message first.
    #[schema(min_items = 1)]
    pub messages: Vec<Message>,
    /// Variables for the model's chat template.
    #[schema(value_type = Option<Object>)]
    pub chat_template_kwargs: Option<Value>,
    /// Whether the template opens an answer after the last message.
    #[schema(default = true)]
    pub add_generation_prompt: Option<bool>,
    /// Whether the last message is left open (vLLM). Excludes `add_generation_prompt`.
    #[schema(default = false)]
    pub continue_final_message: Option<bool>,
    /// Tools that the model may call.
    #[schema(max_items = 128)]
    pub tools: Option<Vec<ToolDefinition>>,
    /// Whether tools may be called; `none` leaves them out.
    pub tool_choice: Option<ToolChoice>,
    /// How much to think, for templates that know it.
    pub reasoning_effort: Option<String>,

    #[serde(flatten)]
    #[schema(ignore)]
    pub unknown: Unknown,
}

impl Body for ApplyTemplateRequest {
    fn unknown(&self) -> &Unknown {
        &self.unknown
    }

    fn unknown_mut(&mut self) -> &mut Unknown {
        &mut self.unknown
    }
}

/// A conversation as the model sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApplyTemplateResponse {
    /// The text (llama-server).
    pub prompt: String,
    /// Number of its tokens (Taper).
    pub tokens: u64,
}

pub(crate) mod paths {
    #![expect(dead_code, reason = "the functions stand for the server's; only their attributes are read")]

    use super::{ApplyTemplateRequest, ApplyTemplateResponse};
    use crate::error::BodyErrors;

    /// Write a conversation out
    ///
    /// Applies the model's chat template, and generates nothing.
    #[utoipa::path(
        post,
        path = "/apply-template",
        operation_id = "applyTemplate",
        tag = "Text",
        security(("bearer" = [])),
        request_body(
            content = ApplyTemplateRequest, description = "The conversation and what the template is given.",
            example = json!({
                "messages": [
                    { "role": "system", "content": "You answer in one sentence." },
                    { "role": "user", "content": "What is the capital of Korea?" },
                ],
                "add_generation_prompt": true,
            }),
        ),
        responses(
            (status = 200, description = "The text.", body = ApplyTemplateResponse, example = json!({
                "prompt": "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n", "tokens": 9,
            })),
            BodyErrors,
        ),
    )]
    fn apply_template() {}
}
