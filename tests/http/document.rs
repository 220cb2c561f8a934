//! The OpenAPI document and the server agree: every route is there, every example works, and every answer is as described.

#[path = "../../openapi/tests/schema.rs"]
mod schema;

use serde_json::{Map, Value, json};

use crate::client::Answer;
use crate::events;
use crate::server::shared;
use schema::{resolve, violations};

fn document() -> Value {
    serde_json::to_value(taper_openapi::document()).unwrap()
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// Every operation: method, path and description.
fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    members(&document["paths"])
        .flat_map(|(path, methods)| {
            members(methods).map(move |(method, operation)| (method.as_str(), path.as_str(), operation))
        })
        .collect()
}

/// The bodies that the document shows for an operation, cut to a few tokens; `None` for one without a body.
fn examples(operation: &Value) -> Vec<Option<Value>> {
    let Some(content) = operation["requestBody"]["content"].as_object() else { return vec![None] };
    let media = &content["application/json"];
    let several = members(&media["examples"]).map(|(_, example)| example["value"].clone());
    let bodies = media.get("example").cloned().into_iter().chain(several);
    let short = |mut body: Value| {
        for field in ["max_tokens", "max_completion_tokens"] {
            if body.get(field).is_some() {
                body[field] = json!(4);
            }
        }
        Some(body)
    };
    bodies.map(short).collect()
}

fn call(method: &str, path: &str, body: Option<&Value>) -> Answer {
    let path = path.replace("{model}", "tiny");
    match (method, body) {
        ("get", None) => shared().get(&path),
        ("post", Some(body)) => shared().post(&path, body),
        other => panic!("{path}: {other:?}"),
    }
}

/// Everything in which an answer differs from what the document says of it.
fn differences(document: &Value, operation: &Value, answer: &Answer) -> Vec<String> {
    let Some(response) = operation["responses"].get(answer.status.to_string()) else {
        return vec![format!("status {} is not described: {}", answer.status, answer.text)];
    };
    let content = resolve(document, response)["content"].as_object().cloned().unwrap_or_else(Map::new);
    let kind = answer.header("content-type").unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default();
    let Some(media) = content.get(kind) else { return vec![format!("{kind} is not described")] };
    let values = match kind {
        "application/json" => vec![answer.json()],
        "text/event-stream" => {
            let events = events::data(&answer.text).into_iter().filter(|event| event != "[DONE]");
            events.map(|event| serde_json::from_str(&event).expect("events are JSON")).collect()
        }
        _ => vec![json!(answer.text)],
    };
    values.iter().flat_map(|value| violations(document, &media["schema"], value)).collect()
}

#[test]
fn every_example_of_every_operation_is_answered_as_described() {
    let document = document();
    let operations = operations(&document);
    assert_eq!(operations.len(), 16);
    for (method, path, operation) in operations {
        for body in examples(operation) {
            let answer = call(method, path, body.as_ref());
            assert_eq!(answer.status, 200, "{method} {path} {body:?}: {}", answer.text);
            let wrong = differences(&document, operation, &answer);
            assert!(wrong.is_empty(), "{method} {path} {body:?}: {wrong:#?}");
        }
    }
}

#[test]
fn refusals_are_as_described() {
    let document = document();
    for (method, path, operation) in operations(&document) {
        if method != "post" {
            continue;
        }
        for body in [json!({ "frobnicate": 1 }), json!([]), json!({ "model": "other", "messages": [], "prompt": "a" })]
        {
            let answer = call(method, path, Some(&body));
            assert!((400..500).contains(&answer.status), "{path} {body}: {}", answer.text);
            let wrong = differences(&document, operation, &answer);
            assert!(wrong.is_empty(), "{path} {body}: {wrong:#?}");
        }
    }
}

#[test]
fn extras_are_as_described() {
    let document = document();
    let extras = json!({
        "prompt": "a", "max_tokens": 3, "ignore_eos": true, "stream": true, "timings_per_token": true,
        "stream_options": { "include_usage": true, "continuous_usage_stats": true },
    });
    let path = "/v1/completions";
    let answer = call("post", path, Some(&extras));
    let wrong = differences(&document, &document["paths"][path]["post"], &answer);
    assert!(answer.status == 200 && wrong.is_empty(), "{wrong:#?}");
}
