//! Kimi: a name with its number before JSON (K2), and elements that say their types (K3).

use crate::format::{Format, IdStyle, Syntax};
use crate::reasoning;
use crate::shapes::{Bit, Header, Named, Params, ParamsWritten};

/// `functions.name:0`, which is the identifier as a whole.
fn header(text: &str) -> Option<Header> {
    let id = text.trim();
    let (path, number) = id.rsplit_once(':')?;
    let numbered = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let name = path.strip_prefix("functions.").unwrap_or(path).to_owned();
    numbered.then(|| Header { name, id: Some(id.to_owned()) })
}

pub(crate) static KIMI_K2: Format = Format {
    name: "kimi_k2",
    families: "Kimi K2",
    ids: IdStyle::Kimi,
    syntaxes: &[Syntax::Named(Named {
        open: &["<|tool_calls_section_begin|>"],
        close: "<|tool_calls_section_end|>",
        call: "<|tool_call_begin|>",
        arguments: "<|tool_call_argument_begin|>",
        header,
        before_name: &[Bit::Text("functions.")],
        after_name: &[Bit::Text(":"), Bit::Pattern("[0-9]+")],
        call_end: "<|tool_call_end|>",
        ..Named::DEFAULT
    })],
    tokens: &[
        "<|tool_calls_section_begin|>",
        "<|tool_calls_section_end|>",
        "<|tool_call_begin|>",
        "<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
    ],
    ends_reasoning: true,
    signs: &[&["<|tool_calls_section_begin|>"]],
    ..Format::DEFAULT
};

pub(crate) static KIMI_K3: Format = Format {
    name: "kimi_k3",
    families: "Kimi K3",
    reasoning: &reasoning::KIMI_K3,
    syntaxes: &[Syntax::Params(Params {
        open: &["<|open|>tools<|sep|>"],
        close: "<|close|>tools<|sep|>",
        call: "<|open|>call tool=\"",
        name_end: "<|sep|>",
        key: "<|open|>argument key=\"",
        key_end: "<|sep|>",
        value_end: "<|close|>argument<|sep|>",
        call_end: "<|close|>call<|sep|>",
        says_text: Some((" type=\"string", " type=\"")),
        written: ParamsWritten {
            name_attributes: &[Bit::Text("\" index=\""), Bit::Pattern("[0-9]+"), Bit::Text("\"")],
            text_attributes: &[Bit::Text("\" type=\"string\"")],
            other_attributes: &[
                Bit::Text("\" type=\""),
                Bit::Pattern("number|boolean|array|object|null"),
                Bit::Text("\""),
            ],
            ..ParamsWritten::DEFAULT
        },
        ..Params::DEFAULT
    })],
    tokens: &["<|open|>", "<|close|>", "<|sep|>"],
    ends_reasoning: true,
    signs: &[&["<|open|>", "<|close|>", "<|sep|>"]],
    ..Format::DEFAULT
};
