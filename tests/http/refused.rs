//! What breaks a rule is answered with 400, the field to blame and the value; what is not honoured, by name.

use serde_json::{Map, Value, json};

use crate::server::{Server, shared};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

fn chat() -> Value {
    json!({ "messages": [{ "role": "user", "content": "hi" }], "max_tokens": 1 })
}

fn completion() -> Value {
    json!({ "prompt": "hi", "max_tokens": 1 })
}

/// `path` refuses `body` with 400, blames `param` and tells `value`.
#[track_caller]
fn assert_refused(path: &str, body: &Value, param: &str, value: &str) {
    let error = shared().post(path, body).error(400);
    assert_eq!((&error["param"], &error["type"]), (&param.into(), &"invalid_request_error".into()), "{body}: {error}");
    assert!(error["message"].as_str().unwrap().contains(value), "{body}: {error}");
}

#[test]
fn a_value_outside_its_rule_is_refused_by_both_routes() {
    let many = |count: usize| vec!["s"; count];
    let biases: Map<String, Value> =
        (0..1025).map(|id| (format!("{}", id % 256 + id / 256 * 1000), json!(1))).collect();
    let table = [
        ("temperature", json!(-0.1), "-0.1"),
        ("temperature", json!(2.1), "2.1"),
        ("temperature", json!("hot"), "hot"),
        ("temperature", json!(1e300), "1000000"),
        ("top_p", json!(0), "0"),
        ("top_p", json!(1.5), "1.5"),
        ("top_k", json!(-2), "-2"),
        ("top_k", json!(1.5), "1.5"),
        ("min_p", json!(-0.1), "-0.1"),
        ("min_p", json!(1.1), "1.1"),
        ("typical_p", json!(0), "0"),
        ("typical_p", json!(1.01), "1.01"),
        ("repeat_penalty", json!(0), "0"),
        ("repeat_penalty", json!(101), "101"),
        ("repeat_last_n", json!(-2), "-2"),
        ("presence_penalty", json!(2.5), "2.5"),
        ("presence_penalty", json!(-2.5), "-2.5"),
        ("frequency_penalty", json!(2.5), "2.5"),
        ("frequency_penalty", json!(-2.5), "-2.5"),
        ("dynatemp_range", json!(-0.5), "-0.5"),
        ("dynatemp_exponent", json!(11), "11"),
        ("top_n_sigma", json!(-2), "-2"),
        ("xtc_probability", json!(1.5), "1.5"),
        ("xtc_threshold", json!(-0.25), "-0.25"),
        ("mirostat", json!(3), "from 0 to 2"),
        ("mirostat_tau", json!(-1), "-1"),
        ("mirostat_eta", json!(1.5), "1.5"),
        ("dry_multiplier", json!(-1), "-1"),
        ("dry_multiplier", json!(1e300), "1000000"),
        ("dry_base", json!(0.5), "0.5"),
        ("dry_allowed_length", json!(-1), "-1"),
        ("dry_penalty_last_n", json!(-2), "-2"),
        ("dry_sequence_breakers", json!([""]), "0 characters"),
        ("dry_sequence_breakers", json!(["b".repeat(41)]), "41"),
        ("dry_sequence_breakers", json!(many(33)), "33"),
        ("samplers", json!(["top_k", "tfs_z"]), "tfs_z"),
        ("samplers", json!("kz"), "'z'"),
        ("samplers", json!("k".repeat(33)), "33"),
        ("samplers", json!(5), "letters"),
        ("repetition_detection.max_pattern_size", json!({ "max_pattern_size": 5000, "min_count": 2 }), "5000"),
        ("repetition_detection.min_pattern_size", json!({ "max_pattern_size": 2, "min_pattern_size": 3 }), "3"),
        ("repetition_detection.min_count", json!({ "max_pattern_size": 2, "min_count": 1 }), "at least 2"),
        ("n", json!(0), "0"),
        ("n", json!(-1), "-1"),
        ("n", json!(129), "129"),
        ("n", json!(1e30), "1e"),
        ("max_tokens", json!(0), "0"),
        ("max_tokens", json!(-1), "-1"),
        ("max_tokens", json!(1.5), "1.5"),
        ("max_tokens", json!("many"), "many"),
        ("min_tokens", json!(-1), "-1"),
        ("min_tokens", json!(2), "2"),
        ("seed", json!(1.5), "1.5"),
        ("seed", json!("x"), "x"),
        ("stop", json!(""), "empty"),
        ("stop", json!(["a", ""]), "empty"),
        ("stop", json!(many(33)), "33"),
        ("stop", json!(5), "string"),
        ("stop_token_ids", json!([256]), "256"),
        ("stop_token_ids", json!([-1]), "-1"),
        ("stop_token_ids", json!([7, 7, 7].repeat(11)), "33"),
        ("logit_bias", json!({ "256": 1 }), "256"),
        ("logit_bias", json!({ "-1": 1 }), "-1"),
        ("logit_bias", json!({ "x": 1 }), "\"x\""),
        ("logit_bias", json!({ "5": 100.5 }), "100.5"),
        ("logit_bias", json!({ "5": -101 }), "-101"),
        ("logit_bias", json!([[256, 1]]), "256"),
        ("logit_bias", json!([[5, true]]), "true"),
        ("logit_bias", json!([[5, 1]].repeat(1025)), "1025"),
        ("logit_bias", json!(biases), "vocabulary"),
        ("stream_options", json!({ "include_usage": true }), "stream"),
        ("cache_salt", json!(""), "empty"),
        ("user", json!(5), "5"),
        ("service_tier", json!("gold"), "gold"),
        ("timeout", json!(0), "0"),
        ("timeout", json!("1s"), "1s"),
        ("stream", json!("yes"), "yes"),
        ("ignore_eos", json!(1), "1"),
        ("model", json!(5), "5"),
    ];
    for (path, body) in [(CHAT, chat()), (TEXT, completion())] {
        for (field, value, told) in &table {
            let mut body = body.clone();
            // What is to blame may be a part of a field.
            body[field.split('.').next().unwrap()] = value.clone();
            assert_refused(path, &body, field, told);
        }
    }
}

