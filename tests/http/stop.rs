//! What ends an answer: stop strings never leak, whole or streamed, and the reason is told.

use serde_json::{Value, json};

use crate::server::shared;

const PATH: &str = "/v1/completions";

fn request(fields: Value) -> Value {
    let mut body = json!({ "prompt": "stop", "max_tokens": 80, "temperature": 0, "ignore_eos": true });
    body.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap_or_default());
    body
}

/// Text, reason and number of tokens; the stream's text must be the same.
fn ended(fields: Value) -> (String, Value, u64) {
    let body = request(fields);
    let answer = shared().ok(PATH, &body);
    let text = answer["choices"][0]["text"].as_str().unwrap().to_owned();
    let events = shared().stream(PATH, &body);
    let streamed: String = events.iter().map(|event| event["choices"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(streamed, text, "{body}");
    (text, answer["choices"][0]["finish_reason"].clone(), answer["usage"]["completion_tokens"].as_u64().unwrap())
}

/// The unstopped text, and a part of it that is several tokens long (a token of this model is at most one character,
/// or a blank and an `a`) and does not occur earlier.
fn text_and_part() -> (String, String) {
    let (text, ..) = ended(json!({}));
    let chars: Vec<char> = text.chars().collect();
    let part = chars.windows(4).skip(20).map(|window| window.iter().collect::<String>());
    let part = part.into_iter().find(|part| !part.contains('\u{fffd}') && text.find(part.as_str()) > Some(20));
    let part = part.unwrap_or_else(|| chars[30..34].iter().collect());
    (text, part)
}

#[test]
fn a_stop_string_of_several_tokens_does_not_leak() {
    let (text, part) = text_and_part();
    let (stopped, reason, tokens) = ended(json!({ "stop": part }));
    assert_eq!((stopped.as_str(), reason), (&text[..text.find(&part).unwrap()], json!("stop")));
    assert!(tokens < 80, "{tokens}");
}

#[test]
fn the_stop_string_is_sent_if_asked_for() {
    let (text, part) = text_and_part();
    let (stopped, ..) = ended(json!({ "stop": [part], "include_stop_str_in_output": true }));
    assert_eq!(stopped, &text[..text.find(&part).unwrap() + part.len()]);
}

#[test]
fn of_several_stop_strings_the_first_to_be_complete_ends_the_answer() {
    let (text, part) = text_and_part();
    let later: String = text[text.find(&part).unwrap() + part.len()..].chars().take(3).collect();
    let (stopped, ..) = ended(json!({ "stop": [later, part] }));
    assert_eq!(stopped, &text[..text.find(&part).unwrap()]);
}

#[test]
fn what_only_begins_as_a_stop_string_is_sent() {
    let (text, part) = text_and_part();
    assert_eq!(ended(json!({ "stop": format!("{part}never comes") })), (text, json!("length"), 80));
}

#[test]
fn a_held_back_beginning_is_sent_when_the_tokens_end() {
    let (text, ..) = ended(json!({}));
    let last: String = text.chars().skip(text.chars().count() - 2).collect();
    assert_eq!(ended(json!({ "stop": format!("{last}and more") })).0, text);
}

#[test]
fn a_stop_token_ends_the_answer_and_is_counted() {
    let forced = |token: &str| json!({ "logit_bias": { token: 100 } });
    let mut fields = forced("40");
    fields["stop_token_ids"] = json!([40]);
    assert_eq!(ended(fields), (String::new(), json!("stop"), 1));
}

#[test]
fn the_end_token_ends_the_answer_unless_it_is_ignored() {
    // `</s>` of the tiny model.
    let mut fields = json!({ "logit_bias": { "2": 100 }, "ignore_eos": false });
    assert_eq!(ended(fields.clone()), (String::new(), json!("stop"), 1));
    fields["ignore_eos"] = json!(true);
    fields["skip_special_tokens"] = json!(false);
    assert_eq!(ended(fields), ("</s>".repeat(80), json!("length"), 80));
}

#[test]
fn each_answer_ends_by_itself() {
    let (_, part) = text_and_part();
    let body = request(json!({ "prompt": ["stop", "other"], "stop": part }));
    let answer = shared().ok(PATH, &body);
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    let alone = shared().ok(PATH, &request(json!({ "prompt": "other", "stop": part })));
    assert_eq!(answer["choices"][1]["text"], alone["choices"][0]["text"]);
}
