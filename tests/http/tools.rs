//! Tools and thoughts over HTTP, with a model of random weights: what it is made to call is a call, whole and streamed.

use serde_json::{Map, Value, json};

use crate::server::{Server, shared};
use crate::shapes::{array, with};

const CHAT: &str = "/v1/chat/completions";

fn weather() -> Value {
    json!({
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of a city",
            "parameters": {
                "type": "object",
                "properties": { "city": { "enum": ["Seoul", "Zürich"] }, "days": { "type": "integer", "minimum": 1, "maximum": 9 } },
                "required": ["city", "days"],
                "additionalProperties": false,
            },
        },
    })
}

fn clock() -> Value {
    json!({ "type": "function", "function": { "name": "clock", "parameters": { "type": "object", "properties": {}, "additionalProperties": false } } })
}

fn chat(seed: u64, choice: Value) -> Value {
    json!({
        "messages": [{ "role": "user", "content": "What is the weather?" }],
        "tools": [weather(), clock()],
        "tool_choice": choice,
        "max_tokens": 200,
        "seed": seed,
    })
}

fn named(name: &str) -> Value {
    json!({ "type": "function", "function": { "name": name } })
}

fn assert_is_a_call_of_the_weather(call: &Value) {
    assert_eq!((&call["type"], &call["function"]["name"]), (&"function".into(), &"get_weather".into()), "{call}");
    assert!(call["id"].as_str().is_some_and(|id| id.starts_with("call_")), "{call}");
    let arguments: Map<String, Value> = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
    assert!(["Seoul", "Zürich"].contains(&arguments["city"].as_str().unwrap()), "{arguments:?}");
    assert!((1..=9).contains(&arguments["days"].as_u64().unwrap()) && arguments.len() == 2, "{arguments:?}");
}

#[test]
fn a_named_tool_is_called_with_arguments_of_its_schema() {
    for seed in 0..3 {
        let answer = shared().ok(CHAT, &chat(seed, named("get_weather")));
        let choice = &answer["choices"][0];
        assert_eq!((&choice["finish_reason"], &choice["message"]["content"]), (&"tool_calls".into(), &Value::Null));
        let calls = array(&choice["message"]["tool_calls"]);
        assert_eq!(calls.len(), 1);
        assert_is_a_call_of_the_weather(&calls[0]);
    }
}

#[test]
fn without_parallel_calls_a_required_call_is_one() {
    for seed in 0..3 {
        let body = with(chat(seed, json!("required")), "parallel_tool_calls", json!(false));
        let answer = shared().ok(CHAT, &body);
        assert_eq!(array(&answer["choices"][0]["message"]["tool_calls"]).len(), 1, "{answer}");
    }
}

#[test]
fn only_allowed_tools_are_called() {
    let allowed = json!({
        "type": "allowed_tools",
        "allowed_tools": { "mode": "required", "tools": [named("clock")] },
    });
    let body = with(chat(5, allowed), "parallel_tool_calls", json!(false));
    let calls = shared().ok(CHAT, &body)["choices"][0]["message"]["tool_calls"].clone();
    assert_eq!((&calls[0]["function"]["name"], &calls[0]["function"]["arguments"]), (&"clock".into(), &"{}".into()));
}

/// As OpenAI's clients do: the first delta of a call has its id and name, all of them parts of the arguments.
#[test]
fn streamed_parts_make_the_call_of_the_whole_answer() {
    let body = with(chat(2, named("get_weather")), "temperature", json!(0));
    let whole = shared().ok(CHAT, &body)["choices"][0]["message"]["tool_calls"][0].clone();
    let events = shared().stream(CHAT, &body);
    let choices: Vec<_> = events.iter().flat_map(|event| array(&event["choices"])).collect();
    let deltas: Vec<_> =
        choices.iter().filter_map(|choice| choice["delta"]["tool_calls"].as_array()).flatten().collect();
    assert!(deltas.iter().all(|delta| delta["index"] == 0));
    assert_eq!((&deltas[0]["type"], &deltas[0]["function"]["name"]), (&"function".into(), &"get_weather".into()));
    assert!(deltas[1..].iter().all(|delta| delta["id"].is_null() && delta["function"]["name"].is_null()));
    let arguments: String = deltas.iter().filter_map(|delta| delta["function"]["arguments"].as_str()).collect();
    assert_eq!(whole["function"]["arguments"], *arguments);
    assert!(deltas.len() > 2, "arguments come as they are written: {deltas:?}");
    assert_eq!(choices.last().unwrap()["finish_reason"], "tool_calls");
}

