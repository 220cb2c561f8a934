//! Text to tokens and back. llama-server and vLLM name the fields differently; one type holds the names of both, so
//! that the clients of either find what they read.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::schema::{AllOfBuilder, Object, ObjectBuilder, OneOfBuilder};
use utoipa::openapi::{RefOr, Schema};

use crate::body::{Body, Unknown};
use crate::chat::{Message, ToolDefinition};
use crate::values::TokenId;

/// What to tokenise: exactly one of `content`, `prompt` and `messages`, and how.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, ToSchema)]
pub struct TokenizeRequest {
    /// Id or alias of the model. Default: the served model.
    pub model: Option<String>,
    /// Text (llama-server).
    #[schema(nullable = false)]
    pub content: Option<String>,
    /// Text (vLLM).
    #[schema(nullable = false)]
    pub prompt: Option<String>,
    /// Conversation, to be written out by the model's chat template (vLLM).
    #[schema(nullable = false, min_items = 1)]
    pub messages: Option<Vec<Message>>,

    /// Whether the tokenizer puts its own tokens, such as a beginning of sequence, around `content` (llama-server).
    #[schema(default = false)]
    pub add_special: Option<bool>,
    /// Whether control tokens written in `content` become these tokens instead of text (llama-server).
    #[schema(default = true)]
    pub parse_special: Option<bool>,
    /// Whether each token is an object of its id and its text (llama-server).
    #[schema(default = false)]
    pub with_pieces: Option<bool>,

    /// Whether the tokenizer puts its own tokens around `prompt` or `messages` (vLLM). Default: yes for `prompt`, no for
    /// `messages`.
    pub add_special_tokens: Option<bool>,
    /// Whether to answer with the texts of the tokens, in `token_strs` (vLLM).
    #[schema(default = false)]
    pub return_token_strs: Option<bool>,
    /// Whether the template opens an answer after the last message (vLLM).
    #[schema(default = true)]
    pub add_generation_prompt: Option<bool>,
    /// Whether the last message is left open (vLLM). Excludes `add_generation_prompt`.
    #[schema(default = false)]
    pub continue_final_message: Option<bool>,
    /// Variables for the model's chat template (vLLM).
    #[schema(value_type = Option<Object>)]
    pub chat_template_kwargs: Option<Value>,
    /// Tools that the model may call, beside `messages` (vLLM).
    #[schema(max_items = 128)]
    pub tools: Option<Vec<ToolDefinition>>,

    #[serde(flatten)]
    #[schema(ignore)]
    pub unknown: Unknown,
}

impl Body for TokenizeRequest {
    fn unknown(&self) -> &Unknown {
        &self.unknown
    }

    fn unknown_mut(&mut self) -> &mut Unknown {
        &mut self.unknown
    }
}

/// The schema of [`TokenizeRequest`] with the rule that the derive cannot state: one of its three texts is given.
pub(crate) fn with_exactly_one_text(request: RefOr<Schema>) -> Schema {
    let given = |field: &str| -> Object { ObjectBuilder::new().required(field).build() };
    let texts = OneOfBuilder::new().item(given("content")).item(given("prompt")).item(given("messages"));
    AllOfBuilder::new().item(request).item(texts).build().into()
}

/// The tokens of a text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TokenizeResponse {
    /// The tokens: ids, or with `with_pieces` objects.
    pub tokens: Vec<Token>,
    /// How many they are (vLLM).
    pub count: u64,
    /// Tokens of the longest sequence, prompt and answer together (vLLM).
    pub max_model_len: u64,
    /// Texts of the tokens; null unless `return_token_strs` asked for them (vLLM).
    #[schema(required)]
    pub token_strs: Option<Vec<String>>,
}

/// One token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Token {
    /// Its id.
    Id(u32),
    /// Its id and its text.
    Piece(TokenPiece),
}

/// A token and its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenPiece {
    /// Id of the token.
    pub id: u32,
    /// Its text; or its bytes, where they are only a part of a character.
    pub piece: Piece,
}

/// The text of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Piece {
    /// Whole characters.
    Text(String),
    /// Bytes that are not whole characters.
    Bytes(Vec<u8>),
}

/// Tokens to write out.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, ToSchema)]
pub struct DetokenizeRequest {
    /// Id or alias of the model. Default: the served model.
    pub model: Option<String>,
    /// The tokens.
    pub tokens: Vec<TokenId>,

    #[serde(flatten)]
    #[schema(ignore)]
    pub unknown: Unknown,
}

impl Body for DetokenizeRequest {
    fn unknown(&self) -> &Unknown {
        &self.unknown
    }

    fn unknown_mut(&mut self) -> &mut Unknown {
        &mut self.unknown
    }
}

/// The text of some tokens, under the names of both servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DetokenizeResponse {
    /// The text (llama-server).
    pub content: String,
    /// The same text (vLLM).
    pub prompt: String,
}

pub(crate) mod paths {
    #![expect(dead_code, reason = "the functions stand for the server's; only their attributes are read")]

    use super::{DetokenizeRequest, DetokenizeResponse, TokenizeRequest, TokenizeResponse};
    use crate::error::BodyErrors;

    /// Turn text into tokens
    ///
    /// Takes the fields of llama-server and of vLLM, and answers with those of both.
    #[utoipa::path(
        post,
        path = "/tokenize",
        operation_id = "tokenize",
        tag = "Text",
        security(("bearer" = [])),
        request_body(content = TokenizeRequest, description = "The text and how to read it.", examples(
            ("llama_server" = (summary = "As llama-server's clients ask", value = json!({
                "content": "Hello world", "add_special": true, "with_pieces": true,
            }))),
            ("vllm" = (summary = "As vLLM's clients ask", value = json!({
                "prompt": "Hello world", "add_special_tokens": false, "return_token_strs": true,
            }))),
            ("chat" = (summary = "A conversation", value = json!({
                "messages": [{ "role": "user", "content": "Hello world" }], "add_generation_prompt": true,
            }))),
        )),
        responses(
            (status = 200, description = "The tokens.", body = TokenizeResponse, example = json!({
                "tokens": [19556, 905], "count": 2, "max_model_len": 8192, "token_strs": ["Hello", " world"],
            })),
            BodyErrors,
        ),
    )]
    fn tokenize() {}

    /// Turn tokens into text
    ///
    /// Control tokens are written out. Bytes that are not whole characters become U+FFFD.
    #[utoipa::path(
        post,
        path = "/detokenize",
        operation_id = "detokenize",
        tag = "Text",
        security(("bearer" = [])),
        request_body(
            content = DetokenizeRequest, description = "The tokens.", example = json!({ "tokens": [10, 11, 12] }),
        ),
        responses(
            (status = 200, description = "The text.", body = DetokenizeResponse, example = json!({
                "content": "Hello world", "prompt": "Hello world",
            })),
            BodyErrors,
        ),
    )]
    fn detokenize() {}
}
