//! Mistral: a name and its arguments after a token, or a list of JSON (before 2025).

use crate::format::{Format, IdStyle, Syntax};
use crate::reasoning;
use crate::shapes::{Bit, Header, Json, JsonWritten, Keys, Named};

/// An identifier that comes after the arguments is not waited for: they would not stream.
static KEYS: Keys = Keys { name: &["name"], arguments: &["arguments"], id: &["id"] };

/// `name`, perhaps with `[CALL_ID]` and an identifier.
fn header(text: &str) -> Option<Header> {
    let (name, id) = match text.split_once("[CALL_ID]") {
        Some((name, id)) => (name, Some(id.trim().to_owned())),
        None => (text, None),
    };
    Some(Header { name: name.trim().to_owned(), id })
}

const NAMED: Syntax = Syntax::Named(Named {
    call: "[TOOL_CALLS]",
    arguments: "[ARGS]",
    header,
    after_name: &[Bit::Optional(&[Bit::Text("[CALL_ID]"), Bit::Pattern("[a-zA-Z0-9]{9}")])],
    ..Named::DEFAULT
});
const LIST: Syntax = Syntax::Json(Json {
    open: &["[TOOL_CALLS]"],
    close: "",
    bare: false,
    keys: &KEYS,
    written: JsonWritten {
        after_arguments: &[Bit::Optional(&[
            Bit::Text(", \"id\": \""),
            Bit::Pattern("[a-zA-Z0-9]{9}"),
            Bit::Text("\""),
        ])],
        ..JsonWritten::LIST
    },
});

pub(crate) static MISTRAL: Format = Format {
    name: "mistral",
    families: "Mistral Small 3.2, Devstral, Magistral, Ministral 3",
    ids: IdStyle::NineAlphanumeric,
    reasoning: &reasoning::MISTRAL,
    syntaxes: &[NAMED, LIST],
    tokens: &["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"],
    ends_reasoning: true,
    signs: &[&["[TOOL_CALLS]", "[ARGS]"]],
};

pub(crate) static MISTRAL_LIST: Format = Format {
    name: "mistral_list",
    families: "Mistral 7B 0.3, Nemo, Mixtral, Small 3.1",
    ids: IdStyle::NineAlphanumeric,
    reasoning: &reasoning::MISTRAL,
    syntaxes: &[LIST, NAMED],
    tokens: &["[TOOL_CALLS]"],
    ends_reasoning: true,
    signs: &[&["[TOOL_CALLS]"]],
};
