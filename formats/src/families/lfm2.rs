//! LFM2: a list of calls as in Python, between tokens. JSON, too, where the system prompt asks for it.

use super::KEYS;
use crate::format::{Format, Syntax};
use crate::shapes::{Json, JsonWritten, Pythonic};

const OPEN: &[&str] = &["<|tool_call_start|>"];
const CLOSE: &str = "<|tool_call_end|>";

pub(crate) static LFM2: Format = Format {
    name: "lfm2",
    families: "LFM2, LFM2.5",
    syntaxes: &[
        Syntax::Pythonic(Pythonic { open: OPEN, close: CLOSE, bare: false, brackets: true }),
        Syntax::Json(Json { open: OPEN, close: CLOSE, bare: false, keys: &KEYS, written: JsonWritten::LIST }),
    ],
    tokens: &["<|tool_call_start|>", "<|tool_call_end|>"],
    ends_reasoning: true,
    signs: &[&["<|tool_list_start|>"], &["<|tool_call_start|>"], &["List of tools: [", "<|im_start|>"]],
    ..Format::DEFAULT
};
