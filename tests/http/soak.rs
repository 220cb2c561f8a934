//! Everything at once: tools, schemas, log probabilities, samplers, predictions, deadlines and mistakes, streamed and not, from
//! many clients of which some leave, with a cache that is too small for all. Equal requests get equal answers, and at the
//! end nothing is left and all numbers agree.
//!
//! The requests are the same in every run; how they meet is not.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};

use crate::load::Random;
use crate::server::Server;
use crate::shapes::array;

const CLIENTS: u64 = 12;
const REQUESTS_OF_A_CLIENT: u64 = 40;
const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";
/// What waits for a tier or a share of its own.
const USERS: [&str; 3] = ["ada", "bo", "cy"];
const TIERS: [&str; 3] = ["default", "flex", "priority"];

/// A request that always gets the same answer.
struct Asked {
    path: &'static str,
    body: Value,
}

fn chat(text: &str, more: Value) -> Asked {
    let body = json!({ "messages": [{ "role": "user", "content": text }], "max_tokens": 60 });
    Asked { path: CHAT, body: merged(body, more) }
}

fn completion(more: Value) -> Asked {
    Asked { path: TEXT, body: merged(json!({ "prompt": "once upon a time", "max_tokens": 60 }), more) }
}

fn merged(mut body: Value, more: Value) -> Value {
    if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
        body.extend(more);
    }
    body
}

fn tools() -> Value {
    let parameters = json!({
        "type": "object",
        "properties": { "city": { "enum": ["Seoul", "Zürich"] }, "days": { "type": "integer", "minimum": 1, "maximum": 9 } },
        "required": ["city"],
        "additionalProperties": false,
    });
    json!([
        { "type": "function", "function": { "name": "weather", "strict": true, "parameters": parameters } },
        { "type": "function", "function": { "name": "clock", "parameters": { "type": "object", "properties": {} } } },
    ])
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": { "name": { "type": "string", "maxLength": 8 }, "ages": { "type": "array", "items": { "type": "integer", "minimum": 0, "maximum": 99 }, "maxItems": 3 } },
        "required": ["name", "ages"],
        "additionalProperties": false,
    })
}

/// Every kind of request, greedy or with a seed.
fn requests() -> Vec<Asked> {
    let format = json!({ "type": "json_schema", "json_schema": { "name": "s", "strict": true, "schema": schema() } });
    let text = "the quick brown fox jumps over the lazy dog ".repeat(4);
    vec![
        chat("hello", json!({ "temperature": 0 })),
        chat("hello", json!({ "temperature": 0, "logprobs": true, "top_logprobs": 5 })),
        chat("hello", json!({ "temperature": 0, "cache_prompt": false, "ignore_eos": true, "max_tokens": 150 })),
        chat("weather", json!({ "temperature": 0, "tools": tools(), "tool_choice": "required", "max_tokens": 200 })),
        chat(
            "weather",
            json!({ "seed": 1, "tools": tools(), "tool_choice": "required", "parallel_tool_calls": false, "max_tokens": 200, "logprobs": true }),
        ),
        chat("weather", json!({ "seed": 2, "tools": tools(), "max_tokens": 200 })),
        chat("someone", json!({ "seed": 3, "response_format": format, "max_tokens": 200 })),
        chat(
            "someone",
            json!({ "temperature": 0, "json_schema": schema(), "n": 2, "top_logprobs": 2, "logprobs": true }),
        ),
        chat("several", json!({ "seed": 4, "n": 4, "temperature": 1.5, "top_p": 0.9 })),
        chat(
            "samplers",
            json!({ "seed": 5, "dry_multiplier": 0.8, "xtc_probability": 0.5, "top_n_sigma": 2, "dynatemp_range": 0.5, "samplers": "edskypmxt" }),
        ),
        chat("mirostat", json!({ "seed": 6, "mirostat": 2, "presence_penalty": 1, "repeat_penalty": 1.2 })),
        chat(
            &format!("again: {text}"),
            json!({ "temperature": 0, "prediction": { "type": "content", "content": text }, "logit_bias": { "100": 3 } }),
        ),
        chat(
            "loop",
            json!({ "temperature": 0, "ignore_eos": true, "logit_bias": { "100": 100 }, "repetition_detection": { "max_pattern_size": 3, "min_count": 6 } }),
        ),
        completion(json!({ "temperature": 0, "echo": true, "logprobs": 3 })),
        completion(json!({ "temperature": 0, "guided_regex": "[a-f]{2,12}-[0-9]{3}" })),
        completion(json!({ "seed": 7, "guided_choice": ["yes", "no", "perhaps"], "n": 3 })),
        completion(json!({ "seed": 8, "grammar": "root ::= (\"a\" | \"bc\"){3,9} \".\"", "logprobs": 0 })),
        completion(
            json!({ "temperature": 0, "prompt": ["one", "two", "three"], "stop": ["e", "xyz"], "include_stop_str_in_output": true }),
        ),
        completion(json!({ "seed": 9, "min_tokens": 20, "ignore_eos": true, "cache_salt": "salt", "max_tokens": 200 })),
    ]
}

