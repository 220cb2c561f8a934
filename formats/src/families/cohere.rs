//! Cohere: a list of actions.

use crate::format::{Format, Syntax};
use crate::reasoning;
use crate::shapes::{Bit, Json, JsonWritten, Keys};

/// Their `tool_call_id` counts from 0 in every answer, and templates number calls themselves: no identifier for clients.
static KEYS: Keys = Keys { name: &["tool_name"], arguments: &["parameters"], id: &[] };

pub(crate) static COHERE_COMMAND3: Format = Format {
    name: "cohere_command3",
    families: "Command R7B, Command A, Command A+",
    reasoning: &reasoning::COHERE,
    syntaxes: &[Syntax::Json(Json {
        open: &["<|START_ACTION|>"],
        close: "<|END_ACTION|>",
        bare: false,
        keys: &KEYS,
        written: JsonWritten {
            around: ("[\n    ", "\n]"),
            separator: ",\n    ",
            before_name: &[Bit::Text("\"tool_call_id\": \""), Bit::Pattern("[0-9]+"), Bit::Text("\", ")],
            ..JsonWritten::LIST
        },
    })],
    tokens: &["<|START_ACTION|>", "<|END_ACTION|>"],
    ends_reasoning: true,
    signs: &[&["<|START_ACTION|>"]],
    ..Format::DEFAULT
};

pub(crate) static COHERE_COMMAND_R: Format = Format {
    name: "cohere_command_r",
    families: "Command R, Command R+",
    reasoning: &reasoning::NONE,
    syntaxes: &[Syntax::Json(Json {
        open: &["Action: ```json", "Action:\n```json"],
        close: "```",
        bare: false,
        keys: &KEYS,
        written: JsonWritten { around: ("\n[\n    ", "\n]"), separator: ",\n    ", ..JsonWritten::LIST },
    })],
    signs: &[&["Action:", "```json", "tool_name"]],
    ..Format::DEFAULT
};
