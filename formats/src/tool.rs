//! The tools that a model may call, and what a parameter's schema says about text that stands for its value.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A function that the model may call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// What calls name it by.
    pub name: String,
    /// What it does, for the model.
    #[serde(default)]
    pub description: Option<String>,
    /// A JSON schema of its arguments: an object.
    #[serde(default)]
    pub parameters: Value,
    /// Whether arguments must follow the schema in every point.
    #[serde(default)]
    pub strict: bool,
}

/// What a value may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Only text: a number's look is no reason to make it one.
    Text,
    /// Text among others.
    TextToo,
    /// Anything but text.
    NoText,
    /// The schema does not say.
    Unknown,
}

impl Tool {
    /// What the schema says of a parameter.
    pub(crate) fn kind(&self, parameter: &str) -> Kind {
        match self.parameters.get("properties").and_then(|properties| properties.get(parameter)) {
            Some(schema) => kind_of(schema, &self.parameters),
            None => Kind::Unknown,
        }
    }
}

/// The schema itself, or what it refers to.
pub(crate) fn resolve<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let mut schema = schema;
    for _ in 0..MAX_DEPTH {
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
        match target.and_then(|pointer| root.pointer(pointer)) {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

/// References may go in circles, so not for ever.
const MAX_DEPTH: usize = 8;

/// What a value of this schema, a part of `root`, may be.
pub(crate) fn kind_of(schema: &Value, root: &Value) -> Kind {
    kind_within(schema, root, 0)
}

fn kind_within(schema: &Value, root: &Value, depth: usize) -> Kind {
    if depth > MAX_DEPTH {
        return Kind::Unknown;
    }
    let schema = resolve(schema, root);
    if let Some(types) = schema.get("type") {
        return of_types(types);
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return together(values.iter().map(|value| if value.is_string() { Kind::Text } else { Kind::NoText }));
    }
    if let Some(value) = schema.get("const") {
        return if value.is_string() { Kind::Text } else { Kind::NoText };
    }
    let branches = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array());
    branches
        .map_or(Kind::Unknown, |branches| together(branches.iter().map(|branch| kind_within(branch, root, depth + 1))))
}

fn of_types(types: &Value) -> Kind {
    let of = |name: &Value| if name == "string" { Kind::Text } else { Kind::NoText };
    match types {
        Value::Array(types) => together(types.iter().map(of)),
        one => of(one),
    }
}

fn together(kinds: impl Iterator<Item = Kind>) -> Kind {
    kinds
        .reduce(|a, b| {
            if a == b {
                a
            } else if [a, b].contains(&Kind::Unknown) {
                Kind::Unknown
            } else {
                Kind::TextToo
            }
        })
        .unwrap_or(Kind::Unknown)
}