/// What is equal in equal answers: of each choice the reason, the text and the calls, and the log probabilities of all.
#[derive(Debug, Clone, PartialEq)]
struct Essence {
    texts: Vec<String>,
    scores: Vec<f64>,
}

impl Essence {
    fn of(choices: &[Value]) -> Self {
        let texts = choices.iter().map(|choice| {
            let message = &choice["message"];
            let calls = message["tool_calls"].as_array().into_iter().flatten();
            let calls: Vec<_> = calls.map(|call| [&call["function"]["name"], &call["function"]["arguments"]]).collect();
            let text = choice["text"].as_str().or_else(|| message["content"].as_str()).unwrap_or_default();
            format!("{} {text:?} {calls:?}", choice["finish_reason"])
        });
        let scores = choices.iter().flat_map(|choice| {
            let chat = choice["logprobs"]["content"].as_array().into_iter().flatten().map(|token| &token["logprob"]);
            let text = choice["logprobs"]["token_logprobs"].as_array().into_iter().flatten();
            chat.chain(text).map(|score| score.as_f64().unwrap_or_default())
        });
        Self { texts: texts.collect(), scores: scores.collect() }
    }

    /// Numbers may differ in their last digits, by how many rows a matrix product has.
    fn is_equal(&self, other: &Self) -> bool {
        let near = |(one, other): (&f64, &f64)| (one - other).abs() < 0.01;
        self.texts == other.texts
            && self.scores.len() == other.scores.len()
            && self.scores.iter().zip(&other.scores).all(near)
    }
}

/// A stream as the choices of a whole answer.
fn joined(events: &[Value]) -> Vec<Value> {
    let mut choices: Vec<Value> = Vec::new();
    for part in events.iter().flat_map(|event| array(&event["choices"])) {
        let index = part["index"].as_u64().expect("every choice has one") as usize;
        choices.resize(choices.len().max(index + 1), json!({ "message": {} }));
        let choice = &mut choices[index];
        append(&mut choice["text"], &part["text"]);
        append(&mut choice["message"]["content"], &part["delta"]["content"]);
        for delta in part["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let call = &mut choice["message"]["tool_calls"];
            if call.is_null() {
                *call = json!([]);
            }
            let calls = call.as_array_mut().expect("it is one");
            let at = delta["index"].as_u64().expect("every call has one") as usize;
            calls.resize(calls.len().max(at + 1), json!({ "function": {} }));
            append(&mut calls[at]["function"]["name"], &delta["function"]["name"]);
            append(&mut calls[at]["function"]["arguments"], &delta["function"]["arguments"]);
        }
        for list in ["content", "token_logprobs"] {
            let more = part["logprobs"][list].as_array().cloned().unwrap_or_default();
            let have = &mut choice["logprobs"][list];
            *have = have.as_array().cloned().unwrap_or_default().into_iter().chain(more).collect();
        }
        if !part["finish_reason"].is_null() {
            assert!(choice["finish_reason"].is_null(), "an answer ends once: {events:?}");
            choice["finish_reason"] = part["finish_reason"].clone();
        }
    }
    choices
}

fn append(text: &mut Value, more: &Value) {
    if let Some(more) = more.as_str() {
        *text = format!("{}{more}", text.as_str().unwrap_or_default()).into();
    }
}

/// What the clients have seen.
#[derive(Default)]
struct Seen {
    answers: HashMap<u64, Essence>,
    /// Answers that came to their end.
    num_choices: usize,
    num_tokens: u64,
    num_calls: usize,
}

