//! GigaChat: one object of JSON after a token, or after a role of its own.

use super::KEYS;
use crate::format::{Format, Syntax};
use crate::reasoning;
use crate::shapes::{Json, JsonWritten};

pub(crate) static GIGACHAT3: Format = Format {
    name: "gigachat3",
    families: "GigaChat 3 and 3.1",
    reasoning: &reasoning::NONE,
    syntaxes: &[Syntax::Json(Json {
        open: &["<|function_call|>", "<|message_sep|>\n\nfunction call<|role_sep|>", "function call<|role_sep|>"],
        close: "<|message_sep|>",
        bare: false,
        keys: &KEYS,
        written: JsonWritten { list: false, pad: "", separator: "" },
    })],
    tokens: &["<|function_call|>", "<|message_sep|>", "<|role_sep|>"],
    signs: &[&["<|role_sep|>", "<|message_sep|>"]],
    ..Format::DEFAULT
};
