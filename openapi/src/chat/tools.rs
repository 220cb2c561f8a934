//! Tools that a request offers to the model, and which of them it must call.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::message::ToolType;
use crate::body::Unknown;
use crate::schema::schema_of;

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolDefinition {
    /// What kind of tool it is; `function` where it does not say.
    #[serde(default, rename = "type")]
    pub kind: ToolType,
    /// The function.
    pub function: FunctionDefinition,
}

/// A function that the model may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FunctionDefinition {
    /// The name that calls have: letters, digits, `_`, `-` and `.`, at most 64.
    #[schema(min_length = 1, max_length = 64)]
    pub name: String,
    /// What it does, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// A JSON schema of its arguments, of type object. Default: no arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub parameters: Option<Value>,
    /// Whether its arguments must follow the schema in every point, also where the model chooses to call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// Any further field. The model's chat template sees it.
    #[serde(flatten)]
    #[schema(ignore)]
    pub other: Unknown,
}

/// Whether tools may or must be called, and which.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    untagged,
    expecting = "expected \"none\", \"auto\", \"required\", {\"type\": \"function\", \"function\": {\"name\": ...}} or \
                 {\"type\": \"allowed_tools\", \"allowed_tools\": {\"mode\": ..., \"tools\": [...]}}"
)]
pub enum ToolChoice {
    Mode(ToolMode),
    Named { function: FunctionName },
    Allowed { allowed_tools: AllowedTools },
}

/// Whether tools may or must be called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolMode {
    None,
    #[default]
    Auto,
    Required,
}

/// Names a function.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
pub struct FunctionName {
    /// Name of one of the tools.
    pub name: String,
}

/// Some of the tools.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
pub struct AllowedTools {
    /// Whether one of them must be called.
    #[serde(default)]
    pub mode: ToolMode,
    /// The tools.
    #[schema(min_items = 1)]
    pub tools: Vec<AllowedTool>,
}

/// One of the tools that are allowed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
pub struct AllowedTool {
    /// What kind of tool it is.
    #[serde(default, rename = "type")]
    pub kind: ToolType,
    /// The function.
    pub function: FunctionName,
}

schema_of!(ToolChoice, {
    "description": "Whether tools may be called (`auto`), must be called (`required`) or must not (`none`); one tool that must be called; or some tools, of which `mode` says whether one must be.",
    "oneOf": [
        { "type": "string", "enum": ["none", "auto", "required"] },
        {
            "type": "object",
            "properties": {
                "type": { "description": "One tool.", "type": "string", "enum": ["function"] },
                "function": { "description": "The function.", "allOf": [{ "$ref": "#/components/schemas/FunctionName" }] },
            },
            "required": ["type", "function"],
        },
        {
            "type": "object",
            "properties": {
                "type": { "description": "Some of the tools.", "type": "string", "enum": ["allowed_tools"] },
                "allowed_tools": {
                    "description": "Which, and whether one must be called.",
                    "allOf": [{ "$ref": "#/components/schemas/AllowedTools" }],
                },
            },
            "required": ["type", "allowed_tools"],
        },
    ],
});
