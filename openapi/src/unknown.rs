//! Finds fields within a body that its type does not have: serde passes over them in silence.
//!
//! The types keep those at the top themselves. Below, the body is compared with the document, so that there is one list of
//! fields.

use std::collections::HashSet;
use std::sync::LazyLock;

use serde_json::{Map, Value};

/// Types whose further fields are seen by the model's chat template.
const OPEN: [&str; 2] = ["Message", "FunctionDefinition"];
/// Paths that are told of one body; each is told once, whatever the indices in it.
const MOST: usize = 64;
/// Objects and arrays of a body that are looked at: more than any conversation that fits a model has.
const MOST_LOOKED_AT: usize = 100_000;

static SCHEMAS: LazyLock<Value> = LazyLock::new(|| {
    let document = serde_json::to_value(crate::document()).expect("the document is JSON");
    document["components"]["schemas"].clone()
});

/// What a schema says of a value's parts, with what it refers to.
#[derive(Default)]
struct Shape<'a> {
    properties: Vec<(&'a str, &'a Value)>,
    items: Option<&'a Value>,
    /// Of which one holds.
    variants: &'a [Value],
    /// Objects may have further fields.
    is_open: bool,
}

impl<'a> Shape<'a> {
    fn of(schema: &'a Value) -> Self {
        let mut shape = Self::default();
        shape.add(schema);
        shape
    }

    fn add(&mut self, schema: &'a Value) {
        if let Some((name, schema)) = named(schema) {
            self.is_open |= OPEN.contains(&name);
            self.add(schema);
        }
        if let Some(properties) = schema["properties"].as_object() {
            self.properties.extend(properties.iter().map(|(name, schema)| (name.as_str(), schema)));
        }
        self.items = self.items.or(schema.get("items").filter(|items| items.is_object()));
        let variants = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
        self.variants = variants.map_or(self.variants, Vec::as_slice);
        schema["allOf"].as_array().into_iter().flatten().for_each(|part| self.add(part));
    }
}

/// The schema of this name in the document.
fn named(reference: &Value) -> Option<(&str, &'static Value)> {
    let name = reference["$ref"].as_str()?.rsplit('/').next()?;
    Some((name, &SCHEMAS[name]))
}

/// Whether the schema is one of objects, or arrays, as `value` is.
fn fits(schema: &Value, value: &Value) -> bool {
    let kind = match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        _ => return false,
    };
    if let Some((_, schema)) = named(schema) {
        return fits(schema, value);
    }
    match &schema["type"] {
        Value::String(only) => only == kind,
        Value::Array(kinds) => kinds.iter().any(|one| one == kind),
        // Of several schemas, which are looked at in their turn.
        _ => true,
    }
}

/// The paths of fields that are in `body` and not in the schema of this name, those at the top aside.
pub(crate) fn nested(schema: &str, body: &Map<String, Value>) -> Vec<String> {
    let mut found = Found { left: MOST_LOOKED_AT, ..Found::default() };
    for (name, schema) in Shape::of(&SCHEMAS[schema]).properties {
        if let Some(value) = body.get(name) {
            found.walk(value, schema, name);
        }
    }
    found.paths
}

#[derive(Default)]
struct Found {
    paths: Vec<String>,
    /// The same without indices.
    places: HashSet<String>,
    /// How many objects and arrays may still be looked at.
    left: usize,
}

impl Found {
    fn walk(&mut self, value: &Value, schema: &Value, path: &str) {
        let is_leaf = !value.is_object() && !value.is_array();
        if is_leaf || self.left == 0 {
            return;
        }
        self.left -= 1;
        let shape = Shape::of(schema);
        if shape.properties.is_empty() && shape.items.is_none() {
            let variants = shape.variants.iter().filter(|variant| fits(variant, value));
            let mut best: Option<Self> = None;
            for variant in variants {
                let mut found = Self { left: self.left, ..Self::default() };
                found.walk(value, variant, path);
                self.left = found.left;
                // The one that was meant.
                if best.as_ref().is_none_or(|best| found.paths.len() < best.paths.len()) {
                    best = Some(found);
                }
            }
            return best.into_iter().flat_map(|found| found.paths).for_each(|path| self.note(path));
        }
        match value {
            Value::Object(fields) => self.walk_fields(fields, &shape, path),
            Value::Array(items) => {
                let Some(schema) = shape.items else { return };
                // Millions of tokens have nothing to find in them, and no path.
                for (index, item) in items.iter().enumerate().filter(|(_, item)| item.is_object() || item.is_array()) {
                    if self.left == 0 {
                        return;
                    }
                    self.walk(item, schema, &format!("{path}[{index}]"));
                }
            }
            _ => {}
        }
    }

    fn walk_fields(&mut self, fields: &Map<String, Value>, shape: &Shape, path: &str) {
        if shape.properties.is_empty() {
            return;
        }
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            let path = format!("{path}.{name}");
            match shape.properties.iter().find(|(known, _)| known == name) {
                Some((_, schema)) => self.walk(value, schema, &path),
                None if shape.is_open => {}
                None => self.note(path),
            }
        }
    }

    fn note(&mut self, path: String) {
        let place = path.split('[').map(|part| part.split_once(']').map_or(part, |(_, rest)| rest)).collect();
        if self.paths.len() < MOST && self.places.insert(place) {
            self.paths.push(path);
        }
    }
}
