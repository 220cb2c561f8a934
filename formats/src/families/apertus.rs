//! Apertus: a list of objects whose only key is the tool's name.

use crate::format::{Format, Syntax};
use crate::reasoning;
use crate::shapes::{Json, JsonWritten, Keys};

static NAME_ONLY: Keys = Keys { name: &[], arguments: &[], id: &[] };

pub(crate) static APERTUS: Format = Format {
    name: "apertus",
    families: "Apertus",
    reasoning: &reasoning::APERTUS,
    syntaxes: &[Syntax::Json(Json {
        open: &["<|tools_prefix|>"],
        close: "<|tools_suffix|>",
        bare: false,
        keys: &NAME_ONLY,
        written: JsonWritten::LIST,
    })],
    tokens: &["<|tools_prefix|>", "<|tools_suffix|>"],
    ends_reasoning: true,
    signs: &[&["<|tools_prefix|>"]],
    ..Format::DEFAULT
};
