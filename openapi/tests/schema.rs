//! The part of JSON Schema that the document uses, checked: enough to hold examples and rules against it.

use serde_json::Value;

/// What a `$ref` names; anything else is itself.
pub fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).expect(reference),
        None => value,
    }
}

/// Everything in which `value` breaks `schema`; a keyword that this function does not know breaks it too.
pub fn violations(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let keywords = schema.as_object().into_iter().flatten();
    keywords.flat_map(|(keyword, rule)| violations_of(document, schema, keyword, rule, value)).collect()
}

fn violations_of(document: &Value, schema: &Value, keyword: &str, rule: &Value, value: &Value) -> Vec<String> {
    let rules = || rule.as_array().into_iter().flatten();
    let number = |value: &Value| value.as_f64().expect("a number");
    let numbers = |breaks: fn(f64, f64) -> bool| value.is_number() && breaks(number(value), number(rule));
    let lengths = |length: Option<usize>, breaks: fn(f64, f64) -> bool| {
        length.is_some_and(|length| breaks(length as f64, number(rule)))
    };
    let characters = value.as_str().map(|text| text.chars().count());
    let items = value.as_array().map(Vec::len);
    let broken = match keyword {
        "description" | "default" | "format" | "propertyNames" => false,
        "$ref" => return violations(document, resolve(document, schema), value),
        "allOf" => return rules().flat_map(|rule| violations(document, rule, value)).collect(),
        "oneOf" => rules().filter(|rule| violations(document, rule, value).is_empty()).count() != 1,
        "properties" | "additionalProperties" | "items" | "prefixItems" => {
            return violations_within(document, schema, keyword, value);
        }
        "type" => !has_type(rule, value),
        "enum" => !rules().any(|allowed| allowed == value),
        "required" => value.is_object() && rules().any(|field| value.get(field.as_str().expect("a name")).is_none()),
        "minimum" => numbers(|value, bound| value < bound),
        "exclusiveMinimum" => numbers(|value, bound| value <= bound),
        "maximum" => numbers(|value, bound| value > bound),
        "minLength" => lengths(characters, |length, bound| length < bound),
        "minItems" => lengths(items, |length, bound| length < bound),
        "maxItems" => lengths(items, |length, bound| length > bound),
        _ => true,
    };
    if broken { vec![format!("{value} breaks {keyword}: {rule}")] } else { Vec::new() }
}

/// The rules for the members of objects and arrays.
fn violations_within(document: &Value, schema: &Value, keyword: &str, value: &Value) -> Vec<String> {
    let rule = &schema[keyword];
    let check = |rule: &Value, value: &Value| match rule {
        Value::Bool(false) => vec![format!("{value} is one too many")],
        rule => violations(document, rule, value),
    };
    let fields = value.as_object().into_iter().flatten();
    let items = value.as_array().into_iter().flatten();
    match keyword {
        "properties" => fields.filter_map(|(name, value)| Some(check(rule.get(name)?, value))).flatten().collect(),
        "additionalProperties" => {
            let others = fields.filter(|(name, _)| schema["properties"].get(name).is_none());
            others.flat_map(|(_, value)| check(rule, value)).collect()
        }
        "items" => {
            let first = schema["prefixItems"].as_array().map_or(0, Vec::len);
            items.skip(first).flat_map(|value| check(rule, value)).collect()
        }
        _ => rule.as_array().into_iter().flatten().zip(items).flat_map(|(rule, value)| check(rule, value)).collect(),
    }
}

fn has_type(rule: &Value, value: &Value) -> bool {
    match rule {
        Value::Array(types) => types.iter().any(|rule| has_type(rule, value)),
        rule => match rule.as_str().expect("the name of a type") {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            "number" => value.is_number(),
            "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            other => panic!("{other} is not a type"),
        },
    }
}
