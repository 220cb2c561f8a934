//! Families with a list of JSON between tags of their own: Nemotron Nano 2, Apriel.

use super::KEYS;
use crate::format::{Format, Syntax};
use crate::reasoning;
use crate::shapes::{Json, JsonWritten};

pub(crate) static NEMOTRON_V2: Format = Format {
    name: "nemotron_v2",
    families: "Nemotron Nano 2",
    syntaxes: &[Syntax::Json(Json {
        open: &["<TOOLCALL>"],
        close: "</TOOLCALL>",
        bare: false,
        keys: &KEYS,
        written: JsonWritten { list: true, pad: "", separator: ", " },
    })],
    tokens: &["<TOOLCALL>", "</TOOLCALL>"],
    signs: &[&["<TOOLCALL>"]],
    ..Format::DEFAULT
};

pub(crate) static APRIEL: Format = Format {
    name: "apriel",
    families: "Apriel 1.5 and 1.6",
    reasoning: &reasoning::APRIEL,
    syntaxes: &[Syntax::Json(Json {
        open: &["<tool_calls>"],
        close: "</tool_calls>",
        bare: false,
        keys: &KEYS,
        written: JsonWritten { list: true, pad: "", separator: ", " },
    })],
    tokens: &["<tool_calls>", "</tool_calls>"],
    signs: &[&["<tool_calls>"]],
    ..Format::DEFAULT
};