#[test]
fn a_prediction_is_a_text() {
    let image = json!([{ "type": "image_url", "image_url": { "url": "data:," } }]);
    for (prediction, param, told) in [
        (json!("hi"), "prediction", "hi"),
        (json!({ "content": "hi" }), "prediction.type", "missing"),
        (json!({ "type": "guess", "content": "hi" }), "prediction.type", "guess"),
        (json!({ "type": "content", "content": 5 }), "prediction.content", "5"),
        (json!({ "type": "content", "content": image }), "prediction.content[0]", "image_url"),
    ] {
        let mut body = chat();
        body["prediction"] = prediction;
        assert_refused(CHAT, &body, param, told);
    }
}

#[test]
fn a_message_that_breaks_a_rule_is_told_with_its_place() {
    let user = |content: Value| json!({ "role": "user", "content": content });
    let ok = user(json!("hi"));
    let image = json!({ "type": "image_url", "image_url": { "url": "data:," } });
    let sound = json!({ "type": "input_audio", "input_audio": {} });
    let text = json!({ "type": "text", "text": "hi" });
    let table = [
        (json!([]), "messages", "empty"),
        (json!("hi"), "messages", "hi"),
        (json!([ok, { "role": "wizard", "content": "hi" }]), "messages[1].role", "wizard"),
        (json!([{ "content": "hi" }]), "messages[0].role", "missing"),
        (json!([ok, 5]), "messages[1]", "5"),
        (json!([user(json!(5))]), "messages[0].content", "5"),
        (json!([user(Value::Null)]), "messages[0].content", "missing"),
        (json!([user(json!([text, image]))]), "messages[0].content[1]", "image_url"),
        (json!([ok, user(json!([sound]))]), "messages[1].content[0]", "input_audio"),
        (json!([user(json!([{ "type": "file", "file": {} }]))]), "messages[0].content[0]", "file"),
        (json!([user(json!([{ "type": "video" }]))]), "messages[0].content[0].type", "video"),
        (json!(vec![&ok; 4097]), "messages", "4097"),
    ];
    for (messages, param, told) in table {
        let mut body = chat();
        body["messages"] = messages;
        assert_refused(CHAT, &body, param, told);
        body.as_object_mut().unwrap().remove("max_tokens");
        assert_refused("/apply-template", &body, param, told);
    }
}

#[test]
fn a_prompt_that_breaks_a_rule_is_refused() {
    let table = [
        (Value::Null, "missing"),
        (json!(5), "expected a string"),
        (json!([]), "empty"),
        (json!(""), "empty"),
        (json!([[1], []]), "empty"),
        (json!([256]), "256"),
        (json!([-1]), "-1"),
        (json!([[1], [1, 300]]), "300"),
        (json!(["a", 5]), "expected a string"),
        (json!(vec!["a"; 129]), "129"),
    ];
    for (prompt, told) in table {
        let mut body = completion();
        body["prompt"] = prompt;
        assert_refused(TEXT, &body, "prompt", told);
    }
}

