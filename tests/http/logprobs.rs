//! Log probabilities over HTTP: those of `transformers`, one entry a token, the same whole and streamed.

use serde_json::{Value, json};

use crate::server::shared;
use crate::shapes::{Reference, array, reference, with};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";
/// The server keeps keys and values as f16.
const TOLERANCE: f64 = 5e-3;

fn chat(text: &str) -> Value {
    json!({
        "messages": [{ "role": "user", "content": text }],
        "max_tokens": 12,
        "temperature": 0,
        "ignore_eos": true,
        "logprobs": true,
        "top_logprobs": 3,
    })
}

fn completion(prompt: &Value) -> Value {
    json!({ "prompt": prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": true, "logprobs": 2 })
}

fn log_softmax(row: &[f32], token: i64) -> f64 {
    let sum: f64 = row.iter().map(|logit| f64::from(*logit).exp()).sum();
    f64::from(row[token as usize]) - sum.ln()
}

/// The lists of all chunks, one after the other.
fn joined(events: &[Value], path: &[&str]) -> Vec<Value> {
    let lists = events.iter().flat_map(|event| array(&event["choices"])).map(|choice| &choice["logprobs"]);
    let lists = lists.map(|logprobs| path.iter().fold(logprobs, |value, key| &value[key]));
    lists.filter_map(Value::as_array).flatten().cloned().collect()
}

#[test]
fn an_echoed_prompt_has_the_log_probabilities_of_transformers() {
    let Reference { prompt, logits, .. } = reference();
    let answer = shared().ok(TEXT, &with(completion(&json!(prompt)), "echo", json!(true)));
    let logprobs = &answer["choices"][0]["logprobs"];
    assert_eq!((array(&logprobs["tokens"]).len(), &logprobs["token_logprobs"][0]), (prompt.len() + 8, &Value::Null));
    for (place, token) in prompt.iter().enumerate().skip(1) {
        let found = logprobs["token_logprobs"][place].as_f64().expect("a number");
        let expected = log_softmax(&logits[place - 1], *token);
        assert!((found - expected).abs() < TOLERANCE, "token {place} has {found}, expected {expected}");
    }
    let offsets: Vec<_> = array(&logprobs["text_offset"]).iter().map(|offset| offset.as_u64().unwrap()).collect();
    let length = answer["choices"][0]["text"].as_str().unwrap().chars().count() as u64;
    assert!(offsets.is_sorted() && offsets[0] == 0 && offsets.last() <= Some(&length), "{offsets:?} in {length}");
}

#[test]
fn a_chat_answer_has_an_entry_for_each_token() {
    let answer = shared().ok(CHAT, &chat("entries"));
    let choice = &answer["choices"][0];
    let entries = array(&choice["logprobs"]["content"]);
    assert_eq!(entries.len(), 12);
    let bytes: Vec<u8> =
        entries.iter().flat_map(|entry| array(&entry["bytes"])).map(|byte| byte.as_u64().unwrap() as u8).collect();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let content = choice["message"]["content"].as_str().unwrap();
    // The tokenizer's own space before a text is not part of the answer.
    assert_eq!(text.trim_start(), content.trim_start());
    for entry in entries {
        // Greedy: the token is the likeliest.
        let top = array(&entry["top_logprobs"]);
        assert_eq!((top.len(), &top[0]["token"], &top[0]["logprob"]), (3, &entry["token"], &entry["logprob"]));
        assert!(entry["logprob"].as_f64().is_some_and(|logprob| logprob <= 0.0), "{entry}");
    }
}

#[test]
fn streamed_log_probabilities_are_those_of_the_whole_answer() {
    let body = chat("streamed");
    let whole = shared().ok(CHAT, &body);
    let found = joined(&shared().stream(CHAT, &body), &["content"]);
    assert_eq!(&found, array(&whole["choices"][0]["logprobs"]["content"]));

    let body = with(completion(&json!("Once upon a time")), "echo", json!(true));
    let whole = shared().ok(TEXT, &body)["choices"][0]["logprobs"].clone();
    let events = shared().stream(TEXT, &body);
    for list in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(&joined(&events, &[list]), array(&whole[list]), "{list}");
    }
    let text: String =
        events.iter().flat_map(|event| array(&event["choices"])).filter_map(|choice| choice["text"].as_str()).collect();
    assert!(text.starts_with("Once upon a time"), "{text}");
}

#[test]
fn tokens_of_a_stop_string_are_not_reported() {
    let plain = shared().ok(CHAT, &chat("cut"));
    let entries = array(&plain["choices"][0]["logprobs"]["content"]);
    // What the fifth token writes, and nothing before it.
    let text = plain["choices"][0]["message"]["content"].as_str().unwrap();
    let stop = (5..12)
        .filter_map(|at| entries[at]["token"].as_str())
        .find(|token| !token.contains('\u{fffd}') && text.matches(*token).count() == 1)
        .expect("some token occurs once");
    let cut = shared().ok(CHAT, &with(chat("cut"), "stop", json!([stop])));
    let kept = array(&cut["choices"][0]["logprobs"]["content"]);
    let place = entries.iter().position(|entry| entry["token"] == stop).unwrap();
    assert_eq!(kept, &entries[..place], "{stop:?}");
}

#[test]
fn without_logprobs_there_are_none() {
    let answer = shared().ok(TEXT, &json!({ "prompt": "none", "max_tokens": 2 }));
    assert_eq!(answer["choices"][0]["logprobs"], Value::Null);
}

#[test]
fn counts_out_of_range_are_refused() {
    for (path, body, field) in [
        (CHAT, with(chat("x"), "top_logprobs", json!(21)), "top_logprobs"),
        (CHAT, with(chat("x"), "logprobs", json!(false)), "top_logprobs"),
        (TEXT, with(completion(&json!("x")), "logprobs", json!(-1)), "logprobs"),
    ] {
        let error = shared().post(path, &body).error(400);
        assert_eq!(error["param"], field, "{error}");
    }
}
