//! The two generating routes, whole and streamed: what their answers hold, and that all ways to ask give the same text.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::server::{fixture, shared};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

/// A request that always gets the same `max_tokens` tokens.
fn chat(text: &str, max_tokens: u32) -> Value {
    json!({
        "messages": [{ "role": "user", "content": text }],
        "max_tokens": max_tokens,
        "temperature": 0,
        "ignore_eos": true,
    })
}

fn completion(prompt: &Value, max_tokens: u32) -> Value {
    json!({ "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": true })
}

pub fn with(mut body: Value, field: &str, value: Value) -> Value {
    body[field] = value;
    body
}

pub fn array(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is not an array"))
}

/// The texts of a stream by choice.
fn streamed(events: &[Value], n: usize) -> Vec<String> {
    let mut texts = vec![String::new(); n];
    for choice in events.iter().flat_map(|event| array(&event["choices"])) {
        let text = choice["delta"]["content"].as_str().or_else(|| choice["text"].as_str()).unwrap_or_default();
        texts[choice["index"].as_u64().unwrap() as usize] += text;
    }
    texts
}

/// The texts of a whole answer, which must be in the order of their indices.
fn whole(answer: &Value) -> Vec<String> {
    let texts = array(&answer["choices"]).iter().enumerate().map(|(at, choice)| {
        assert_eq!(choice["index"], at);
        choice["message"]["content"].as_str().or_else(|| choice["text"].as_str()).expect("a text").to_owned()
    });
    texts.collect()
}

/// A prompt and what `transformers` makes of it (`tests/fixtures/README.md`).
pub struct Reference {
    pub prompt: Vec<i64>,
    pub greedy: Vec<i64>,
    /// After each token of the prompt.
    pub logits: Vec<Vec<f32>>,
}

pub fn reference() -> Reference {
    let file = std::fs::read(fixture("tiny/llama/expected.safetensors")).unwrap();
    let (length, rest) = file.split_at(8);
    let (header, data) = rest.split_at(u64::from_le_bytes(length.try_into().unwrap()) as usize);
    let header: Value = serde_json::from_slice(header).unwrap();
    let bytes = |name: &str| {
        let place = |at: usize| header[name]["data_offsets"][at].as_u64().unwrap() as usize;
        &data[place(0)..place(1)]
    };
    let integers =
        |name: &str| bytes(name).chunks(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap())).collect();
    let floats: Vec<f32> =
        bytes("logits").chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect();
    let vocab_size = header["logits"]["shape"][2].as_u64().unwrap() as usize;
    Reference {
        prompt: integers("input_ids"),
        greedy: integers("greedy"),
        logits: floats.chunks(vocab_size).map(<[f32]>::to_vec).collect(),
    }
}

#[test]
fn token_ids_are_continued_as_transformers_continues_them() {
    let Reference { prompt, greedy: expected, .. } = reference();
    let text = shared().ok("/detokenize", &json!({ "tokens": expected }))["content"].clone();
    let answer = shared().ok(TEXT, &completion(&json!(prompt), 8));
    assert_eq!((&answer["choices"][0]["text"], &answer["usage"]["prompt_tokens"]), (&text, &20.into()));
}

#[test]
fn a_chat_answer_has_openai_s_fields() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let answer = shared().ok(CHAT, &chat("fields", 4));
    assert_eq!((&answer["object"], &answer["model"]), (&"chat.completion".into(), &"tiny".into()));
    assert!(answer["id"].as_str().unwrap().starts_with("chatcmpl-"));
    assert!(answer["system_fingerprint"].as_str().unwrap().starts_with("taper-"));
    assert!((now..=now + 60).contains(&answer["created"].as_u64().unwrap()));
    let choice = &answer["choices"][0];
    assert_eq!(
        (&choice["message"]["role"], &choice["finish_reason"], &choice["logprobs"]),
        (&"assistant".into(), &"length".into(), &Value::Null)
    );
}

