//! One message of a conversation, as clients send it. What a model answers is in `completion.rs`.

use std::fmt;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::body::Unknown;
use crate::schema::schema_of;

/// A message of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said; null or absent where there is only `tool_calls`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<MessageContent>,
    /// Name of the speaker, or of the function whose result this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The thoughts that led to an earlier answer of the model (llama-server, vLLM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// What an earlier answer of the model said instead of complying.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// Tools that an earlier answer of the model called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<ToolCall>>,
    /// The call whose result this is; with role `tool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Any further field. The model's chat template sees it.
    #[serde(flatten)]
    #[schema(ignore)]
    pub other: Unknown,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    System,
    /// OpenAI's newer name for `system`.
    Developer,
    User,
    Assistant,
    /// The result of a tool call.
    Tool,
    /// The result of a function call (OpenAI's older name for `tool`).
    Function,
}

/// What is said: text, or parts of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum MessageContent {
    Text(String),
    Parts(Vec<ContentPart>),
}

impl<'de> Deserialize<'de> for MessageContent {
    /// Not `untagged`, which would say neither which part is wrong nor why.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrParts;

        impl<'de> Visitor<'de> for TextOrParts {
            type Value = MessageContent;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("a string or an array of content parts")
            }

            fn visit_str<E>(self, text: &str) -> Result<MessageContent, E> {
                Ok(MessageContent::Text(text.to_owned()))
            }

            fn visit_string<E>(self, text: String) -> Result<MessageContent, E> {
                Ok(MessageContent::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<MessageContent, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(parts)).map(MessageContent::Parts)
            }
        }

        deserializer.deserialize_any(TextOrParts)
    }
}

schema_of!(MessageContent, {
    "description": "Text, or parts of it.",
    "oneOf": [
        { "type": "string" },
        { "type": "array", "items": { "$ref": "#/components/schemas/ContentPart" } },
    ],
});

/// A part of what is said. Only text is supported; the other kinds are known so that they can be refused by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentPart {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// What an earlier answer of the model said instead of complying.
    Refusal {
        /// The text.
        refusal: String,
    },
    /// An image. Not supported: refused with 400.
    ImageUrl {
        /// Address or data of the image.
        #[schema(value_type = Object)]
        image_url: Value,
    },
    /// Sound. Not supported: refused with 400.
    InputAudio {
        /// Data and format of the sound.
        #[schema(value_type = Object)]
        input_audio: Value,
    },
    /// A file. Not supported: refused with 400.
    File {
        /// Id, or data and name, of the file.
        #[schema(value_type = Object)]
        file: Value,
    },
}

/// A tool that the model calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToolCall {
    /// Names the call, for its result to refer to.
    pub id: String,
    /// What kind of tool it is.
    #[serde(rename = "type")]
    pub kind: ToolType,
    /// The function and what it is given.
    pub function: FunctionCall,
}

/// Kinds of tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolType {
    #[default]
    Function,
}

/// A function and what it is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionCall {
    /// Name of the function.
    pub name: String,
    /// The arguments, as the text of a JSON object. Written by a model, so not always valid JSON.
    pub arguments: String,
}
