//! Values that are not JSON: literals of Python, and dictionaries of Gemma.

use serde_json::Value;

use super::calls::{Calls, one_of};
use super::lark::Lark;
use super::params::{Member, members, texts};
use crate::shapes::Pythonic;
use crate::tool::{Tool, resolve};
use crate::value::{Dialect, PYTHON};

/// How a dialect is written.
struct Style {
    dialect: &'static Dialect,
    colon: &'static str,
    comma: &'static str,
    words: [&'static str; 3],
}

static IN_PYTHON: Style = Style { dialect: &PYTHON, colon: ": ", comma: ", ", words: ["True", "False", "None"] };

/// Gemma's, whose templates write nulls as `None` or `null`.
fn compact(dialect: &'static Dialect) -> Style {
    Style { dialect, colon: ":", comma: ",", words: ["true", "false", "null"] }
}

pub(super) fn python_calls(lark: &mut Lark, pythonic: &Pythonic, tools: &[&Tool], parallel: bool) -> Calls {
    let (before, between, after) = if pythonic.brackets { ("[", ", ", "]") } else { ("", "\n", "") };
    let first = python_call(lark, before, tools);
    let more = python_call(lark, between, tools);
    let opener = pythonic.open.first().copied().filter(|_| !pythonic.bare).unwrap_or_default();
    let close = lark.literal(&format!("{after}{}", if pythonic.bare { "" } else { pythonic.close }));
    let more = if parallel { format!("{more}*") } else { String::new() };
    let begins = tools.iter().map(|tool| format!("{before}{}(", tool.name)).collect();
    Calls { opener, rest: format!("{first} {more} {close}"), begins }
}

/// One call with what comes before it, which is in one literal with the name: see `text_without_beginnings`.
fn python_call(lark: &mut Lark, before: &str, tools: &[&Tool]) -> String {
    one_of(lark, tools, |lark, tool| {
        let arguments = pairs(lark, &IN_PYTHON, tool, &members(tool), |lark, key| lark.literal(&format!("{key}=")));
        format!("{} {arguments} {}", lark.literal(&format!("{before}{}(", tool.name)), lark.literal(")"))
    })
}

/// The arguments as a dictionary, keys in the order of the alphabet, as Gemma's templates sort them.
pub(super) fn dictionary(lark: &mut Lark, dialect: &'static Dialect, tool: &Tool) -> String {
    let mut members = members(tool);
    members.sort_by_key(|member| member.key);
    let inner = pairs(lark, &compact(dialect), tool, &members, |lark, key| lark.literal(&format!("{key}:")));
    format!("{} {inner} {}", lark.literal("{"), lark.literal("}"))
}

/// Keys with values, of which some may be left out, with commas between those that are there.
fn pairs(
    lark: &mut Lark,
    style: &Style,
    tool: &Tool,
    members: &[Member],
    key: impl Fn(&Lark, &str) -> String,
) -> String {
    let comma = lark.literal(style.comma);
    // What may follow a pair, and what may stand before any, from the last member to the first.
    let (mut after, mut first) = (lark.rule(""), lark.rule(""));
    for member in members.iter().rev() {
        let value = value(lark, style, member.schema, &tool.parameters);
        let pair = format!("{} {value}", key(lark, member.key));
        let optional = |rest: &str| if member.required { String::new() } else { format!(" | {rest}") };
        let next = format!("{comma} {pair} {after}{}", optional(&after));
        first = lark.rule(&format!("{pair} {after}{}", optional(&first)));
        after = lark.rule(&next);
    }
    first
}

fn value(lark: &mut Lark, style: &Style, schema: &Value, root: &Value) -> String {
    if let Some(texts) = texts(schema, root) {
        let texts: Vec<_> = texts.into_iter().map(|text| quoted(lark, style, text)).collect();
        return format!("({})", texts.join(" | "));
    }
    let schema = resolve(schema, root);
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(one)) => vec![one],
        _ => Vec::new(),
    };
    if types.is_empty() {
        return any(lark, style);
    }
    let alternatives: Vec<_> = types.iter().map(|name| of_type(lark, style, name, schema, root)).collect();
    format!("({})", alternatives.join(" | "))
}

fn of_type(lark: &mut Lark, style: &Style, name: &str, schema: &Value, root: &Value) -> String {
    let [yes, no, nothing] = style.words.map(|word| lark.literal(word));
    match name {
        "string" => text(lark, style),
        "integer" => lark.terminal("-?[0-9]{1,19}"),
        "number" => number(lark),
        "boolean" => format!("({yes} | {no})"),
        "null" => nothing,
        "array" => {
            let item = schema.get("items").filter(|items| items.is_object()).cloned();
            let item = match item {
                // Schemas may hold themselves.
                Some(item) if item.get("$ref").is_none() => value(lark, style, &item, root),
                _ => any(lark, style),
            };
            list(lark, style, &item)
        }
        _ => object(lark, style),
    }
}

fn number(lark: &mut Lark) -> String {
    lark.terminal("-?[0-9]{1,19}(\\.[0-9]{1,19})?([eE][+-]?[0-9]{1,2})?")
}

/// A string as any value of it may be written.
fn text(lark: &mut Lark, style: &Style) -> String {
    if style.dialect.escapes {
        return lark.terminal("\"([^\"\\\\\\n]|\\\\[\"'\\\\nrt])*\"|'([^'\\\\\\n]|\\\\[\"'\\\\nrt])*'");
    }
    let quote = style.dialect.quotes[0];
    format!("{} {}", lark.literal(quote), lark.until(quote))
}

fn quoted(lark: &Lark, style: &Style, text: &str) -> String {
    let quote = style.dialect.quotes[0];
    let text = if style.dialect.escapes { text.replace('\\', "\\\\").replace('"', "\\\"") } else { text.to_owned() };
    lark.literal(&format!("{quote}{text}{quote}"))
}

fn list(lark: &mut Lark, style: &Style, item: &str) -> String {
    let comma = lark.literal(style.comma);
    lark.rule(&format!("\"[\" ({item} ({comma} {item})*)? \"]\""))
}

fn object(lark: &mut Lark, style: &Style) -> String {
    let item = any(lark, style);
    let key = match style.dialect.bare_strings {
        true => lark.terminal("[a-zA-Z_][a-zA-Z0-9_-]{0,63}"),
        false => text(lark, style),
    };
    let (comma, pair) = (lark.literal(style.comma), format!("{key} {} {item}", lark.literal(style.colon)));
    lark.rule(&format!("\"{{\" ({pair} ({comma} {pair})*)? \"}}\""))
}

/// Any value.
fn any(lark: &mut Lark, style: &Style) -> String {
    lark.recursive("any value", |lark, any| {
        let words = style.words.map(|word| lark.literal(word)).join(" | ");
        let (text, number) = (text(lark, style), number(lark));
        let (list, object) = (list(lark, style, any), object(lark, style));
        format!("{text} | {number} | {words} | {list} | {object}")
    })
}
