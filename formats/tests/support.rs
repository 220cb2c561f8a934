//! Pieces as tests compare them, and the ways to cut a text.

use serde_json::{Value, json};
use taper_formats::{Format, Options, Parser, Piece, ReasoningFormat, Tool};

pub fn fixture(name: &str) -> Value {
    let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))).unwrap()
}

pub fn tools() -> Vec<Tool> {
    serde_json::from_value(fixture("recorded/tools.json")).unwrap()
}

#[derive(Clone)]
pub struct Setup {
    pub format: &'static Format,
    pub reasoning: &'static ReasoningFormat,
    pub tools: Vec<Tool>,
    pub options: Options,
}

impl Setup {
    pub fn of(format: &str) -> Self {
        let format = taper_formats::by_name(format).unwrap_or_else(|| panic!("no format {format}"));
        Self { format, reasoning: format.reasoning(), tools: tools(), options: Options::default() }
    }

    pub fn thinking(mut self) -> Self {
        self.options.starts_in_reasoning = true;
        self
    }

    pub fn parse<'a>(&self, parts: impl IntoIterator<Item = &'a str>) -> Vec<Piece> {
        let mut parser = Parser::new(self.format, self.reasoning, &self.tools, self.options);
        let mut pieces: Vec<_> = parts.into_iter().flat_map(|part| parser.push(part)).collect();
        pieces.extend(parser.finish());
        pieces
    }

    /// The pieces of a text, which must be the same however it is cut.
    pub fn pieces(&self, text: &str) -> Vec<Value> {
        let whole = joined(self.parse([text]));
        let mut buffer = [0; 4];
        let mut parser = Parser::new(self.format, self.reasoning, &self.tools, self.options);
        let mut single: Vec<_> = text.chars().flat_map(|c| parser.push(c.encode_utf8(&mut buffer))).collect();
        single.extend(parser.finish());
        assert_eq!(joined(single), whole, "character by character: {text}");
        for (at, _) in text.char_indices() {
            assert_eq!(joined(self.parse([&text[..at], &text[at..]])), whole, "cut at {at}: {text}");
        }
        whole
    }
}

/// Pieces with neighbours of one kind joined, and calls as one: their arguments as a value once they have ended.
pub fn joined(pieces: Vec<Piece>) -> Vec<Value> {
    let mut joined: Vec<Value> = Vec::new();
    let mut num_calls = 0;
    for piece in pieces {
        match piece {
            Piece::Text(text) => append(&mut joined, "text", &text),
            Piece::Reasoning(text) => append(&mut joined, "reasoning", &text),
            Piece::Malformed { text, .. } => append(&mut joined, "malformed", &text),
            Piece::CallBegin { index, id, name } => {
                assert_eq!(index, num_calls);
                num_calls += 1;
                joined.push(json!({"call": name, "id": id, "partial": ""}));
            }
            Piece::Arguments { index, delta } => {
                assert_eq!(index + 1, num_calls);
                append(&mut joined, "partial", &delta);
            }
            Piece::CallEnd { index } => {
                assert_eq!(index + 1, num_calls);
                let call = joined.last_mut().unwrap().as_object_mut().unwrap();
                let text = call.remove("partial").unwrap();
                let arguments: Value =
                    serde_json::from_str(text.as_str().unwrap()).unwrap_or_else(|e| panic!("{text}: {e}"));
                assert!(arguments.is_object(), "{arguments}");
                call.insert("arguments".to_owned(), arguments);
            }
        }
    }
    joined
}

fn append(joined: &mut Vec<Value>, key: &str, more: &str) {
    assert!(!more.is_empty(), "an empty piece of {key}");
    match joined.last_mut().and_then(|last| last.get_mut(key)) {
        Some(Value::String(text)) => text.push_str(more),
        _ => joined.push(json!({ key: more })),
    }
}
