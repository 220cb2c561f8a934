//! Writes Lark: literals with their special tokens, terminals, rules.

use std::collections::HashMap;

use serde_json::Value;

use crate::shapes::Bit;

pub(crate) struct Lark {
    /// Strings that may be special tokens, with their identifiers where they are.
    tokens: Vec<(&'static str, u32)>,
    rules: String,
    /// Names of rules and terminals by their bodies.
    names: HashMap<String, String>,
}

enum Part<'a> {
    Text(&'a str),
    Token(u32),
}

impl Lark {
    pub fn new(tokens: Vec<&'static str>, token: &dyn Fn(&str) -> Option<u32>) -> Self {
        let mut tokens: Vec<_> = tokens.into_iter().filter_map(|text| Some((text, token(text)?))).collect();
        tokens.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        Self { tokens, rules: String::new(), names: HashMap::new() }
    }

    /// Any text without `marker`.
    pub fn text_without(&mut self, marker: &str) -> String {
        if self.split(marker).iter().any(|part| matches!(part, Part::Token(_))) {
            return self.terminal("(?s:.*)");
        }
        self.named("T", &format!(": /(?s:.*)/ & ~/(?s:.*{}.*)/", escaped(marker)))
    }

    /// Any text that begins with none of these.
    ///
    /// The lexer takes the longest match. So what begins like this text and then is none must be one literal up to there.
    pub fn text_without_beginnings(&mut self, beginnings: &[String]) -> String {
        let beginnings: Vec<_> = beginnings.iter().map(|text| escaped(text)).collect();
        self.named("T", &format!(": /(?s:.*)/ & ~/(?s:({}).*)/", beginnings.join("|")))
    }

    /// The whole grammar.
    pub fn finish(self, start: &str) -> String {
        format!("start: {}\n{}", or_nothing(start), self.rules)
    }

    /// `text` as it is.
    pub fn literal(&self, text: &str) -> String {
        let parts = self.split(text).into_iter().map(|part| match part {
            Part::Text(text) => string(text),
            Part::Token(id) => format!("<[{id}]>"),
        });
        parts.collect::<Vec<_>>().join(" ")
    }

    fn split<'t>(&self, text: &'t str) -> Vec<Part<'t>> {
        let (mut parts, mut from, mut at) = (Vec::new(), 0, 0);
        while let Some(c) = text[at..].chars().next() {
            let Some((token, id)) = self.tokens.iter().find(|(token, _)| text[at..].starts_with(token)) else {
                at += c.len_utf8();
                continue;
            };
            parts.extend(Some(&text[from..at]).filter(|text| !text.is_empty()).map(Part::Text));
            parts.push(Part::Token(*id));
            at += token.len();
            from = at;
        }
        parts.extend(Some(&text[from..]).filter(|text| !text.is_empty()).map(Part::Text));
        parts
    }

    /// Any text up to and with `end`.
    pub fn until(&mut self, end: &str) -> String {
        let parts = self.split(end);
        if parts.iter().all(|part| matches!(part, Part::Text(_))) {
            return self.named("text", &format!("[suffix={}]: /(?s:.*)/", string(end)));
        }
        // A special token ends a terminal by itself.
        let (before, from) = match parts.first() {
            Some(Part::Text(text)) => (*text, text.len()),
            _ => ("", 0),
        };
        let text = self.terminal(&format!("(?s:.*){}", escaped(before)));
        format!("{text} {}", self.literal(&end[from..]))
    }

    /// A regular expression.
    pub fn terminal(&mut self, pattern: &str) -> String {
        self.named("T", &format!(": /{}/", pattern.replace('/', "\\/")))
    }

    /// A value by a JSON schema, written in one line as most templates do.
    pub fn json(&mut self, schema: &Value) -> String {
        let mut schema = if schema.is_null() { serde_json::json!({"type": "object"}) } else { schema.clone() };
        if let Some(schema) = schema.as_object_mut() {
            let written =
                serde_json::json!({"whitespace_flexible": false, "item_separator": ", ?", "key_separator": ": ?"});
            schema.insert("x-guidance".to_owned(), written);
        }
        self.named("json", &format!(": %json {schema}"))
    }

    /// A rule of this body. Equal bodies are one rule.
    pub fn rule(&mut self, body: &str) -> String {
        self.named("rule", &format!(": {}", or_nothing(body)))
    }

    fn named(&mut self, kind: &str, definition: &str) -> String {
        if let Some(name) = self.names.get(definition) {
            return name.clone();
        }
        let name = format!("{kind}_{}", self.names.len());
        self.rules.push_str(&format!("{name}{definition}\n"));
        self.names.insert(definition.to_owned(), name.clone());
        name
    }

    /// A rule that may name itself: `body` gets its name.
    pub fn recursive(&mut self, key: &str, body: impl FnOnce(&mut Self, &str) -> String) -> String {
        if let Some(name) = self.names.get(key) {
            return name.clone();
        }
        let name = format!("value_{}", self.names.len());
        self.names.insert(key.to_owned(), name.clone());
        let body = body(self, &name);
        self.rules.push_str(&format!("{name}: {}\n", or_nothing(&body)));
        name
    }

    /// What stands around a name.
    pub fn bits(&mut self, bits: &[Bit]) -> String {
        let bits = bits.iter().map(|bit| match bit {
            Bit::Text(text) => self.literal(text),
            Bit::Pattern(pattern) => self.terminal(pattern),
            Bit::Optional(bits) => format!("({})?", self.bits(bits)),
        });
        bits.collect::<Vec<_>>().join(" ")
    }
}

/// A string of Lark, which is one of JSON.
fn string(text: &str) -> String {
    Value::from(text).to_string()
}

fn or_nothing(body: &str) -> &str {
    if body.trim().is_empty() { "\"\"" } else { body }
}

/// `text` in a regular expression.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            _ if r"\.+*?()|[]{}^$#&-~".contains(c) => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}