#[test]
fn a_free_model_may_answer_with_text() {
    let answer = shared().ok(CHAT, &with(chat(0, json!("auto")), "max_tokens", json!(10)));
    let choice = &answer["choices"][0];
    assert_eq!((&choice["finish_reason"], &choice["message"]["tool_calls"]), (&"length".into(), &Value::Null));
    assert!(choice["message"]["content"].is_string());
}

#[test]
fn earlier_calls_and_their_results_are_told_to_the_model() {
    let mut body = chat(0, json!("auto"));
    body["max_tokens"] = 4.into();
    body["messages"] = json!([
        { "role": "user", "content": "What time is it?" },
        { "role": "assistant", "content": null, "tool_calls": [
            { "id": "call_1", "type": "function", "function": { "name": "clock", "arguments": "{}" } },
        ] },
        { "role": "tool", "tool_call_id": "call_1", "content": "12:00" },
    ]);
    shared().ok(CHAT, &body);
}

#[test]
fn mistakes_in_tools_are_refused_by_name() {
    let function = |function: Value| json!([{ "type": "function", "function": function }]);
    for (field, value, param) in [
        ("tools", function(json!({ "name": "no spaces" })), "tools[0].function.name"),
        ("tools", function(json!({ "name": "" })), "tools[0].function.name"),
        ("tools", function(json!({ "name": "f", "parameters": [] })), "tools[0].function.parameters"),
        ("tools", json!([clock(), clock()]), "tools[1].function.name"),
        ("tools", json!([{ "type": "web_search" }]), "tools[0]"),
        ("tools", json!(vec![clock(); 129]), "tools"),
        ("tool_choice", named("unknown"), "tool_choice"),
        ("tool_choice", json!("always"), "tool_choice"),
        ("guided_regex", json!("a+"), "guided_regex"),
        ("thinking_token_budget", json!(-2), "thinking_token_budget"),
    ] {
        let error = shared().post(CHAT, &with(chat(0, json!("auto")), field, value)).error(400);
        assert!(error["param"].as_str().is_some_and(|found| found.starts_with(param)), "{field}: {error}");
    }
    let mut body = chat(0, json!("required"));
    body["tools"] = json!([]);
    assert_eq!(shared().post(CHAT, &body).error(400)["param"], "tool_choice");
}

/// A template that opens thoughts, as those of reasoning models do.
const THINKS: &str = "{% for message in messages %}{{ message.content }}{% endfor %}<think>{# </think> #}";

