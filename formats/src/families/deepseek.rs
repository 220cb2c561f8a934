//! DeepSeek: names with arguments between tokens (V3, R1, V3.1), and parameters in tags (V3.2, V4).

use crate::format::{Format, Syntax};
use crate::shapes::{Bit, Header, Named, Params, ParamsWritten};

const TOKENS: &[&str] = &[
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>",
];
/// The second spelling is common with distilled models.
const OPEN: &[&str] = &["<｜tool▁calls▁begin｜>", "<｜tool▁calls｜>"];

pub(crate) static DEEPSEEK_V3: Format = Format {
    name: "deepseek_v3",
    families: "DeepSeek V3, R1 and its distillations",
    syntaxes: &[Syntax::Named(Named {
        open: OPEN,
        close: "<｜tool▁calls▁end｜>",
        call: "<｜tool▁call▁begin｜>",
        arguments: "```json\n",
        header: |text| Header::name(text.split_once("<｜tool▁sep｜>")?.1),
        before_name: &[Bit::Text("function<｜tool▁sep｜>")],
        after_name: &[Bit::Text("\n")],
        fence: "\n```",
        call_end: "<｜tool▁call▁end｜>",
        separator: "\n",
        ..Named::DEFAULT
    })],
    tokens: TOKENS,
    ends_reasoning: true,
    signs: &[&["<｜tool▁calls▁begin｜>", "```json"]],
    ..Format::DEFAULT
};

pub(crate) static DEEPSEEK_V31: Format = Format {
    name: "deepseek_v31",
    families: "DeepSeek V3.1",
    syntaxes: &[Syntax::Named(Named {
        open: OPEN,
        close: "<｜tool▁calls▁end｜>",
        call: "<｜tool▁call▁begin｜>",
        arguments: "<｜tool▁sep｜>",
        call_end: "<｜tool▁call▁end｜>",
        ..Named::DEFAULT
    })],
    tokens: TOKENS,
    ends_reasoning: true,
    signs: &[&["<｜tool▁calls▁begin｜>"]],
    ..Format::DEFAULT
};

/// Parameters in tags that say themselves what is a string.
const fn dsml(open: &'static [&'static str], close: &'static str) -> Params {
    Params {
        open,
        close,
        call: "<｜DSML｜invoke name=\"",
        name_end: "\">",
        key: "<｜DSML｜parameter name=\"",
        key_end: "\">",
        value_end: "</｜DSML｜parameter>",
        call_end: "</｜DSML｜invoke>",
        says_text: Some((" string=\"true", " string=\"false")),
        written: ParamsWritten {
            after_open: "\n",
            text_attributes: &[Bit::Text("\" string=\"true")],
            other_attributes: &[Bit::Text("\" string=\"false")],
            after_name: "\n",
            after_value: "\n",
            after_call: "\n",
            ..ParamsWritten::DEFAULT
        },
        ..Params::DEFAULT
    }
}

pub(crate) static DEEPSEEK_V32: Format = Format {
    name: "deepseek_v32",
    families: "DeepSeek V3.2",
    syntaxes: &[Syntax::Params(dsml(&["<｜DSML｜function_calls>"], "</｜DSML｜function_calls>"))],
    tokens: &["｜DSML｜"],
    signs: &[&["｜DSML｜", "function_calls"]],
    ..Format::DEFAULT
};

pub(crate) static DEEPSEEK_V4: Format = Format {
    name: "deepseek_v4",
    families: "DeepSeek V4",
    syntaxes: &[Syntax::Params(dsml(&["<｜DSML｜tool_calls>"], "</｜DSML｜tool_calls>"))],
    tokens: &["｜DSML｜"],
    signs: &[&["｜DSML｜", "tool_calls>"]],
    ..Format::DEFAULT
};
