//! llama-server's samplers and vLLM's loop detection through both routes: each field changes an answer as it must. What the
//! samplers do with numbers, the tier `pure` tests.

use serde_json::{Value, json};

use crate::server::{Server, shared};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

/// The texts of a chat and a completion that have these fields.
fn texts(server: &Server, fields: &Value) -> [String; 2] {
    let base = json!({ "max_tokens": 40, "ignore_eos": true, "seed": 3, "temperature": 1 });
    let body = |more: Value| {
        let mut body = base.clone();
        for part in [&more, fields] {
            body.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
        }
        body
    };
    let chat = server.ok(CHAT, &body(json!({ "messages": [{ "role": "user", "content": "answer" }] })));
    let text = server.ok(TEXT, &body(json!({ "prompt": "one two" })));
    [&chat["choices"][0]["message"]["content"], &text["choices"][0]["text"]]
        .map(|text| text.as_str().unwrap().to_owned())
}

#[track_caller]
fn assert_same(one: &Value, other: &Value) {
    assert_eq!(texts(shared(), one), texts(shared(), other), "{one} and {other}");
}

#[track_caller]
fn assert_differ(one: &Value, other: &Value) {
    let (first, second) = (texts(shared(), one), texts(shared(), other));
    assert!(first[0] != second[0] && first[1] != second[1], "{one} and {other}: {first:?}");
}

#[test]
fn fields_that_leave_one_token_give_the_greedy_answer() {
    let greedy = json!({ "temperature": 0 });
    assert_same(&greedy, &json!({ "top_n_sigma": 0.0001 }));
    assert_same(&greedy, &json!({ "mirostat": 2, "mirostat_tau": 0, "mirostat_eta": 0 }));
    assert_same(&greedy, &json!({ "samplers": ["top_k"], "top_k": 1 }));
    assert_same(&greedy, &json!({ "samplers": "k", "top_k": 1 }));
    assert_differ(&greedy, &json!({ "samplers": "p", "top_k": 1 }));
    assert_differ(&greedy, &json!({ "mirostat": 1, "top_k": 1 }));
    assert_differ(&greedy, &json!({ "mirostat": 2, "top_k": 1 }));
}

#[test]
fn a_dynamic_temperature_goes_as_far_as_its_exponent_lets_it() {
    assert_same(&json!({ "temperature": 2 }), &json!({ "dynatemp_range": 1, "dynatemp_exponent": 0 }));
    assert_differ(&json!({}), &json!({ "dynatemp_range": 1, "dynatemp_exponent": 0 }));
}

#[test]
fn xtc_of_threshold_0_leaves_the_least_likely_token() {
    let least = json!({ "xtc_probability": 1, "xtc_threshold": 0 });
    assert_same(&least, &json!({ "xtc_probability": 1, "xtc_threshold": 0, "seed": 4 }));
    assert_differ(&least, &json!({}));
    assert_same(&json!({}), &json!({ "xtc_probability": 1, "xtc_threshold": 0.6 }));
}

#[test]
fn dry_ends_a_loop_that_no_breaker_interrupts() {
    let id = |text| {
        let tokens = shared().ok("/tokenize", &json!({ "content": text, "add_special": false }))["tokens"].clone();
        tokens.as_array().unwrap().last().unwrap().to_string()
    };
    // "x" is all that is wanted, and "y" comes next.
    let looping = json!({ "temperature": 0, "logit_bias": { id("x"): 100, id("y"): 80 } });
    let with = |fields: Value| {
        let mut body = looping.clone();
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        body
    };
    let dry = json!({ "dry_multiplier": 50, "dry_sequence_breakers": [] });
    assert_differ(&looping, &with(dry));
    assert_same(&looping, &with(json!({ "dry_multiplier": 50, "dry_penalty_last_n": 0 })));
    assert_same(&looping, &with(json!({ "dry_multiplier": 50, "dry_allowed_length": 40 })));
    assert_eq!(texts(shared(), &looping)[1], "x".repeat(40));
    let dry = json!({ "dry_multiplier": 50, "dry_sequence_breakers": ["x"] });
    assert_same(&looping, &with(dry));
}

#[test]
fn an_answer_that_repeats_itself_ends_with_a_reason_of_its_own() {
    let fields = json!({
        "temperature": 0, "max_tokens": 40, "ignore_eos": true, "logit_bias": { "100": 100 },
        "repetition_detection": { "max_pattern_size": 3, "min_pattern_size": 2, "min_count": 4 },
    });
    let prompts = [(CHAT, "messages", json!([{ "role": "user", "content": "a" }])), (TEXT, "prompt", json!("a"))];
    for (path, field, prompt) in prompts {
        let mut body = fields.clone();
        body[field] = prompt;
        let answer = shared().ok(path, &body);
        assert_eq!(answer["choices"][0]["finish_reason"], "repetition", "{answer}");
        assert_eq!(answer["usage"]["completion_tokens"], 8, "{answer}");
        let events = shared().stream(path, &body);
        assert_eq!(events.last().unwrap()["choices"][0]["finish_reason"], "repetition", "{events:?}");
        body["repetition_detection"] = json!({ "max_pattern_size": 0 });
        assert_eq!(shared().ok(path, &body)["choices"][0]["finish_reason"], "length");
    }
}

#[test]
fn flags_are_defaults_that_a_request_overrides() {
    let server =
        Server::start(&["--samplers", "top_k;temperature", "--top-k", "1", "--repetition-max-pattern-size", "1"]);
    let greedy = json!({ "temperature": 0, "repetition_detection": { "max_pattern_size": 0 } });
    let by_flags = json!({ "repetition_detection": { "max_pattern_size": 0 } });
    assert_eq!(texts(&server, &greedy), texts(&server, &by_flags));
    let all = json!({ "samplers": "t", "repetition_detection": { "max_pattern_size": 0 } });
    assert_ne!(texts(&server, &greedy), texts(&server, &all));
    let body = json!({ "prompt": "a", "ignore_eos": true, "max_tokens": 40, "logit_bias": { "100": 100 } });
    let answer = server.ok(TEXT, &body);
    assert_eq!(answer["choices"][0]["finish_reason"], "repetition", "{answer}");
    assert_eq!(answer["usage"]["completion_tokens"], 4, "four times is what the settings say");
}