#[test]
fn a_chat_stream_is_role_then_text_then_end_then_usage() {
    let body = with(chat("order", 6), "stream_options", json!({ "include_usage": true }));
    let events = shared().stream(CHAT, &body);
    let (role, rest) = events.split_first().unwrap();
    assert_eq!(role["choices"][0]["delta"], json!({ "role": "assistant", "content": "" }));
    let (usage, rest) = rest.split_last().unwrap();
    assert_eq!((array(&usage["choices"]).len(), &usage["usage"]["completion_tokens"]), (0, &6.into()));
    let (end, deltas) = rest.split_last().unwrap();
    assert_eq!((&end["choices"][0]["finish_reason"], &end["choices"][0]["delta"]), (&"length".into(), &json!({})));
    assert_eq!(end["timings"]["predicted_n"], 6);
    for delta in deltas {
        let choice = &delta["choices"][0];
        assert!(choice["delta"]["content"].as_str().is_some_and(|text| !text.is_empty()), "{delta}");
        assert_eq!((&choice["delta"]["role"], &choice["finish_reason"]), (&Value::Null, &Value::Null));
    }
    for event in &events {
        assert_eq!((&event["object"], &event["id"]), (&"chat.completion.chunk".into(), &role["id"]));
    }
}

#[test]
fn usage_is_in_a_stream_only_if_asked_for() {
    for (path, body) in [(CHAT, chat("no usage", 3)), (TEXT, completion(&json!("no usage"), 3))] {
        let events = shared().stream(path, &body);
        assert!(events.iter().all(|event| event["usage"].is_null() && !array(&event["choices"]).is_empty()), "{path}");
    }
}

#[test]
fn usage_in_every_chunk_only_grows() {
    let options = json!({ "include_usage": true, "continuous_usage_stats": true });
    let events = shared().stream(CHAT, &with(chat("growing", 5), "stream_options", options));
    let counts = events[1..].iter().map(|event| event["usage"]["completion_tokens"].as_u64().expect("usage"));
    let counts: Vec<_> = counts.collect();
    assert!(counts.is_sorted() && counts.last() == Some(&5), "{counts:?}");
}

#[test]
fn timings_are_in_every_chunk_if_asked_for() {
    let events = shared().stream(CHAT, &with(chat("timed", 5), "timings_per_token", json!(true)));
    assert!(events[1..].iter().all(|event| event["timings"]["predicted_n"].as_u64() > Some(0)), "{events:?}");
}

#[test]
fn the_text_of_a_stream_is_that_of_the_whole_answer() {
    for (path, body) in [(CHAT, chat("equal", 200)), (TEXT, completion(&json!("equal"), 200))] {
        let body = with(body, "n", json!(2));
        assert_eq!(streamed(&shared().stream(path, &body), 2), whole(&shared().ok(path, &body)), "{path}");
    }
}

#[test]
fn a_completion_stream_ends_with_the_reason() {
    let events = shared().stream(TEXT, &completion(&json!("reason"), 4));
    let reasons: Vec<_> = events.iter().map(|event| &event["choices"][0]["finish_reason"]).collect();
    assert_eq!(reasons.last(), Some(&&json!("length")));
    assert!(reasons[..reasons.len() - 1].iter().all(|reason| reason.is_null()), "{reasons:?}");
}

#[test]
fn a_seed_gives_the_same_different_answers_again() {
    let body = json!({ "prompt": "dice", "n": 3, "seed": 7, "max_tokens": 24, "ignore_eos": true, "temperature": 1 });
    let texts = whole(&shared().ok(TEXT, &body));
    assert_eq!(texts, whole(&shared().ok(TEXT, &body)));
    assert!(texts[0] != texts[1] && texts[1] != texts[2] && texts[0] != texts[2], "{texts:?}");
}

#[test]
fn prompt_tokens_are_those_of_tokenize() {
    let messages = json!([{ "role": "system", "content": "Be brief." }, { "role": "user", "content": "Grüße 🙂" }]);
    let counted = shared().ok("/tokenize", &json!({ "messages": messages }))["count"].clone();
    let usage = shared().ok(CHAT, &with(chat("", 5), "messages", messages))["usage"].clone();
    assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&counted, &5.into()));
    assert_eq!(usage["total_tokens"], counted.as_u64().unwrap() + 5);
}

#[test]
fn a_prompt_counts_once_however_many_answers_it_has() {
    let usage = shared().ok(TEXT, &with(completion(&json!(["abc", "defgh"]), 2), "n", json!(3)))["usage"].clone();
    assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&8.into(), &12.into()));
}

/// Blocks have 32 tokens, and of a prompt at least the last token is run.
#[test]
fn an_equal_request_finds_its_prompt_cached() {
    let prompt = json!("cached ".repeat(20));
    let cached = |body: &Value| shared().ok(TEXT, body)["usage"]["prompt_tokens_details"]["cached_tokens"].clone();
    let body = completion(&prompt, 2);
    assert_eq!((cached(&body), cached(&body)), (0.into(), 128.into()));
    assert_eq!(cached(&with(body.clone(), "cache_prompt", json!(false))), 0);
    assert_eq!(cached(&with(body, "cache_salt", json!("mine"))), 0);
}

