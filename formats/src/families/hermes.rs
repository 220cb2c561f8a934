//! Hermes: each call an object of JSON between tags.

use super::KEYS;
use crate::format::{Format, Syntax};
use crate::shapes::{Json, JsonWritten};

pub(super) const SYNTAXES: &[Syntax] = &[Syntax::Json(Json {
    open: &["<tool_call>"],
    close: "</tool_call>",
    bare: false,
    keys: &KEYS,
    written: JsonWritten { around: ("\n", "\n"), one_call: true, separator: "\n", ..JsonWritten::LIST },
})];
pub(super) const TOKENS: &[&str] = &["<tool_call>", "</tool_call>"];

pub(crate) static HERMES: Format = Format {
    name: "hermes",
    families: "Hermes 2 and 3, Qwen2.5, Qwen3, QwQ, SmolLM3, MiMo, Bielik, Reka",
    syntaxes: SYNTAXES,
    tokens: TOKENS,
    signs: &[&["<tool_call>"]],
    ..Format::DEFAULT
};
