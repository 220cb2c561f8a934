//! GigaChat: one object of JSON after a token (3.1), or in a message of its own role (3).

use super::KEYS;
use crate::format::{Format, Syntax};
use crate::reasoning;
use crate::shapes::{Json, JsonWritten};

/// Ends every message, so nothing follows a call.
const TOKENS: &[&str] = &["<|function_call|>", "<|message_sep|>", "<|role_sep|>"];

/// All ways to begin a call are read, the first is written.
const fn syntax(open: &'static [&'static str]) -> Syntax {
    Syntax::Json(Json {
        open,
        close: "",
        bare: false,
        keys: &KEYS,
        written: JsonWritten { around: ("", ""), one_call: true, separator: "", ..JsonWritten::LIST },
    })
}

pub(crate) static GIGACHAT31: Format = Format {
    name: "gigachat31",
    families: "GigaChat 3.1",
    reasoning: &reasoning::NONE,
    syntaxes: &[syntax(&["<|function_call|>", "<|message_sep|>\n\nfunction call<|role_sep|>\n"])],
    tokens: TOKENS,
    signs: &[&["<|role_sep|>", "<|function_call|>"]],
    ..Format::DEFAULT
};

pub(crate) static GIGACHAT3: Format = Format {
    name: "gigachat3",
    families: "GigaChat 3",
    reasoning: &reasoning::NONE,
    syntaxes: &[syntax(&["<|message_sep|>\n\nfunction call<|role_sep|>\n", "<|function_call|>"])],
    tokens: TOKENS,
    signs: &[&["<|role_sep|>", "<|message_sep|>"]],
    ..Format::DEFAULT
};
