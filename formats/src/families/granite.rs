//! Granite: a list of JSON after a token (3), or Hermes' way (4).

use super::{KEYS, hermes};
use crate::format::{Format, Syntax};
use crate::reasoning;
use crate::shapes::{Json, JsonWritten};

pub(crate) static GRANITE: Format = Format {
    name: "granite",
    families: "Granite 3",
    reasoning: &reasoning::GRANITE,
    syntaxes: &[Syntax::Json(Json {
        open: &["<|tool_call|>", "<tool_call>"],
        close: "",
        bare: false,
        keys: &KEYS,
        written: JsonWritten::LIST,
    })],
    tokens: &["<|tool_call|>"],
    signs: &[&["<|tool_call|>"]],
    ..Format::DEFAULT
};

pub(crate) static GRANITE4: Format = Format {
    name: "granite4",
    families: "Granite 4",
    syntaxes: hermes::SYNTAXES,
    tokens: hermes::TOKENS,
    signs: &[&["<tool_call>", "<|start_of_role|>"]],
    ..Format::DEFAULT
};
