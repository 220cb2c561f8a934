//! Functionary 3.1: the name in a tag, the arguments within.

use crate::format::{Format, Syntax};
use crate::reasoning;
use crate::shapes::Named;

pub(crate) static FUNCTIONARY_V31: Format = Format {
    name: "functionary_v31",
    families: "Functionary 3.1",
    reasoning: &reasoning::NONE,
    syntaxes: &[Syntax::Named(Named { call: "<function=", arguments: ">", call_end: "</function>", ..Named::DEFAULT })],
    signs: &[&["<function=", "</function>", "<|eom_id|>"]],
    ..Format::DEFAULT
};
