//! GLM and who writes like it: keys and values in tags of their own.

use crate::format::{Format, Syntax};
use crate::reasoning;
use crate::shapes::{Params, ParamsWritten};

const PARAMS: Params = Params {
    call: "<tool_call>",
    name_end: "\n",
    key: "<arg_key>",
    key_end: "</arg_key>",
    value: "<arg_value>",
    value_end: "</arg_value>",
    call_end: "</tool_call>",
    ..Params::DEFAULT
};
const TOKENS: &[&str] = &["<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"];

pub(crate) static GLM45: Format = Format {
    name: "glm45",
    families: "GLM 4.5 and 4.6, Laguna XS",
    syntaxes: &[Syntax::Params(Params {
        written: ParamsWritten {
            after_name: "\n",
            after_key: "\n",
            after_value: "\n",
            separator: "\n",
            ..ParamsWritten::DEFAULT
        },
        ..PARAMS
    })],
    tokens: TOKENS,
    signs: &[&["<arg_key>"]],
    ..Format::DEFAULT
};

pub(crate) static LING3: Format = Format {
    name: "ling3",
    families: "Ling 3",
    syntaxes: &[Syntax::Params(Params {
        written: ParamsWritten {
            after_name: "\n",
            after_key: "\n",
            before_call_end: "\n",
            separator: "\n",
            ..ParamsWritten::DEFAULT
        },
        ..PARAMS
    })],
    tokens: TOKENS,
    signs: &[&["<arg_key>", "<|role_end|>"]],
    ..Format::DEFAULT
};

pub(crate) static GLM47: Format = Format {
    name: "glm47",
    families: "GLM 4.7, Spark 2.5, Laguna S",
    syntaxes: &[Syntax::Params(PARAMS)],
    tokens: TOKENS,
    // The last is Laguna's, whose tags are written one by one.
    signs: &[&["</arg_key><arg_value>"], &["\"<arg_key>\" ~ k ~ \"</arg_key>\" -"]],
    ..Format::DEFAULT
};

pub(crate) static HY3: Format = Format {
    name: "hy3",
    families: "Hunyuan 3",
    reasoning: &reasoning::HY3,
    syntaxes: &[Syntax::Params(Params {
        open: &["<tool_calls:opensource>"],
        close: "</tool_calls:opensource>",
        call: "<tool_call:opensource>",
        name_end: "<tool_sep:opensource>",
        key: "<arg_key:opensource>",
        key_end: "</arg_key:opensource>",
        value: "<arg_value:opensource>",
        value_end: "</arg_value:opensource>",
        call_end: "</tool_call:opensource>",
        written: ParamsWritten {
            after_open: "\n",
            after_name: "\n",
            after_key: "\n",
            after_value: "\n",
            after_call: "\n",
            ..ParamsWritten::DEFAULT
        },
        ..Params::DEFAULT
    })],
    tokens: &[
        "<tool_calls:opensource>",
        "</tool_calls:opensource>",
        "<tool_call:opensource>",
        "</tool_call:opensource>",
        "<tool_sep:opensource>",
        "<arg_key:opensource>",
        "</arg_key:opensource>",
        "<arg_value:opensource>",
        "</arg_value:opensource>",
    ],
    signs: &[&["hy_Assistant"]],
    ..Format::DEFAULT
};
