//! Qwen3-Coder and who writes like it: parameters in tags, with line breaks around values.

use crate::format::{Format, Syntax};
use crate::shapes::{Params, ParamsWritten};

pub(crate) static QWEN3_XML: Format = Format {
    name: "qwen3_xml",
    families: "Qwen3-Coder, Qwen3.5, Nemotron 3, Step 3.5",
    syntaxes: &[Syntax::Params(Params {
        open: &["<tool_call>"],
        close: "</tool_call>",
        call: "<function=",
        name_end: ">",
        key: "<parameter=",
        key_end: ">",
        value_end: "</parameter>",
        call_end: "</function>",
        padded: true,
        written: ParamsWritten {
            one_call: true,
            after_open: "\n",
            after_name: "\n",
            after_value: "\n",
            after_call: "\n",
            separator: "\n",
            ..ParamsWritten::DEFAULT
        },
        ..Params::DEFAULT
    })],
    tokens: &["<tool_call>", "</tool_call>"],
    signs: &[&["<function=", "<parameter="]],
    ..Format::DEFAULT
};
