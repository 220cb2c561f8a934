//! What a client asks of `POST /v1/chat/completions`.

use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::message::{Message, MessageContent};
use super::tools::{ToolChoice, ToolDefinition};
use crate::body::{Body, BodyError, Unknown, read};
use crate::sampling::SamplingFields;

/// Where thoughts go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningFormatName {
    /// Into the text.
    None,
    /// Into fields of their own.
    Auto,
    /// Into fields of their own.
    Deepseek,
}

/// What the answer will probably be.
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
pub struct Prediction {
    /// How it is predicted.
    #[serde(rename = "type")]
    pub kind: PredictionType,
    /// The text; parts are joined without anything between them.
    pub content: MessageContent,
}

/// How it is predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PredictionType {
    /// By its text.
    Content,
}

/// A conversation, and how to continue it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, ToSchema)]
pub struct ChatRequest {
    /// The conversation so far, oldest message first.
    #[schema(min_items = 1)]
    pub messages: Vec<Message>,
    #[serde(flatten)]
    pub sampling: SamplingFields,

    /// OpenAI's newer name for `max_tokens`. Both may be sent if they are equal; if they differ, the request is refused
    /// with 400.
    #[schema(minimum = 1, maximum = 9223372036854775807_i64)]
    pub max_completion_tokens: Option<i64>,
    /// Whether to report the log-probability of each token of the answer.
    #[schema(default = false)]
    pub logprobs: Option<bool>,
    /// Number of most likely tokens to report beside each; only with `logprobs`.
    #[schema(minimum = 0, maximum = 20)]
    pub top_logprobs: Option<i64>,

    /// Variables for the model's chat template, for example `{"enable_thinking": false}` (llama-server, vLLM).
    #[schema(value_type = Option<Object>)]
    pub chat_template_kwargs: Option<Value>,
    /// Whether the template opens an answer after the last message (vLLM).
    #[schema(default = true)]
    pub add_generation_prompt: Option<bool>,
    /// Whether the last message is left open, for the answer to go on with it (vLLM). Excludes
    /// `add_generation_prompt`.
    #[schema(default = false)]
    pub continue_final_message: Option<bool>,

    /// Tools that the model may call.
    #[schema(max_items = 128)]
    pub tools: Option<Vec<ToolDefinition>>,
    /// Whether tools may or must be called. Default: they may, if there are some.
    pub tool_choice: Option<ToolChoice>,
    /// Whether one answer may call several tools.
    #[schema(default = true)]
    pub parallel_tool_calls: Option<bool>,
    /// OpenAI's older name for `tools`. Not supported: refused unless empty.
    #[schema(value_type = Option<Vec<Object>>)]
    pub functions: Option<Value>,
    /// OpenAI's older name for `tool_choice`. Not supported yet.
    #[schema(value_type = Option<Value>)]
    pub function_call: Option<Value>,
    /// How much to think: `none`, `minimal`, `low`, `medium`, `high` or more, for templates that know it. `none` turns
    /// thoughts off where the template can.
    pub reasoning_effort: Option<String>,
    /// Tokens of thoughts, after which they are closed and the answer begins (vLLM; llama-server's name
    /// `reasoning_budget` is accepted too). Default: the server's setting reasoning-budget.
    #[serde(alias = "reasoning_budget", alias = "thinking_budget_tokens")]
    #[schema(minimum = -1, maximum = 9223372036854775807_i64)]
    pub thinking_token_budget: Option<i64>,
    /// `none` leaves thoughts in the text, with their tags; `auto` and `deepseek` tell them apart (llama-server).
    pub reasoning_format: Option<ReasoningFormatName>,
    /// How long the answer should be: `low`, `medium` or `high`. Not supported yet.
    #[schema(value_type = Option<String>)]
    pub verbosity: Option<Value>,
    /// What to answer with. Only `["text"]` is supported.
    #[schema(value_type = Option<Vec<String>>)]
    pub modalities: Option<Value>,
    /// Voice and format of a spoken answer. Not supported: refused.
    #[schema(value_type = Option<Object>)]
    pub audio: Option<Value>,
    /// Text that the answer will mostly repeat, such as a file that is to be changed: where they agree, the answer is
    /// made in fewer steps. It is the same with and without.
    pub prediction: Option<Prediction>,
    /// How to search the web. Not supported: refused.
    #[schema(value_type = Option<Object>)]
    pub web_search_options: Option<Value>,

    /// Whether OpenAI keeps the answer. Taper keeps none. Accepted without effect, and named in `x-ignored`.
    #[schema(value_type = Option<bool>)]
    pub store: Option<Value>,
    /// Labels of the request. Accepted without effect, and named in `x-ignored`.
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Value>,
    /// Name of the end user, for OpenAI's checks. Accepted without effect, and named in `x-ignored`.
    #[schema(value_type = Option<String>)]
    pub safety_identifier: Option<Value>,
    /// Says which requests begin alike. Not needed: Taper compares the prompts themselves. Accepted without effect, and
    /// named in `x-ignored`.
    #[schema(value_type = Option<String>)]
    pub prompt_cache_key: Option<Value>,
    /// How long OpenAI keeps a prompt cached. Taper keeps it while there is room. Accepted without effect, and named in
    /// `x-ignored`.
    #[schema(value_type = Option<String>)]
    pub prompt_cache_retention: Option<Value>,

    #[serde(flatten)]
    #[schema(ignore)]
    pub unknown: Unknown,
}

impl Body for ChatRequest {
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
