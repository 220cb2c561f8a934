//! MiniCPM 5: parameters as XML, strings perhaps as character data.

use crate::format::{Format, Syntax};
use crate::shapes::{Params, ParamsWritten};

pub(crate) static MINICPM5: Format = Format {
    name: "minicpm5",
    families: "MiniCPM 5",
    syntaxes: &[Syntax::Params(Params {
        call: "<function name=\"",
        name_end: "\">",
        key: "<param name=\"",
        key_end: "\">",
        value_end: "</param>",
        call_end: "</function>",
        cdata: true,
        written: ParamsWritten { separator: "\n", ..ParamsWritten::DEFAULT },
        ..Params::DEFAULT
    })],
    signs: &[&["<function name=\"", "<param name=\""]],
    ..Format::DEFAULT
};
