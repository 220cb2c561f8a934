//! Finds the place in a JSON schema that cannot be followed, so that a client reads a pointer instead of a guess.

use std::time::{Duration, Instant};

use serde_json::{Map, Value};

/// How long parts of a schema are tried; each is compiled once. Past it the place found so far must do.
const PATIENCE: Duration = Duration::from_secs(1);

/// The smallest part of `schema` that fails as the whole does, as a JSON pointer, and why. `fails` compiles a part.
pub(super) fn blame(schema: &Value, why: String, fails: impl Fn(Value) -> Option<String>) -> (String, String) {
    let definitions = definitions(schema);
    let (mut pointer, mut why) = (String::new(), why);
    let begin = Instant::now();
    // A part fails only within one that fails, so the search goes down one path.
    'deeper: loop {
        let part = schema.pointer(&pointer).expect("the pointer was made from the schema");
        for (step, child) in children(part) {
            if begin.elapsed() > PATIENCE {
                return (pointer, why);
            }
            if let Some(reason) = fails(with(child.clone(), &definitions)) {
                pointer += &step;
                why = reason;
                continue 'deeper;
            }
        }
        return (pointer, why);
    }
}

/// What references of a part may point to.
fn definitions(schema: &Value) -> Map<String, Value> {
    let fields = schema.as_object().into_iter().flatten();
    let definitions = fields.filter(|(name, _)| matches!(name.as_str(), "$defs" | "definitions"));
    definitions.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn with(mut part: Value, definitions: &Map<String, Value>) -> Value {
    if let Value::Object(fields) = &mut part {
        for (name, value) in definitions {
            fields.entry(name).or_insert_with(|| value.clone());
        }
    }
    part
}

/// The schemas directly within a schema, each with the steps of a pointer to it.
fn children(schema: &Value) -> Vec<(String, &Value)> {
    let Value::Object(fields) = schema else { return Vec::new() };
    let mut found = Vec::new();
    for (keyword, value) in fields {
        match (keyword.as_str(), value) {
            (
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
                Value::Object(schemas),
            ) => {
                let step = |name: &str| format!("/{keyword}/{}", name.replace('~', "~0").replace('/', "~1"));
                found.extend(schemas.iter().map(|(name, schema)| (step(name), schema)));
            }
            ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(schemas)) => {
                found.extend(schemas.iter().enumerate().map(|(index, schema)| (format!("/{keyword}/{index}"), schema)));
            }
            (
                "items"
                | "additionalProperties"
                | "additionalItems"
                | "not"
                | "if"
                | "then"
                | "else"
                | "contains"
                | "propertyNames"
                | "unevaluatedItems"
                | "unevaluatedProperties",
                Value::Object(_),
            ) => found.push((format!("/{keyword}"), value)),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Fails wherever the keyword `bad` is.
    fn bad(schema: Value) -> Option<String> {
        fn has_bad(schema: &Value) -> bool {
            schema.get("bad").is_some() || children(schema).iter().any(|(_, child)| has_bad(child))
        }
        has_bad(&schema).then(|| "bad".to_owned())
    }

    fn pointer(schema: &Value) -> String {
        blame(schema, "whole".to_owned(), bad).0
    }

    #[test]
    fn the_smallest_part_that_fails_is_named() {
        let schema = json!({ "properties": { "a": {}, "b/c": { "items": { "anyOf": [{}, { "bad": 1 }] } } } });
        assert_eq!(pointer(&schema), "/properties/b~1c/items/anyOf/1");
    }

    #[test]
    fn a_fault_of_the_whole_has_the_empty_pointer() {
        assert_eq!(pointer(&json!({ "bad": 1, "properties": { "a": {} } })), "");
    }

    #[test]
    fn a_part_is_tried_with_the_definitions_of_the_whole() {
        let schema = json!({ "$defs": { "x": {} }, "items": { "$ref": "#/$defs/x" } });
        let fails = |part: Value| part.get("$defs").is_none().then(|| "dangling".to_owned());
        assert_eq!(blame(&schema, "whole".to_owned(), fails), (String::new(), "whole".to_owned()));
    }
}
