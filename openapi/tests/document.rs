//! The document is complete, is the committed one, and its examples are what the types read and write.

use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use taper_openapi::chat::{ChatChunk, ChatCompletion, ChatRequest};
use taper_openapi::completions::{Completion, CompletionChunk, CompletionRequest};
use taper_openapi::error::ErrorResponse;
use taper_openapi::models::{ModelCard, ModelList};
use taper_openapi::props::{Props, Slot};
use taper_openapi::status::{Health, HealthError, Version};
use taper_openapi::template::{ApplyTemplateRequest, ApplyTemplateResponse};
use taper_openapi::tokenize::{DetokenizeRequest, DetokenizeResponse, TokenizeRequest, TokenizeResponse};
use taper_openapi::{Body, document, document_at, parse};

use crate::schema::{resolve, violations};

fn document_json() -> Value {
    serde_json::to_value(document()).expect("a document is JSON")
}

/// Every operation with its method and path.
fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().expect("paths is an object");
    let operations = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().expect("a path is an object");
        methods.iter().map(move |(method, operation)| (format!("{method} {path}"), operation))
    });
    operations.collect()
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// The examples of each media type of a request body or a response.
fn examples(body: &Value) -> Vec<(&String, Vec<&Value>)> {
    let content = members(&body["content"]).map(|(media_type, media)| {
        let several = members(&media["examples"]).map(|(_, example)| &example["value"]);
        (media_type, media.get("example").into_iter().chain(several).collect())
    });
    content.collect()
}

#[test]
fn the_committed_document_is_the_one_made() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    let made = format!("{}\n", document().to_pretty_json().unwrap());
    if std::env::var_os("TAPER_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == made, "openapi/openapi.json is out of date: TAPER_UPDATE_DOCS=1 make test writes it");
}

#[test]
fn every_operation_is_described() {
    let document = document_json();
    for (name, operation) in operations(&document) {
        for field in ["summary", "operationId"] {
            assert!(operation[field].as_str().is_some_and(|text| !text.is_empty()), "{name} has no {field}");
        }
        assert_eq!(operation["tags"].as_array().map(Vec::len), Some(1), "{name}");
        for (status, response) in members(&operation["responses"]) {
            let description = resolve(&document, response)["description"].as_str();
            assert!(description.is_some_and(|text| !text.is_empty()), "{name}: {status} has no description");
        }
    }
}

#[test]
fn every_body_has_an_example() {
    let document = document_json();
    for (name, operation) in operations(&document) {
        let responses = members(&operation["responses"]).map(|(_, response)| resolve(&document, response));
        for body in operation.get("requestBody").into_iter().chain(responses) {
            let examples = examples(body);
            assert!(!examples.is_empty(), "{name}: a body without content");
            for (media_type, examples) in examples {
                assert!(!examples.is_empty(), "{name}: {media_type} has no example");
            }
        }
    }
}

#[test]
fn every_property_is_described() {
    fn check(path: &str, schema: &Value) {
        for (name, property) in members(&schema["properties"]) {
            let described = |schema: &Value| schema["description"].as_str().is_some_and(|text| !text.is_empty());
            // Of what may be null, the other alternative is described.
            let nullable = property["oneOf"].get(0).is_some_and(described);
            // The tag of an alternative says nothing that its one value does not.
            let constant = property["enum"].as_array().is_some_and(|values| values.len() == 1);
            assert!(described(property) || nullable || constant, "{path}.{name} has no description");
            check(&format!("{path}.{name}"), property);
        }
        for (keyword, inner) in members(schema) {
            match inner {
                Value::Array(schemas) => schemas.iter().for_each(|schema| check(path, schema)),
                Value::Object(_) if keyword != "properties" => check(path, inner),
                _ => {}
            }
        }
    }

    let document = document_json();
    for (name, schema) in members(&document["components"]["schemas"]) {
        check(name, schema);
    }
}

#[test]
fn health_is_open_and_all_else_asks_for_a_key() {
    let document = document_json();
    let operations = operations(&document);
    let open = operations.iter().filter(|(_, operation)| operation["security"][0].get("bearer").is_none());
    let open: Vec<_> = open.map(|(name, _)| name.as_str()).collect();
    assert_eq!(open, ["get /health", "get /v1/health", "get /live", "get /ready"]);
    for (name, operation) in &operations {
        let refuses = operation["responses"].get("401").is_some();
        assert_eq!(refuses, !open.contains(&name.as_str()), "{name}");
    }
}

#[test]
fn every_operation_has_the_errors_of_its_kind() {
    let document = document_json();
    for (name, operation) in operations(&document) {
        let has = |status: &str| operation["responses"].get(status).is_some();
        assert!(has("403"), "{name} may be asked by a foreign host name");
        for status in ["400", "408", "413", "415"] {
            assert_eq!(has(status), name.starts_with("post "), "{name}: {status}");
        }
    }
}

#[test]
fn the_server_is_where_the_proxy_shows_it() {
    let url = |prefix| serde_json::to_value(document_at(prefix)).unwrap()["servers"][0]["url"].clone();
    assert_eq!([url(""), url("/"), url("llm"), url("/llm/"), url("/a/b")], ["/", "/", "/llm", "/llm", "/a/b"]);
}

#[test]
fn every_example_satisfies_its_schema() {
    let document = document_json();
    for (name, operation) in operations(&document) {
        let responses = members(&operation["responses"]).map(|(_, response)| resolve(&document, response));
        for body in operation.get("requestBody").into_iter().chain(responses) {
            for (media_type, examples) in examples(body) {
                for example in examples {
                    let violations = violations(&document, &body["content"][media_type]["schema"], example);
                    assert!(violations.is_empty(), "{name}: {example}: {violations:?}");
                }
            }
        }
    }
}

