//! Olmo 3: calls as in Python, a line each.

use crate::format::{Format, Syntax};
use crate::shapes::Pythonic;

pub(crate) static OLMO3: Format = Format {
    name: "olmo3",
    families: "Olmo 3",
    syntaxes: &[Syntax::Pythonic(Pythonic {
        open: &["<function_calls>"],
        close: "</function_calls>",
        bare: false,
        brackets: false,
    })],
    tokens: &["<function_calls>", "</function_calls>"],
    signs: &[&["<function_calls>"]],
    ..Format::DEFAULT
};
