//! The `object` names by which OpenAI's responses say what they are. Each type has one value.

use serde::{Deserialize, Serialize};

use crate::schema::schema_of;

macro_rules! names {
    ($($type:ident = $name:literal,)*) => {$(
        #[doc = $name]
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $type {
            #[default]
            #[serde(rename = $name)]
            Name,
        }

        schema_of!($type, { "type": "string", "enum": [$name] });
    )*};
}

names! {
    ChatCompletionName = "chat.completion",
    ChatChunkName = "chat.completion.chunk",
    TextCompletionName = "text_completion",
    ListName = "list",
    ModelName = "model",
}
