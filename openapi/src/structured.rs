//! What an answer must be: JSON, a schema's JSON, one of some texts, or whatever a grammar allows.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// The form of an answer (OpenAI).
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
pub struct ResponseFormat {
    /// Which form.
    #[serde(rename = "type")]
    pub kind: ResponseFormatKind,
    /// The schema, with `json_schema`.
    pub json_schema: Option<JsonSchemaFormat>,
    /// The schema, with either kind of JSON (llama-server).
    #[schema(value_type = Option<Object>)]
    pub schema: Option<Value>,
}

/// A form that an answer can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResponseFormatKind {
    /// Any text.
    Text,
    /// A JSON object.
    JsonObject,
    /// JSON that a schema allows.
    JsonSchema,
}

/// A JSON schema with OpenAI's fields around it.
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
pub struct JsonSchemaFormat {
    /// Names the schema. Without effect.
    pub name: Option<String>,
    /// Says what it is for. Without effect.
    pub description: Option<String>,
    /// The schema. A keyword that is not supported is an error, with the place where it stands.
    #[schema(value_type = Object)]
    pub schema: Option<Value>,
    /// Whether the schema must be followed. It always is.
    pub strict: Option<bool>,
}

/// vLLM's fields for the form of an answer, of which one is given.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, ToSchema)]
pub struct StructuredOutputs {
    /// JSON that this schema allows; the schema as an object or as text.
    #[schema(value_type = Option<Object>)]
    pub json: Option<Value>,
    /// Whether the answer is any JSON object.
    pub json_object: Option<bool>,
    /// Text that this regular expression matches as a whole.
    pub regex: Option<String>,
    /// One of these texts.
    #[schema(min_items = 1)]
    pub choice: Option<Vec<String>>,
    /// What this grammar allows: GBNF (rules with `::=`) or Lark.
    pub grammar: Option<String>,
}