#[test]
fn what_a_chat_does_not_honour_is_refused_by_name() {
    let function = json!({ "name": "f", "parameters": {} });
    let table = [
        ("functions", json!([function])),
        ("function_call", json!({ "name": "f" })),
        ("verbosity", json!("low")),
        ("modalities", json!(["text", "audio"])),
        ("audio", json!({ "voice": "alloy", "format": "mp3" })),
        ("web_search_options", json!({})),
    ];
    for (field, value) in table {
        let mut body = chat();
        body[field] = value;
        assert_refused(CHAT, &body, field, field);
        assert_eq!(shared().post(CHAT, &body).error(400)["code"], "unsupported_parameter", "{body}");
    }
}

#[test]
fn what_a_completion_does_not_honour_is_refused_by_name() {
    for (field, value) in [("suffix", json!("end")), ("best_of", json!(2))] {
        let mut body = completion();
        body[field] = value;
        assert_refused(TEXT, &body, field, field);
        assert_eq!(shared().post(TEXT, &body).error(400)["code"], "unsupported_parameter", "{body}");
    }
}

#[test]
fn fields_that_ask_for_nothing_special_pass() {
    let mut body = chat();
    let fields = json!({
        "tools": [], "tool_choice": "auto", "functions": [], "function_call": "none", "logprobs": false,
        "top_logprobs": 0, "response_format": { "type": "text" }, "modalities": ["text"], "verbosity": "medium",
    });
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    shared().ok(CHAT, &body);
    let mut body = completion();
    body.as_object_mut().unwrap().extend(json!({ "best_of": 1, "suffix": "" }).as_object().unwrap().clone());
    shared().ok(TEXT, &body);
}

#[test]
fn rules_between_fields_are_kept() {
    let mut body = chat();
    body["max_completion_tokens"] = json!(2);
    assert_refused(CHAT, &body, "max_completion_tokens", "max_tokens");
    body["max_completion_tokens"] = json!(-3);
    assert_refused(CHAT, &body, "max_completion_tokens", "-3");
    let mut body = chat();
    body["continue_final_message"] = json!(true);
    body["add_generation_prompt"] = json!(true);
    assert_refused(CHAT, &body, "continue_final_message", "add_generation_prompt");
    let mut body = chat();
    body["chat_template_kwargs"] = json!([1]);
    assert_refused(CHAT, &body, "chat_template_kwargs", "object");
}

/// Whatever the document says of a number, the server keeps: so the two cannot drift apart.
#[test]
fn every_range_in_the_document_is_kept() {
    let document = serde_json::to_value(taper_openapi::document()).unwrap();
    let mut count = 0;
    for (path, schema, body) in [(CHAT, "ChatRequest", chat()), (TEXT, "CompletionRequest", completion())] {
        for (field, rule) in properties(&document, &document["components"]["schemas"][schema]) {
            for value in outside(&rule) {
                let mut body = body.clone();
                body[&field] = value.clone();
                assert_refused(path, &body, &field, "");
                count += 1;
            }
        }
    }
    assert!(count > 40, "{count} ranges");
}

/// The properties of a schema, those of its parts included.
fn properties(document: &Value, schema: &Value) -> Vec<(String, Value)> {
    let of = |reference: &Value| document.pointer(reference.as_str().unwrap().trim_start_matches('#')).unwrap().clone();
    let schema = if schema["$ref"].is_null() { schema.clone() } else { of(&schema["$ref"]) };
    let parts = schema["allOf"].as_array().cloned().unwrap_or_default();
    let own = schema["properties"].as_object().cloned().unwrap_or_default();
    own.into_iter().chain(parts.iter().flat_map(|part| properties(document, part))).collect()
}

/// Numbers just outside a range. Those that JSON numbers cannot tell from the limit are left out.
fn outside(rule: &Value) -> Vec<Value> {
    let is_whole = rule["type"].as_array().is_some_and(|types| types.contains(&json!("integer")));
    let step = if is_whole { 1.0 } else { 0.001 };
    let at = |name: &str| rule[name].as_f64().filter(|limit| limit.abs() < 1e15);
    let numbers = [at("minimum").map(|min| min - step), at("exclusiveMinimum"), at("maximum").map(|max| max + step)];
    numbers.into_iter().flatten().map(|number| json!(number)).collect()
}

#[test]
fn an_unknown_model_is_not_found() {
    let requests = [
        (CHAT, chat()),
        (TEXT, completion()),
        ("/tokenize", json!({ "content": "a" })),
        ("/detokenize", json!({ "tokens": [5] })),
        ("/apply-template", json!({ "messages": [{ "role": "user", "content": "hi" }] })),
    ];
    for (path, mut body) in requests {
        body["model"] = json!("gpt-4o");
        let error = shared().post(path, &body).error(404);
        assert_eq!((&error["code"], &error["param"]), (&"model_not_found".into(), &"model".into()), "{path}");
        assert!(error["message"].as_str().unwrap().contains("gpt-4o"), "{error}");
    }
    assert_eq!(shared().get("/v1/models/gpt-4o").error(404)["code"], "model_not_found");
}