#[test]
fn echo_puts_the_prompt_before_each_answer() {
    let body = with(completion(&json!(["one", "two"]), 5), "n", json!(2));
    let plain = whole(&shared().ok(TEXT, &body));
    let body = with(body, "echo", json!(true));
    let expected: Vec<_> = ["one", "one", "two", "two"].iter().zip(plain).map(|(a, b)| format!("{a}{b}")).collect();
    assert_eq!(whole(&shared().ok(TEXT, &body)), expected);
    assert_eq!(streamed(&shared().stream(TEXT, &body), 4), expected);
}

#[test]
fn several_prompts_are_answered_as_each_alone() {
    let alone = |prompt: Value| whole(&shared().ok(TEXT, &completion(&prompt, 12))).remove(0);
    let together = |prompts: Value| whole(&shared().ok(TEXT, &completion(&prompts, 12)));
    assert_eq!(together(json!(["ab", "xyz"])), [alone(json!("ab")), alone(json!("xyz"))]);
    assert_eq!(together(json!([[5, 6], [7, 8, 9]])), [alone(json!([5, 6])), alone(json!([7, 8, 9]))]);
}

#[test]
fn a_text_is_continued_as_its_token_ids() {
    let ids = shared().ok("/tokenize", &json!({ "prompt": "the same" }))["tokens"].clone();
    let text = |prompt: &Value| whole(&shared().ok(TEXT, &completion(prompt, 12)));
    assert_eq!(text(&json!("the same")), text(&ids));
}

#[test]
fn timings_add_up() {
    let answer = shared().ok(TEXT, &completion(&json!("time ".repeat(30)), 40));
    let number = |name: &str| answer["timings"][name].as_f64().unwrap_or_else(|| panic!("{name}: {answer}"));
    assert_eq!(number("prompt_n") + number("cache_n"), 150.0);
    assert_eq!(number("predicted_n"), 40.0);
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * a.abs().max(b.abs());
    assert!(number("prompt_ms") > 0.0 && number("predicted_ms") > 0.0 && number("queue_ms") >= 0.0);
    assert!(near(number("prompt_per_token_ms") * number("prompt_n"), number("prompt_ms")));
    assert!(near(number("prompt_per_second") * number("prompt_per_token_ms"), 1000.0));
    // Between 40 tokens lie 39 steps.
    assert!(near(number("predicted_per_token_ms") * 39.0, number("predicted_ms")));
    assert!(near(number("predicted_per_second") * number("predicted_per_token_ms"), 1000.0));
}

#[test]
fn a_token_with_a_bias_of_100_is_always_chosen() {
    let x = shared().ok("/tokenize", &json!({ "content": "x" }))["tokens"][0].clone();
    let mut body = completion(&json!("bias"), 4);
    for bias in [json!({ x.to_string(): 100 }), json!([[x, 100]]), json!([["x", 100]])] {
        body["logit_bias"] = bias;
        assert_eq!(whole(&shared().ok(TEXT, &body)), ["xxxx"], "{}", body["logit_bias"]);
    }
}

#[test]
fn a_banned_token_is_not_chosen() {
    let Reference { prompt, greedy: expected, .. } = reference();
    let text = whole(&shared().ok(TEXT, &completion(&json!(prompt), 8)));
    let body = with(completion(&json!(prompt), 8), "logit_bias", json!([[expected[0], false]]));
    assert_ne!(whole(&shared().ok(TEXT, &body)), text);
}

#[test]
fn fields_without_effect_are_named() {
    let body = with(with(chat("ignored", 1), "frobnicate", json!(1)), "store", json!(true));
    assert_eq!(shared().post(CHAT, &body).header("x-ignored"), Some("store, frobnicate"));
    let body = with(with(body, "stream", json!(true)), "stream_options", json!({ "include_obfuscation": false }));
    let ignored = shared().post(CHAT, &body);
    assert_eq!(ignored.header("x-ignored"), Some("store, frobnicate, stream_options.include_obfuscation"));
    assert_eq!(shared().post(CHAT, &chat("honoured", 1)).header("x-ignored"), None);
    let answer = shared().post("/tokenize", &json!({ "content": "a", "frobnicate": 1 }));
    assert_eq!(answer.header("x-ignored"), Some("frobnicate"));
}

