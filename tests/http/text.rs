//! Tokens and templates, in the dialects of both servers.

use serde_json::{Value, json};

use crate::server::shared;

/// Without bytes that the tiny vocabulary lacks (0x9d to 0xa0, 0xad).
const TEXT: &str = "Grüe, 世界 𐍈\n and a  tab\t.";

#[test]
fn both_dialects_give_the_same_tokens() {
    let llama_server = shared().ok("/tokenize", &json!({ "content": TEXT }));
    let vllm = shared().ok("/tokenize", &json!({ "prompt": TEXT, "add_special_tokens": false }));
    assert_eq!(llama_server, vllm);
    let count = llama_server["tokens"].as_array().unwrap().len();
    assert_eq!((&llama_server["count"], &llama_server["max_model_len"]), (&count.into(), &8192.into()));
    // One merge, `Ġa`, applies twice.
    assert_eq!(count, TEXT.len() - 2);
}

#[test]
fn tokens_give_their_text_back() {
    let tokens = shared().ok("/tokenize", &json!({ "content": TEXT }))["tokens"].clone();
    let text = shared().ok("/detokenize", &json!({ "tokens": tokens }));
    assert_eq!(text, json!({ "content": TEXT, "prompt": TEXT }));
}

#[test]
fn pieces_are_texts_or_bytes_and_together_the_text() {
    let tokens = shared().ok("/tokenize", &json!({ "content": TEXT, "with_pieces": true }))["tokens"].clone();
    let mut bytes = Vec::new();
    for token in tokens.as_array().unwrap() {
        match &token["piece"] {
            Value::String(text) => bytes.extend_from_slice(text.as_bytes()),
            piece => {
                let piece: Vec<u8> = serde_json::from_value(piece.clone()).expect("bytes");
                assert!(std::str::from_utf8(&piece).is_err(), "whole characters are told as text");
                bytes.extend_from_slice(&piece);
            }
        }
    }
    assert_eq!(String::from_utf8(bytes).unwrap(), TEXT);
}

#[test]
fn texts_of_tokens_come_if_asked_for() {
    let answer = shared().ok("/tokenize", &json!({ "prompt": "x a", "return_token_strs": true }));
    assert_eq!(answer["token_strs"], json!(["x", " a"]));
    assert_eq!(shared().ok("/tokenize", &json!({ "prompt": "x" }))["token_strs"], Value::Null);
}

#[test]
fn control_tokens_in_a_text_are_read_unless_told_otherwise() {
    let tokens = |parse: bool| shared().ok("/tokenize", &json!({ "content": "</s>", "parse_special": parse }));
    assert_eq!(tokens(true)["tokens"], json!([2]));
    assert_eq!(tokens(false)["count"], 4);
    assert_eq!(shared().ok("/detokenize", &json!({ "tokens": [2] }))["content"], "</s>");
}

#[test]
fn a_conversation_has_the_tokens_of_its_template() {
    let body = json!({ "messages": [
        { "role": "system", "content": "Be brief." },
        { "role": "user", "content": [{ "type": "text", "text": "Hi" }, { "type": "text", "text": "there" }] },
    ] });
    let written = shared().ok("/apply-template", &body);
    assert_eq!(written["prompt"], "Be brief.\n\nUser: Hi\nthere\nAssistant:");
    let tokens = shared().ok("/tokenize", &body);
    assert_eq!(written["tokens"], tokens["count"]);
    assert_eq!(shared().ok("/detokenize", &json!({ "tokens": tokens["tokens"] }))["content"], written["prompt"]);
}

#[test]
fn a_template_opens_no_answer_if_told_so() {
    let body = json!({ "messages": [{ "role": "user", "content": "Hi" }], "add_generation_prompt": false });
    assert_eq!(shared().ok("/apply-template", &body)["prompt"], "User: Hi\n");
}

#[test]
fn exactly_one_text_is_to_be_given() {
    for body in [json!({}), json!({ "content": "a", "prompt": "b" }), json!({ "content": "a", "messages": [] })] {
        let error = shared().post("/tokenize", &body).error(400);
        assert!(error["message"].as_str().unwrap().contains("exactly one"), "{error}");
    }
}

#[test]
fn tokens_outside_the_vocabulary_are_refused() {
    for id in [-1_i64, 256, 1 << 40] {
        let error = shared().post("/detokenize", &json!({ "tokens": [5, id] })).error(400);
        assert_eq!(error["param"], "tokens");
        assert!(error["message"].as_str().unwrap().contains(&id.to_string()), "{error}");
    }
}

#[test]
fn no_tokens_are_no_text() {
    assert_eq!(shared().ok("/tokenize", &json!({ "content": "" }))["tokens"], json!([]));
    assert_eq!(shared().ok("/detokenize", &json!({ "tokens": [] }))["content"], "");
}
