//! Seed-OSS: as Qwen3-Coder, in tags of its own and without line breaks around values.

use crate::format::{Format, Syntax};
use crate::reasoning;
use crate::shapes::{Params, ParamsWritten};

pub(crate) static SEED_OSS: Format = Format {
    name: "seed_oss",
    families: "Seed-OSS",
    reasoning: &reasoning::SEED,
    syntaxes: &[Syntax::Params(Params {
        open: &["<seed:tool_call>"],
        close: "</seed:tool_call>",
        call: "<function=",
        name_end: ">",
        key: "<parameter=",
        key_end: ">",
        value_end: "</parameter>",
        call_end: "</function>",
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
    tokens: &["<seed:tool_call>", "</seed:tool_call>"],
    signs: &[&["<seed:tool_call>"]],
    ..Format::DEFAULT
};
