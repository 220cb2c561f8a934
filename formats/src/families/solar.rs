//! Solar Open: identifier, name and arguments, each after a token.

use crate::format::{Format, Syntax};
use crate::reasoning;
use crate::shapes::{Bit, Header, Named};

/// The identifier, then the name.
fn header(text: &str) -> Option<Header> {
    let (id, name) = text.split_once("<|tool_call:name|>")?;
    let id = Some(id.trim().to_owned()).filter(|id| !id.is_empty());
    Some(Header { name: name.trim().to_owned(), id })
}

pub(crate) static SOLAR_OPEN: Format = Format {
    name: "solar_open",
    families: "Solar Open",
    reasoning: &reasoning::SOLAR,
    syntaxes: &[Syntax::Named(Named {
        open: &["<|tool_calls|>"],
        close: "<|calls|>",
        close_ends_answer: true,
        call: "<|tool_call:begin|>",
        arguments: "<|tool_call:args|>",
        header,
        before_name: &[Bit::Pattern("[a-zA-Z0-9_-]{1,64}"), Bit::Text("<|tool_call:name|>")],
        call_end: "<|tool_call:end|>",
        ..Named::DEFAULT
    })],
    tokens: &[
        "<|tool_calls|>",
        "<|calls|>",
        "<|tool_call:begin|>",
        "<|tool_call:name|>",
        "<|tool_call:args|>",
        "<|tool_call:end|>",
    ],
    signs: &[&["<|tool_call:begin|>"]],
    ..Format::DEFAULT
};