#[test]
fn thoughts_have_a_field_of_their_own_and_end_with_their_budget() {
    let server = Server::start(&["--chat-template", THINKS]);
    let body = json!({
        "messages": [{ "role": "user", "content": "think" }],
        "max_tokens": 30, "temperature": 0, "ignore_eos": true, "thinking_token_budget": 6,
    });
    let answer = server.ok(CHAT, &body);
    let message = &answer["choices"][0]["message"];
    let (thoughts, text) = (message["reasoning_content"].as_str().unwrap(), message["content"].as_str().unwrap());
    assert!(!thoughts.is_empty() && !text.is_empty(), "{message}");
    assert_eq!(message["reasoning"], *thoughts);
    let count = answer["usage"]["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap();
    assert!((6..20).contains(&count), "{answer}");

    let events = server.stream(CHAT, &body);
    let joined = |field: &str| -> String {
        let deltas = events.iter().flat_map(|event| array(&event["choices"])).map(|choice| &choice["delta"][field]);
        deltas.filter_map(Value::as_str).collect()
    };
    assert_eq!((joined("reasoning_content").as_str(), joined("content").as_str()), (thoughts, text));

    let raw = server.ok(CHAT, &with(body.clone(), "reasoning_format", json!("none")));
    let raw = &raw["choices"][0]["message"];
    assert_eq!(raw["reasoning_content"], Value::Null);
    assert!(raw["content"].as_str().unwrap().contains("</think>"), "{raw}");

    // A form begins after the thoughts.
    let formed = server.ok(CHAT, &with(with(body, "guided_choice", json!(["yes"])), "ignore_eos", json!(false)));
    let choice = &formed["choices"][0];
    assert_eq!((&choice["message"]["content"], &choice["finish_reason"]), (&"yes".into(), &"stop".into()));
    assert!(choice["message"]["reasoning_content"].as_str().is_some_and(|text| !text.is_empty()));
}

#[test]
fn thoughts_before_a_call_that_must_be_made_end_with_their_budget() {
    let server = Server::start(&["--chat-template", THINKS, "--reasoning-budget-message", " Enough."]);
    for choice in [named("get_weather"), json!("required")] {
        let body = with(chat(3, choice), "thinking_token_budget", json!(5));
        let body = with(body, "parallel_tool_calls", json!(false));
        let answer = server.ok(CHAT, &body);
        let choice = &answer["choices"][0];
        assert_eq!(choice["finish_reason"], "tool_calls", "{answer}");
        assert!(
            choice["message"]["reasoning_content"].as_str().is_some_and(|text| text.ends_with(" Enough.")),
            "{answer}"
        );
        assert_eq!(array(&choice["message"]["tool_calls"]).len(), 1);
        let count = answer["usage"]["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap();
        // Five thoughts, the message and the tag, each of a token or more; none of the call.
        assert!((7..30).contains(&count), "{answer}");
    }
}

#[test]
fn a_conversation_is_written_out_with_the_tools_that_the_model_would_be_told_of() {
    let conversation = |tools: Value| json!({ "messages": [{ "role": "user", "content": "hi" }], "tools": tools });
    let told = conversation(json!([weather()]));
    let prompt = |body: &Value| shared().ok("/apply-template", body)["prompt"].as_str().unwrap().to_owned();
    assert!(prompt(&told).contains("get_weather") && prompt(&told).contains("Zürich"));
    assert!(!prompt(&with(told.clone(), "tool_choice", json!("none"))).contains("get_weather"));
    assert!(!prompt(&conversation(json!([]))).contains("get_weather"));
    let count = |body: &Value| shared().ok("/tokenize", body)["count"].as_u64().unwrap();
    assert!(count(&told) > count(&conversation(json!([]))));
    let tokens = shared().ok("/apply-template", &told)["tokens"].as_u64().unwrap();
    assert_eq!(count(&told), tokens);
    let wrong = conversation(json!([clock(), clock()]));
    assert_eq!(shared().post("/apply-template", &wrong).error(400)["param"], "tools[1].function.name");
}

#[test]
fn beside_tools_an_answer_follows_its_schema_or_is_a_call() {
    let schema = json!({ "type": "object", "properties": { "degrees": { "enum": [20, 21] } }, "required": ["degrees"], "additionalProperties": false });
    let format = json!({ "type": "json_schema", "json_schema": { "name": "weather", "schema": schema } });
    let mut kinds = [0, 0];
    for seed in 0..8 {
        let body = with(chat(seed, json!("auto")), "parallel_tool_calls", json!(false));
        let answer = shared().ok(CHAT, &with(body, "response_format", format.clone()));
        let choice = &answer["choices"][0];
        match choice["message"]["content"].as_str() {
            Some(text) => {
                let found: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {answer}"));
                assert!([20, 21].contains(&found["degrees"].as_i64().unwrap()), "{text}");
                assert_eq!(choice["finish_reason"], "stop");
                kinds[0] += 1;
            }
            None => {
                assert_eq!(choice["finish_reason"], "tool_calls", "{answer}");
                kinds[1] += 1;
            }
        }
    }
    assert!(kinds.iter().sum::<i32>() == 8 && kinds[1] > 0, "{kinds:?}");
    // What must be a call is one, whatever an answer would have to be.
    let forced = shared().ok(CHAT, &with(chat(1, named("get_weather")), "response_format", format));
    assert_is_a_call_of_the_weather(&array(&forced["choices"][0]["message"]["tool_calls"])[0]);
}
