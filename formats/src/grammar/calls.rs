//! Calls in the shapes of JSON, names with values, and harmony; and answers that may hold calls.

use super::lark::Lark;
use super::{literals, params};
use crate::format::{Format, Syntax};
use crate::shapes::{Json, Named};
use crate::tool::Tool;
use crate::value::Language;

/// Calls, in two parts: an answer that may hold some is searched for the first one's opener.
pub(super) struct Calls {
    pub opener: &'static str,
    /// What follows it, as an expression.
    pub rest: String,
    /// How calls begin that have no opener.
    pub begins: Vec<String>,
}

impl Calls {
    /// An answer that is calls.
    pub fn always(&self, lark: &Lark) -> String {
        format!("{} {}", lark.literal(self.opener), self.rest)
    }

    /// An answer that may hold calls, or none. Between its texts may be the markers of `around`, and in harmony thoughts.
    pub fn maybe(&self, lark: &mut Lark, format: &Format, around: &[&str], may_think: bool) -> String {
        if format.is_harmony() {
            let text = lark.terminal("(?s:.*)");
            return harmony_answer(lark, &self.rest, &text, may_think);
        }
        if self.opener.is_empty() {
            let text = lark.text_without_beginnings(&self.begins);
            return format!("({} | {text})", self.rest);
        }
        let (text, until) = (lark.text_without(self.opener), lark.until(self.opener));
        let around: Vec<_> = around.iter().map(|marker| lark.literal(marker)).collect();
        let before = if around.is_empty() { String::new() } else { format!("({text} ({}))*", around.join(" | ")) };
        format!("{before} ({text} | {until} {})", self.rest)
    }

    /// Calls of which each has the opener: `each` without it, once or several times.
    pub fn each_opened(lark: &mut Lark, opener: &'static str, each: &str, separator: &str, parallel: bool) -> Self {
        let each = lark.rule(each);
        let more = lark.literal(&format!("{separator}{opener}"));
        let rest = if parallel { format!("{each} ({more} {each})*") } else { each };
        Self { opener, rest, begins: Vec::new() }
    }
}

/// Calls of the format's first syntax.
pub(super) fn calls(lark: &mut Lark, format: &Format, tools: &[&Tool], parallel: bool) -> Calls {
    match &format.syntaxes[0] {
        Syntax::Json(json) => json_calls(lark, json, tools, parallel),
        Syntax::Named(named) => named_calls(lark, named, tools, parallel),
        Syntax::Params(given) => params::calls(lark, given, tools, parallel),
        Syntax::Pythonic(pythonic) => literals::python_calls(lark, pythonic, tools, parallel),
        Syntax::Harmony => Calls { opener: "", rest: harmony_call(lark, tools), begins: Vec::new() },
    }
}

/// One of the calls that `call` writes.
pub(super) fn one_of(lark: &mut Lark, tools: &[&Tool], call: impl Fn(&mut Lark, &Tool) -> String) -> String {
    let calls: Vec<_> = tools.iter().map(|tool| call(lark, tool)).collect();
    lark.rule(&calls.join(" | "))
}

/// `call` once, or several times with a separator.
pub(super) fn repeated(lark: &Lark, call: &str, separator: &str, parallel: bool) -> String {
    if parallel { format!("{call} ({} {call})*", lark.literal(separator)) } else { call.to_owned() }
}

fn json_calls(lark: &mut Lark, json: &Json, tools: &[&Tool], parallel: bool) -> Calls {
    let call = one_of(lark, tools, |lark, tool| json_call(lark, json, tool));
    let written = &json.written;
    let opener = json.open.first().copied().filter(|_| !json.bare).unwrap_or_default();
    let open = lark.literal(written.around.0);
    let close = lark.literal(&format!("{}{}", written.around.1, json.close));
    if written.one_call {
        return Calls::each_opened(lark, opener, &format!("{open} {call} {close}"), written.separator, parallel);
    }
    let calls = repeated(lark, &call, written.separator, parallel);
    let begins = tools.iter().map(|tool| format!("{{\"name\": \"{}\"", tool.name)).collect();
    Calls { opener, rest: format!("{open} {calls} {close}"), begins }
}

