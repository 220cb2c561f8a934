//! MiniMax: parameters in tags (M2), and objects of JSON between tags (M1).

use super::KEYS;
use crate::format::{Format, Syntax};
use crate::shapes::{Json, JsonWritten, Params, ParamsWritten};

pub(crate) static MINIMAX_M2: Format = Format {
    name: "minimax_m2",
    families: "MiniMax M2",
    syntaxes: &[Syntax::Params(Params {
        open: &["<minimax:tool_call>"],
        close: "</minimax:tool_call>",
        call: "<invoke name=\"",
        name_end: "\">",
        key: "<parameter name=\"",
        key_end: "\">",
        value_end: "</parameter>",
        call_end: "</invoke>",
        written: ParamsWritten {
            after_open: "\n",
            after_name: "\n",
            after_value: "\n",
            after_call: "\n",
            ..ParamsWritten::DEFAULT
        },
        ..Params::DEFAULT
    })],
    tokens: &["<minimax:tool_call>", "</minimax:tool_call>"],
    signs: &[&["<minimax:tool_call>"]],
    ..Format::DEFAULT
};

pub(crate) static MINIMAX_M1: Format = Format {
    name: "minimax",
    families: "MiniMax M1",
    syntaxes: &[Syntax::Json(Json {
        open: &["<tool_calls>"],
        close: "</tool_calls>",
        bare: false,
        keys: &KEYS,
        written: JsonWritten { around: ("\n", "\n"), separator: "\n", ..JsonWritten::LIST },
    })],
    tokens: &["<tool_calls>", "</tool_calls>"],
    signs: &[&["<tool_calls>", "<beginning_of_sentence>"]],
    ..Format::DEFAULT
};
