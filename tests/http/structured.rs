//! Constrained answers of a model with random weights: whatever it would rather say, it says what was asked for.

use serde_json::{Value, json};

use crate::server::shared;
use crate::shapes::{array, with};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

fn chat(seed: u64) -> Value {
    json!({ "messages": [{ "role": "user", "content": "answer" }], "max_tokens": 300, "seed": seed })
}

fn content(answer: &Value) -> String {
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "stop", "{answer}");
    choice["message"]["content"].as_str().or_else(|| choice["text"].as_str()).expect("a text").to_owned()
}

/// A schema whose instances are short.
fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "colour": { "enum": ["red", "grün"] },
            "count": { "type": "integer", "minimum": 0, "maximum": 99 },
            "tags": { "type": "array", "items": { "type": "boolean" }, "minItems": 1, "maxItems": 3 },
        },
        "required": ["colour", "count", "tags"],
        "additionalProperties": false,
    })
}

fn assert_follows_the_schema(text: &str) {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert!(value["colour"] == "red" || value["colour"] == "grün", "{value}");
    assert!(value["count"].as_u64().is_some_and(|count| count <= 99), "{value}");
    let tags = array(&value["tags"]);
    assert!((1..=3).contains(&tags.len()) && tags.iter().all(Value::is_boolean), "{value}");
    assert_eq!(value.as_object().unwrap().len(), 3, "{value}");
}

#[test]
fn every_way_to_ask_for_a_schema_gives_json_that_follows_it() {
    let format = json!({ "type": "json_schema", "json_schema": { "name": "s", "strict": true, "schema": schema() } });
    let ways = [
        ("response_format", format),
        ("response_format", json!({ "type": "json_object", "schema": schema() })),
        ("json_schema", schema()),
        ("guided_json", json!(schema().to_string())),
        ("structured_outputs", json!({ "json": schema() })),
    ];
    for (seed, (field, value)) in (0..).zip(ways) {
        let body = with(chat(seed), field, value);
        assert_follows_the_schema(&content(&shared().ok(CHAT, &body)));
    }
    let body = json!({ "prompt": "one", "max_tokens": 300, "json_schema": schema() });
    assert_follows_the_schema(&content(&shared().ok(TEXT, &body)));
}

#[test]
fn all_answers_of_a_request_are_constrained_and_a_stream_is_the_same() {
    let body = with(with(chat(7), "json_schema", schema()), "n", json!(3));
    let whole = shared().ok(CHAT, &body);
    let mut texts = vec![String::new(); 3];
    for choice in shared().stream(CHAT, &body).iter().flat_map(|event| array(&event["choices"])) {
        texts[choice["index"].as_u64().unwrap() as usize] += choice["delta"]["content"].as_str().unwrap_or_default();
    }
    for (choice, text) in array(&whole["choices"]).iter().zip(&texts) {
        assert_eq!(choice["message"]["content"], **text);
        assert_follows_the_schema(text);
    }
}

#[test]
fn an_answer_is_one_of_the_choices() {
    let choices = json!(["yes", "no", "it \"depends\""]);
    for (seed, (field, value)) in
        (0..).zip([("guided_choice", choices.clone()), ("structured_outputs", json!({ "choice": choices }))])
    {
        let text = content(&shared().ok(CHAT, &with(chat(seed), field, value)));
        assert!(array(&choices).iter().any(|choice| *choice == *text), "{text:?}");
    }
}

#[test]
fn an_answer_matches_the_regular_expression() {
    for seed in 0..3 {
        let text = content(&shared().ok(CHAT, &with(chat(seed), "guided_regex", json!("[0-9]{3}-[a-f]{2}"))));
        let (digits, letters) = text.split_once('-').unwrap_or_else(|| panic!("{text:?}"));
        assert!(digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit()), "{text:?}");
        assert!(letters.len() == 2 && letters.bytes().all(|byte| (b'a'..=b'f').contains(&byte)), "{text:?}");
    }
}

#[test]
fn grammars_of_both_languages_are_followed() {
    let gbnf = "root ::= item (\", \" item){1,2}\nitem ::= \"a\" | \"b\" # letters";
    let lark = "start: item (\", \" item){1,2}\nitem: \"a\" | \"b\"";
    for grammar in [gbnf, lark] {
        let text = content(&shared().ok(CHAT, &with(chat(1), "grammar", json!(grammar))));
        let items: Vec<_> = text.split(", ").collect();
        assert!((2..=3).contains(&items.len()) && items.iter().all(|item| ["a", "b"].contains(item)), "{text:?}");
    }
}

/// Forced tokens take no part in sampling; asking for log probabilities has each of them computed.
#[test]
fn forced_tokens_change_no_answer() {
    let body = with(with(chat(3), "json_schema", schema()), "temperature", json!(0));
    let skipped = content(&shared().ok(CHAT, &body));
    assert_eq!(content(&shared().ok(CHAT, &with(body, "logprobs", json!(true)))), skipped);
}

#[test]
fn what_cannot_be_followed_is_refused_with_the_place() {
    let unsupported =
        json!({ "properties": { "a/b": { "items": { "type": "string", "minimun": 3, "format": "wat" } } } });
    for (field, value, part) in [
        ("json_schema", unsupported, "\"/properties/a~1b/items\""),
        ("json_schema", json!({ "type": "object", "properties": { "x": { "type": "thing" } } }), "\"/properties/x\""),
        ("json_schema", json!("{"), "not JSON"),
        ("guided_regex", json!("("), "regular expression"),
        ("guided_choice", json!([]), "nothing to choose from"),
        ("grammar", json!("root ::= x"), "the rule \"x\" is used but not defined"),
        ("grammar", json!("start: nowhere"), "nowhere"),
        ("response_format", json!({ "type": "json_schema" }), "`response_format.json_schema.schema` is missing"),
        ("response_format", json!({ "type": "yaml" }), "response_format"),
        ("structured_outputs", json!({ "regex": "a", "choice": ["a"] }), "several fields"),
    ] {
        let error = shared().post(CHAT, &with(chat(0), field, value)).error(400);
        assert!(error["message"].as_str().unwrap().contains(part), "{field}: {error}");
        assert!(error["param"].as_str().unwrap().starts_with(field), "{field}: {error}");
    }
}

#[test]
fn a_form_whose_tokens_are_banned_is_the_clients_mistake() {
    let body = with(with(chat(0), "guided_choice", json!(["y"])), "logit_bias", json!([["y", false]]));
    let error = shared().post(CHAT, &body).error(400);
    assert!(error["message"].as_str().unwrap().contains("no token is left"), "{error}");
}

#[test]
fn two_forms_at_once_are_refused() {
    let body = with(with(chat(0), "guided_regex", json!("a")), "json_schema", schema());
    let error = shared().post(CHAT, &body).error(400);
    assert!(error["message"].as_str().unwrap().contains("exclude each other"), "{error}");
}

#[test]
fn a_cut_answer_says_so() {
    let body = with(with(chat(0), "json_schema", schema()), "max_tokens", json!(3));
    assert_eq!(shared().ok(CHAT, &body)["choices"][0]["finish_reason"], "length");
}