fn json_call(lark: &mut Lark, json: &Json, tool: &Tool) -> String {
    let arguments = lark.json(&tool.parameters);
    let (Some(name), Some(key)) = (json.keys.name.first(), json.keys.arguments.first()) else {
        return format!("{} {arguments} {}", lark.literal(&format!("{{\"{}\": ", tool.name)), lark.literal("}"));
    };
    // Llama, whose calls are bare, is taught this key.
    let key = if json.bare { "parameters" } else { key };
    let (before, after) = (lark.bits(json.written.before_name), lark.bits(json.written.after_arguments));
    let name = format!("\"{name}\": \"{}\", \"{key}\": ", tool.name);
    let name = match before.as_str() {
        // In one literal: see `text_without_beginnings`.
        "" => lark.literal(&format!("{{{name}")),
        before => format!("{} {before} {}", lark.literal("{"), lark.literal(&name)),
    };
    format!("{name} {arguments} {after} {}", lark.literal("}"))
}

fn named_calls(lark: &mut Lark, named: &Named, tools: &[&Tool], parallel: bool) -> Calls {
    let call = one_of(lark, tools, |lark, tool| named_call(lark, named, tool));
    let Some(opener) = named.open.first() else {
        return Calls::each_opened(lark, named.call, &call, named.separator, parallel);
    };
    let call = lark.rule(&format!("{} {call}", lark.literal(named.call)));
    let calls = repeated(lark, &call, named.separator, parallel);
    let optional = if named.close_ends_answer { "?" } else { "" };
    Calls { opener, rest: format!("{calls} ({}){optional}", lark.literal(named.close)), begins: Vec::new() }
}

/// A call after its opening marker.
fn named_call(lark: &mut Lark, named: &Named, tool: &Tool) -> String {
    let (before, after) = (lark.bits(named.before_name), lark.bits(named.after_name));
    let arguments = match named.dialect.language {
        Language::Json => lark.json(&tool.parameters),
        Language::Python | Language::Gemma => literals::dictionary(lark, named.dialect, tool),
    };
    let (name, mark) = (lark.literal(&tool.name), lark.literal(named.arguments));
    let end = lark.literal(&format!("{}{}", named.fence, named.call_end));
    format!("{before} {name} {after} {mark} {arguments} {end}")
}

/// One call: the model stops after it. The token that says so is one of those that end an answer.
fn harmony_call(lark: &mut Lark, tools: &[&Tool]) -> String {
    let json = format!("({} | {})", lark.literal(" <|constrain|>json"), lark.literal(" json"));
    let message = lark.literal("<|message|>");
    one_of(lark, tools, |lark, tool| {
        // The recipient comes before the channel in templates, and after it in what models write.
        let before = lark.literal(&format!(" to=functions.{}<|channel|>commentary", tool.name));
        let after = lark.literal(&format!("<|channel|>commentary to=functions.{}", tool.name));
        format!("({before} | {after}) {json} {message} {}", lark.json(&tool.parameters))
    })
}

/// Messages of other channels, then a call or the answer `text`.
pub(super) fn harmony_answer(lark: &mut Lark, call: &str, text: &str, may_think: bool) -> String {
    let header = |lark: &Lark, channel: &str| lark.literal(&format!("<|channel|>{channel}<|message|>"));
    let (inner, next) = (lark.until("<|end|>"), lark.literal("<|start|>assistant"));
    let commentary = header(lark, "commentary");
    let headers = if may_think { format!("({} | {commentary})", header(lark, "analysis")) } else { commentary };
    format!("({headers} {inner} {next})* ({call} | {} {text})", header(lark, "final"))
}