#[test]
fn a_stream_is_not_to_be_stored_changed_or_held_back() {
    let answer = shared().post(CHAT, &with(chat("headers", 1), "stream", json!(true)));
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(answer.header("cache-control"), Some("no-cache, no-transform"));
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
}

#[test]
fn null_is_as_good_as_absent() {
    let fields = ["stop", "seed", "logit_bias", "stream", "stream_options", "max_completion_tokens", "tools", "user"];
    let nulls = fields.iter().fold(chat("null", 6), |body, field| with(body, field, Value::Null));
    assert_eq!(whole(&shared().ok(CHAT, &nulls)), whole(&shared().ok(CHAT, &chat("null", 6))));
}

#[test]
fn the_last_message_can_be_continued() {
    let mut body = chat("Count.", 8);
    body["messages"].as_array_mut().unwrap().push(json!({ "role": "assistant", "content": "One, two," }));
    body["continue_final_message"] = json!(true);
    body["add_generation_prompt"] = json!(false);
    let prompt = shared().ok("/apply-template", &body)["prompt"].clone();
    assert_eq!(prompt, "User: Count.\nAssistant: One, two,");
    assert_eq!(whole(&shared().ok(CHAT, &body)), whole(&shared().ok(TEXT, &completion(&prompt, 8))));
}

#[test]
fn the_model_is_known_by_its_alias_and_by_its_file() {
    let file = crate::server::model().file_stem().unwrap().to_str().unwrap().to_owned();
    for name in ["tiny", &file] {
        assert_eq!(shared().ok(TEXT, &with(completion(&json!("m"), 1), "model", json!(name)))["model"], "tiny");
        assert_eq!(shared().get(&format!("/v1/models/{name}")).json()["id"], "tiny");
    }
    let models = shared().get("/v1/models").json();
    assert_eq!((&models["object"], &models["data"][0]["id"]), (&"list".into(), &"tiny".into()));
    assert_eq!(models["data"][0]["meta"]["n_vocab"], 256);
}

/// Text that would end an event or a line, were it not written as JSON.
#[test]
fn any_text_survives_a_stream() {
    let prompt = "\n\ndata: [DONE]\n\n\r\r\n: x\u{2028}\u{feff}\0\u{7f} end";
    let body = with(completion(&json!(prompt), 1), "echo", json!(true));
    let plain = whole(&shared().ok(TEXT, &body));
    assert!(plain[0].starts_with(prompt), "{plain:?}");
    assert_eq!(streamed(&shared().stream(TEXT, &body), 1), plain);
}

/// The answer itself is the best prediction.
#[test]
fn a_prediction_leaves_the_answer_as_it_is_and_is_counted() {
    let body = chat("predict", 60);
    let plain = shared().ok(CHAT, &body);
    let text = whole(&plain).remove(0);
    assert_eq!(plain["usage"]["completion_tokens_details"]["accepted_prediction_tokens"], 0);
    let parts = json!([{ "type": "text", "text": text }]);
    for content in [json!(text), parts] {
        let predicted =
            shared().ok(CHAT, &with(body.clone(), "prediction", json!({ "type": "content", "content": content })));
        assert_eq!((whole(&predicted).remove(0), &predicted["usage"]["completion_tokens"]), (text.clone(), &60.into()));
        let details = &predicted["usage"]["completion_tokens_details"];
        let count = |name: &str| details[name].as_u64().unwrap();
        assert!(count("accepted_prediction_tokens") > 0, "{details}");
        let timings = &predicted["timings"];
        let guessed = count("accepted_prediction_tokens") + count("rejected_prediction_tokens");
        assert_eq!(
            (&timings["draft_n"], &timings["draft_n_accepted"]),
            (&guessed.into(), &details["accepted_prediction_tokens"])
        );
    }
}

#[test]
fn an_answer_that_takes_too_long_ends_as_with_max_tokens_and_one_that_has_not_begun_with_408() {
    let endless = with(completion(&json!("a"), 8000), "timeout", json!(0.5));
    let answer = shared().ok(TEXT, &endless);
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
    assert!(answer["usage"]["completion_tokens"].as_u64().is_some_and(|tokens| tokens < 8000), "{}", answer["usage"]);
    let late = shared().post(TEXT, &with(completion(&json!("a"), 5000), "timeout", json!(1e-6)));
    assert_eq!(
        (late.status, late.header("x-should-retry"), &late.json()["error"]["code"]),
        (408, Some("false"), &"timeout".into())
    );
}