#[test]
fn what_does_not_fit_the_context_is_refused_with_both_numbers() {
    let long = "a".repeat(9000);
    let mut chat = chat();
    chat["messages"][0]["content"] = json!(long);
    for (path, body, param) in [(CHAT, chat, "messages"), (TEXT, json!({ "prompt": long }), "prompt")] {
        let error = shared().post(path, &body).error(400);
        assert_eq!((&error["code"], &error["param"]), (&"context_length_exceeded".into(), &param.into()), "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("8192") && message.contains("90"), "{message}");
    }
}

#[test]
fn more_max_tokens_than_the_context_has_room_for_are_cut() {
    let prompt: Vec<u32> = vec![7; 8190];
    let body = json!({ "prompt": prompt, "max_tokens": 1_000_000, "ignore_eos": true });
    assert_eq!(shared().ok(TEXT, &body)["usage"]["total_tokens"], 8192);
}

#[test]
fn strict_parameters_refuse_what_nobody_knows() {
    let server = Server::start(&["--strict-params"]);
    for (path, mut body) in [(CHAT, chat()), (TEXT, completion()), ("/tokenize", json!({ "content": "a" }))] {
        server.ok(path, &body);
        body["frobnicate"] = json!(1);
        let error = server.post(path, &body).error(400);
        assert_eq!((&error["param"], &error["code"]), (&"frobnicate".into(), &"unknown_parameter".into()));
    }
    let mut body = chat();
    body["messages"] = json!([{ "role": "user", "content": [{ "type": "text", "text": "a", "cache_control": {} }] }]);
    let error = server.post(CHAT, &body).error(400);
    assert_eq!(error["param"], "messages[0].content[0].cache_control");
}

#[test]
fn a_full_queue_is_told_with_a_time_to_come_back() {
    let server = Server::start(&["--parallel", "1", "--queue-limit", "1"]);
    let long = json!({ "prompt": "a", "ignore_eos": true, "stream": true });
    let mut running = server.wire(TEXT, &long);
    running.event().unwrap();
    let _queued = server.wire(TEXT, &long);
    server.until("taper_requests_waiting", |waiting| waiting == 1.0);
    let answer = server.post(TEXT, &completion());
    let error = answer.error(429);
    assert_eq!((&error["type"], &error["code"]), (&"rate_limit_error".into(), &"rate_limit_exceeded".into()));
    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds));
    assert_eq!(server.metric("taper_requests_refused_total{reason=\"queue_full\"}"), 1.0);
}

#[test]
fn one_user_leaves_room_in_the_queue_for_others() {
    let server = Server::start(&["--parallel", "1", "--queue-limit", "2"]);
    let of = |user: &str| json!({ "prompt": "a", "ignore_eos": true, "stream": true, "user": user });
    let mut running = server.wire(TEXT, &of("ada"));
    running.event().unwrap();
    let _queued = server.wire(TEXT, &of("ada"));
    server.until("taper_requests_waiting", |waiting| waiting == 1.0);
    let answer = server.post(TEXT, &of("ada"));
    assert!(answer.error(429)["message"].as_str().unwrap().contains("this user or key has its share"));
    assert!(answer.header("retry-after").is_some());
    assert_eq!(server.metric("taper_requests_refused_total{reason=\"share_taken\"}"), 1.0);
    let _other = server.wire(TEXT, &of("bo"));
    server.until("taper_requests_waiting", |waiting| waiting == 2.0);
}

/// A place for one of two answers is no place.
#[test]
fn a_request_that_is_refused_in_part_leaves_nothing_behind() {
    let server = Server::start(&["--parallel", "1", "--queue-limit", "2"]);
    let long = json!({ "prompt": "a", "ignore_eos": true, "stream": true });
    let mut running = server.wire(TEXT, &long);
    running.event().unwrap();
    let mut two = completion();
    two["n"] = json!(3);
    server.post(TEXT, &two).error(429);
    server.until("taper_requests_waiting", |waiting| waiting == 0.0);
    drop(running);
    server.becomes_idle();
    let metrics = server.metrics();
    let finished: f64 =
        metrics.iter().filter(|(name, _)| name.starts_with("taper_requests_finished")).map(|m| m.1).sum();
    assert_eq!(metrics["taper_requests_started_total"], finished);
    // More than there are places at all: to wait would not help.
    two["n"] = json!(4);
    assert_eq!(server.post(TEXT, &two).error(400)["param"], "n");
}