#[test]
fn schemas_state_the_rules() {
    let document = document_json();
    let accepts =
        |name: &str, value: Value| violations(&document, &document["components"]["schemas"][name], &value).is_empty();
    let chat = |field: &str, value: Value| {
        accepts("ChatRequest", json!({ "messages": [{ "role": "user", "content": "a" }], field: value }))
    };
    for (field, good, bad) in [
        ("temperature", vec![json!(0), json!(2), json!(null)], vec![json!(-0.1), json!(2.1), json!("1")]),
        ("top_p", vec![json!(0.1), json!(1)], vec![json!(0), json!(1.1)]),
        ("max_tokens", vec![json!(1)], vec![json!(0), json!(-1), json!(1.5)]),
        ("n", vec![json!(1), json!(128)], vec![json!(0), json!(129)]),
        ("repeat_last_n", vec![json!(-1), json!(i32::MAX)], vec![json!(-2), json!(i64::from(i32::MAX) + 1)]),
        ("seed", vec![json!(-1), json!(u64::MAX)], vec![json!(0.5)]),
        ("stop", vec![json!("a"), json!(["a"]), json!([])], vec![json!(""), json!([1]), json!(vec!["a"; 33])]),
        (
            "logit_bias",
            vec![json!({ "5": -100 }), json!([[5, false], ["a", 1]])],
            vec![json!({ "5": 101 }), json!([[5]])],
        ),
        ("top_logprobs", vec![json!(0), json!(20)], vec![json!(21)]),
        ("messages", vec![], vec![json!([]), json!(null), json!([{ "role": "x" }]), json!([{ "content": "a" }])]),
        ("a_field_of_tomorrow", vec![json!([null])], vec![]),
    ] {
        good.into_iter().for_each(|value| assert!(chat(field, value.clone()), "{field}: {value} is refused"));
        bad.into_iter().for_each(|value| assert!(!chat(field, value.clone()), "{field}: {value} is accepted"));
    }
    for prompt in [json!("a"), json!(["a"]), json!([1]), json!([[1]])] {
        assert!(accepts("CompletionRequest", json!({ "prompt": prompt })), "{prompt}");
    }
    for prompt in [json!(null), json!([]), json!([-1]), json!([1, "a"]), json!({})] {
        assert!(!accepts("CompletionRequest", json!({ "prompt": prompt })), "{prompt}");
    }
    assert!(accepts("TokenizeRequest", json!({ "content": "a" })));
    assert!(!accepts("TokenizeRequest", json!({ "content": "a", "prompt": "a" })));
    assert!(!accepts("TokenizeRequest", json!({})));
}

#[test]
fn request_examples_are_requests_without_unknown_fields() {
    fn reads<T: Body>(example: &Value) {
        let request: T = parse(example.to_string().as_bytes()).expect("an example is a request");
        assert!(request.unknown().is_empty(), "{example}: {:?}", request.unknown());
    }

    let document = document_json();
    let mut checked = 0;
    for (name, operation) in operations(&document) {
        let Some(body) = operation.get("requestBody") else { continue };
        let check = match name.as_str() {
            "post /v1/chat/completions" => reads::<ChatRequest>,
            "post /v1/completions" => reads::<CompletionRequest>,
            "post /tokenize" => reads::<TokenizeRequest>,
            "post /detokenize" => reads::<DetokenizeRequest>,
            "post /apply-template" => reads::<ApplyTemplateRequest>,
            _ => panic!("{name} has a body of no known type"),
        };
        for example in examples(body).into_iter().flat_map(|(_, examples)| examples) {
            check(example);
            checked += 1;
        }
    }
    assert_eq!(checked, 9);
}

#[test]
fn response_examples_are_what_the_types_write() {
    fn round_trips<T: DeserializeOwned + Serialize>(example: &Value) {
        let response: T = serde_json::from_value(example.clone()).unwrap_or_else(|error| panic!("{example}: {error}"));
        assert_eq!(&serde_json::to_value(response).expect("responses are JSON"), example);
    }

    let document = document_json();
    for (name, operation) in operations(&document) {
        for (status, response) in members(&operation["responses"]) {
            let response = resolve(&document, response);
            for (media_type, examples) in examples(response) {
                let check = match (name.as_str(), status.as_str(), media_type.as_str()) {
                    ("get /health" | "get /v1/health", "503", _) => round_trips::<HealthError>,
                    ("post /v1/chat/completions", "200", "application/json") => round_trips::<ChatCompletion>,
                    ("post /v1/chat/completions", "200", _) => round_trips::<ChatChunk>,
                    ("post /v1/completions", "200", "application/json") => round_trips::<Completion>,
                    ("post /v1/completions", "200", _) => round_trips::<CompletionChunk>,
                    ("get /v1/models", "200", _) => round_trips::<ModelList>,
                    ("get /v1/models/{model}", "200", _) => round_trips::<ModelCard>,
                    ("post /tokenize", "200", _) => round_trips::<TokenizeResponse>,
                    ("post /detokenize", "200", _) => round_trips::<DetokenizeResponse>,
                    ("post /apply-template", "200", _) => round_trips::<ApplyTemplateResponse>,
                    ("get /props", "200", _) => round_trips::<Props>,
                    ("get /slots", "200", _) => round_trips::<Vec<Slot>>,
                    ("get /version", "200", _) => round_trips::<Version>,
                    ("get /metrics" | "get /openapi.json", "200", _) => continue,
                    (_, "200", _) => round_trips::<Health>,
                    _ => round_trips::<ErrorResponse>,
                };
                examples.into_iter().for_each(check);
            }
        }
    }
}