/// One request to its end, or as far as its client waits.
fn ask(server: &Server, random: &mut Random, requests: &[Asked], seen: &Mutex<Seen>) {
    let number = random.below(requests.len() as u64);
    let Asked { path, body } = &requests[number as usize];
    let mut body = body.clone();
    body["user"] = json!(USERS[random.below(3) as usize]);
    body["service_tier"] = json!(TIERS[random.below(3) as usize]);
    let is_streamed = random.below(2) == 0;
    match random.below(12) {
        0 | 1 => return leave(server, random, path, merged(body, json!({ "stream": is_streamed }))),
        2 => return be_late(server, path, merged(body, json!({ "timeout": 0.001 }))),
        3 => return be_wrong(server, path, merged(body, json!({ "temperature": 9 }))),
        _ => {}
    }
    let (choices, usage) = if is_streamed {
        let events = server.stream(path, &merged(body.clone(), json!({ "stream_options": { "include_usage": true } })));
        (joined(&events), events.last().expect("an answer has events")["usage"].clone())
    } else {
        let answer = server.ok(path, &body);
        (array(&answer["choices"]).to_vec(), answer["usage"].clone())
    };
    let essence = Essence::of(&choices);
    let mut seen = seen.lock().unwrap();
    seen.num_choices += choices.len();
    seen.num_tokens += usage["completion_tokens"].as_u64().expect("usage was asked for");
    seen.num_calls += choices.iter().filter(|choice| choice["finish_reason"] == "tool_calls").count();
    let first = seen.answers.entry(number).or_insert_with(|| essence.clone());
    assert!(first.is_equal(&essence), "request {number}, {body}: {first:?}, then {essence:?}");
}

/// Goes before the answer is whole.
fn leave(server: &Server, random: &mut Random, path: &str, body: Value) {
    let mut wire = server.wire(path, &body);
    if body["stream"] == true {
        assert_eq!(wire.head().0, 200);
        (0..random.below(6)).for_each(|_| drop(wire.event().expect("the stream goes on")));
    } else {
        wire.is_silent_for(Duration::from_millis(1 + random.below(20)));
    }
}

/// Gives the answer no time.
fn be_late(server: &Server, path: &str, body: Value) {
    let answer = server.post(path, &body);
    assert!([200, 408].contains(&answer.status), "{}", answer.text);
}

fn be_wrong(server: &Server, path: &str, body: Value) {
    assert_eq!(server.post(path, &body).error(400)["param"], "temperature");
}

#[test]
fn whatever_is_asked_at_once_equal_requests_get_equal_answers_and_nothing_stays_behind() {
    // 256 bytes a token: room for 3072 tokens, where eight sequences of up to 1000 may take 8000.
    let server = Server::start(&[
        "--kv-cache-memory",
        "768K",
        "-c",
        "2048",
        "--parallel",
        "8",
        "--spec-type",
        "ngram-simple",
        "--sse-ping-interval",
        "0",
    ]);
    let total = server.metric("taper_kv_blocks{state=\"free\"}");
    let (requests, seen) = (requests(), Mutex::new(Seen::default()));
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (server, requests, seen) = (&server, &requests, &seen);
            scope.spawn(move || {
                let mut random = Random(client + 1);
                (0..REQUESTS_OF_A_CLIENT).for_each(|_| ask(server, &mut random, requests, seen));
            });
        }
    });
    server.becomes_idle();
    let seen = seen.into_inner().unwrap();
    assert_eq!(seen.answers.len(), requests.len(), "every kind was answered");
    assert!(seen.num_calls > 0);
    let metrics = server.metrics();
    let value = |name: &str| metrics.get(name).copied().unwrap_or_default();
    let blocks = |state: &str| value(&format!("taper_kv_blocks{{state=\"{state}\"}}"));
    assert_eq!((blocks("free") + blocks("cached"), blocks("used")), (total, 0.0));
    assert!(server.get("/slots").json().as_array().unwrap().iter().all(|slot| slot["is_processing"] == false));
    // Each that began has ended, in one way; and clients have seen no more than the server counted.
    let finished = |reason: &str| value(&format!("taper_requests_finished_total{{finished_reason=\"{reason}\"}}"));
    let ends = ["stop", "length", "tool_calls", "repetition"].map(finished).iter().sum::<f64>();
    // Those that came too late to begin count as errors, and are the only ones.
    assert_eq!(ends + finished("abort") + finished("error"), value("taper_requests_started_total"));
    assert!(ends >= seen.num_choices as f64 && finished("abort") > 0.0 && finished("repetition") > 0.0, "{metrics:?}");
    assert!(value("taper_generation_tokens_total") >= seen.num_tokens as f64);
    assert!(value("taper_tool_calls_total") >= seen.num_calls as f64);
    assert!(value("taper_preemptions_total") > 0.0 && value("taper_draft_tokens_total") > 0.0, "{metrics:?}");
    assert!(!server.logged().contains("panicked"));
}
