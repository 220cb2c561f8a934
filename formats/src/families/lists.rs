//! Families with a list of JSON after a marker of their own: Nemotron Nano 2, Apriel, Firefunction 2.

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
        written: JsonWritten::LIST,
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
        written: JsonWritten::LIST,
    })],
    tokens: &["<tool_calls>", "</tool_calls>"],
    signs: &[&["<tool_calls>"]],
    ..Format::DEFAULT
};

pub(crate) static FIREFUNCTION_V2: Format = Format {
    name: "firefunction_v2",
    families: "Firefunction 2",
    reasoning: &reasoning::NONE,
    syntaxes: &[Syntax::Json(Json {
        open: &["functools"],
        close: "",
        bare: false,
        keys: &KEYS,
        written: JsonWritten::LIST,
    })],
    signs: &[&["functools["]],
    ..Format::DEFAULT
};
