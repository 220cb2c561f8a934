//! Llama: bare JSON (3.1 to 3.3), and calls as in Python (3.2 small, 4).

use super::KEYS;
use crate::format::{Format, Syntax};
use crate::reasoning;
use crate::shapes::{Json, JsonWritten, Pythonic};

pub(crate) static LLAMA3_JSON: Format = Format {
    name: "llama3_json",
    families: "Llama 3.1, 3.2 and 3.3",
    reasoning: &reasoning::NONE,
    syntaxes: &[Syntax::Json(Json {
        open: &["<|python_tag|>"],
        close: "",
        bare: true,
        keys: &KEYS,
        written: JsonWritten { around: ("", ""), separator: "; ", ..JsonWritten::LIST },
    })],
    tokens: &["<|python_tag|>"],
    signs: &[&["<|python_tag|>"], &["{\"name\": function name, \"parameters\":"], &["<|eom_id|>", "\"parameters\": "]],
    ..Format::DEFAULT
};

pub(crate) static LLAMA4_PYTHONIC: Format = Format {
    name: "llama4_pythonic",
    families: "Llama 4",
    reasoning: &reasoning::NONE,
    syntaxes: &[Syntax::Pythonic(Pythonic {
        open: &["<|python_start|>"],
        close: "<|python_end|>",
        bare: true,
        brackets: true,
    })],
    tokens: &["<|python_start|>", "<|python_end|>"],
    signs: &[&["<|python_start|>"], &["<|header_start|>", "func_name1(params_name1"]],
    ..Format::DEFAULT
};

pub(crate) static PYTHONIC: Format = Format {
    name: "pythonic",
    families: "Llama 3.2 and others that were asked for calls as in Python",
    reasoning: &reasoning::NONE,
    syntaxes: &[Syntax::Pythonic(Pythonic { open: &["<|python_tag|>"], close: "", bare: true, brackets: true })],
    tokens: &["<|python_tag|>"],
    signs: &[&["func_name1(params_name1"]],
    ..Format::DEFAULT
};
