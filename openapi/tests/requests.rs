//! Requests as clients send them, right and wrong.

use serde_json::{Value, json};
use taper_openapi::chat::{ChatRequest, ContentPart, Message, MessageContent, Role};
use taper_openapi::completions::{CompletionRequest, Prompt};
use taper_openapi::tokenize::{DetokenizeRequest, TokenizeRequest};
use taper_openapi::values::{Bias, BiasTarget, LogitBias, Seed, Stop, TokenId};
use taper_openapi::{Body, BodyError, parse};

fn read<T: Body>(body: &Value) -> Result<T, BodyError> {
    parse(body.to_string().as_bytes())
}

/// A chat with these fields besides its messages.
fn chat(mut fields: Value) -> Result<ChatRequest, BodyError> {
    fields["messages"] = json!([{ "role": "user", "content": "hi" }]);
    read(&fields)
}

fn message(message: Value) -> Message {
    let mut chat: ChatRequest = read(&json!({ "messages": [message] })).expect("a chat");
    chat.messages.remove(0)
}

#[test]
fn own_shared_and_unknown_fields_are_told_apart() {
    let request = chat(json!({
        "max_completion_tokens": 7, "temperature": 0.5, "repetition_penalty": 1.1, "id_slot": 2, "x": { "y": null },
    }))
    .unwrap();
    assert_eq!(request.max_completion_tokens, Some(7));
    assert_eq!((request.sampling.temperature, request.sampling.repeat_penalty), (Some(0.5), Some(1.1)));
    assert_eq!(request.unknown.keys().collect::<Vec<_>>(), ["id_slot", "x"]);

    let request: CompletionRequest = read(&json!({ "prompt": "a", "echo": true, "top_k": 4, "tools": [] })).unwrap();
    assert_eq!((request.echo, request.sampling.top_k), (Some(true), Some(4)));
    assert_eq!(request.unknown.keys().collect::<Vec<_>>(), ["tools"]);
}

#[test]
fn unknown_fields_within_others_are_named_by_their_paths() {
    let options = json!({ "include_usage": true, "include_obfuscation": false, "x": { "y": 1 }, "z": null });
    let part = json!({ "type": "text", "text": "hi", "cache_control": { "type": "ephemeral" } });
    let call =
        json!({ "id": "1", "type": "function", "index": 0, "function": { "name": "f", "arguments": "{}", "x": 1 } });
    let parameters = json!({ "type": "object", "properties": { "anything": { "made": "up" } } });
    let body = json!({
        "stream": true,
        "stream_options": options,
        "messages": [
            { "role": "user", "content": [part, part], "seen_by_the_template": 1 },
            { "role": "user", "content": [part] },
            { "role": "assistant", "tool_calls": [call] },
        ],
        "tools": [{ "type": "function", "strict": true, "function": { "name": "f", "parameters": parameters, "more": 1 } }],
        "tool_choice": { "type": "function", "function": { "name": "f", "x": 1 }, "y": 2 },
        "response_format": { "type": "json_schema", "json_schema": { "name": "n", "schema": parameters, "z": 3 } },
        "prediction": { "type": "content", "content": [part] },
        "logit_bias": { "5": 1 },
        "chat_template_kwargs": { "free": { "to": "say" } },
    });
    let request: ChatRequest = read(&body).unwrap();
    let mut found: Vec<_> = request.unknown.keys().map(String::as_str).collect();
    found.sort_unstable();
    let expected = [
        "messages[0].content[0].cache_control",
        "messages[2].tool_calls[0].function.x",
        "messages[2].tool_calls[0].index",
        "prediction.content[0].cache_control",
        "response_format.json_schema.z",
        "stream_options.include_obfuscation",
        "stream_options.x",
        "tool_choice.function.x",
        "tool_choice.y",
        "tools[0].strict",
    ];
    assert_eq!(found, expected);
    let error = chat(json!({ "stream_options": { "include_usage": 1 } })).unwrap_err();
    assert_eq!(error.param(), Some("stream_options.include_usage"));
}

#[test]
fn all_that_the_document_describes_is_known() {
    let request: CompletionRequest = read(&json!({
        "prompt": [[1, 2], [3]], "stream_options": { "include_usage": true, "continuous_usage_stats": true },
        "structured_outputs": { "json": { "x-y": 1 }, "regex": "a" }, "logit_bias": [["a", false]], "stop": ["a"],
        "repetition_detection": { "max_pattern_size": 1, "min_pattern_size": 1, "min_count": 2 },
    }))
    .unwrap();
    assert!(request.unknown.is_empty(), "{:?}", request.unknown);
}

#[test]
fn null_is_absent() {
    let all = json!({
        "model": null, "max_tokens": null, "temperature": null, "stop": null, "seed": null, "logit_bias": null,
        "stream": null, "stream_options": null, "stop_token_ids": null, "tools": null, "logprobs": null,
        "response_format": null, "user": null,
    });
    assert_eq!(chat(all).unwrap(), chat(json!({})).unwrap());
    let both_names = json!({ "repeat_penalty": null, "repetition_penalty": 1.1 });
    assert_eq!(chat(both_names).unwrap().sampling.repeat_penalty, Some(1.1));
}

#[test]
fn numbers_out_of_range_are_left_to_the_server() {
    let sampling = chat(json!({ "max_tokens": -1, "n": 0, "temperature": 5, "top_p": -0.5 })).unwrap().sampling;
    assert_eq!((sampling.max_tokens, sampling.n), (Some(-1), Some(0)));
    assert_eq!((sampling.temperature, sampling.top_p), (Some(5.0), Some(-0.5)));
    let request: DetokenizeRequest = read(&json!({ "tokens": [-1, 1_u64 << 40] })).unwrap();
    assert_eq!(request.tokens, [TokenId(-1), TokenId(1 << 40)]);
}

#[test]
fn whole_numbers_may_be_written_as_floats() {
    let sampling = chat(json!({ "max_tokens": 16.0, "seed": 3.0, "temperature": 1.0, "stop_token_ids": [7.0] }));
    let sampling = sampling.unwrap().sampling;
    assert_eq!(sampling.stop_token_ids, Some(vec![TokenId(7)]));
    assert_eq!((sampling.max_tokens, sampling.seed, sampling.temperature), (Some(16), Some(Seed::Fixed(3)), Some(1.0)));
}

#[test]
fn seeds_are_signed_or_unsigned() {
    let seed = |seed: Value| chat(json!({ "seed": seed })).map(|request| request.sampling.seed);
    assert_eq!(seed(json!(0)), Ok(Some(Seed::Fixed(0))));
    assert_eq!(seed(json!(u64::MAX)), Ok(Some(Seed::Fixed(u64::MAX))));
    assert_eq!(seed(json!(-1)), Ok(Some(Seed::Random)));
    assert_eq!(seed(json!(i64::MIN)), Ok(Some(Seed::Random)));
    assert_eq!(seed(json!(0.5)).unwrap_err().to_string(), "`seed`: 0.5 is not a whole number of 64 bits");
}

#[test]
fn stop_is_one_string_or_several() {
    let stop = |stop: Value| chat(json!({ "stop": stop })).unwrap().sampling.stop.map(Stop::into_vec);
    assert_eq!(stop(json!("a")), Some(vec!["a".to_owned()]));
    assert_eq!(stop(json!(["a", "b"])), Some(vec!["a".to_owned(), "b".to_owned()]));
}

#[test]
fn logit_bias_is_openai_s_map_or_llama_server_s_pairs() {
    let bias = |bias: Value| chat(json!({ "logit_bias": bias })).unwrap().sampling.logit_bias.unwrap();
    assert_eq!(
        bias(json!({ "15": -100, "7": 0.5 })),
        LogitBias::Map([("15".into(), -100.0), ("7".into(), 0.5)].into())
    );
    assert_eq!(
        bias(json!([[15, false], ["Hello", 1.5]])),
        LogitBias::Pairs(vec![
            (BiasTarget::TokenId(TokenId(15)), Bias::Allowed(false)),
            (BiasTarget::Text("Hello".into()), Bias::Add(1.5)),
        ])
    );
}

#[test]
fn prompts_are_texts_or_tokens() {
    let prompt = |prompt: Value| read::<CompletionRequest>(&json!({ "prompt": prompt })).unwrap().prompt;
    assert_eq!(prompt(json!("a")), Prompt::Text("a".into()));
    assert_eq!(prompt(json!(["a", "b"])), Prompt::Texts(vec!["a".into(), "b".into()]));
    assert_eq!(prompt(json!([1, 2])), Prompt::Tokens(vec![TokenId(1), TokenId(2)]));
    assert_eq!(prompt(json!([[1], [2]])), Prompt::TokenLists(vec![vec![TokenId(1)], vec![TokenId(2)]]));
    assert_eq!(prompt(json!([])), Prompt::Texts(vec![]));
}

#[test]
fn messages_of_all_roles_are_read() {
    for (name, role) in [
        ("system", Role::System),
        ("developer", Role::Developer),
        ("user", Role::User),
        ("assistant", Role::Assistant),
        ("tool", Role::Tool),
        ("function", Role::Function),
    ] {
        assert_eq!(message(json!({ "role": name, "content": "a" })).role, role);
    }
}

#[test]
fn content_is_text_parts_or_nothing() {
    assert_eq!(message(json!({ "role": "assistant", "content": null })).content, None);
    let text = |text: &str| ContentPart::Text { text: text.to_owned() };
    let content = json!([{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }]);
    let content = message(json!({ "role": "user", "content": content })).content;
    assert_eq!(content, Some(MessageContent::Parts(vec![text("a"), text("b")])));
    let image = json!([{ "type": "image_url", "image_url": { "url": "data:," } }]);
    let image = message(json!({ "role": "user", "content": image })).content;
    assert!(matches!(image, Some(MessageContent::Parts(parts)) if matches!(parts[0], ContentPart::ImageUrl { .. })));
}

#[test]
fn a_message_reaches_the_template_with_all_its_fields() {
    let sent = json!({
        "role": "assistant",
        "content": [{ "type": "text", "text": "a" }],
        "reasoning_content": "b",
        "tool_calls": [{ "id": "1", "type": "function", "function": { "name": "f", "arguments": "{}" } }],
        "tool_plan": "c",
    });
    let read = message(sent.clone());
    assert_eq!(read.other.keys().collect::<Vec<_>>(), ["tool_plan"]);
    assert_eq!(serde_json::to_value(read).unwrap(), sent);
}

#[test]
fn a_mistake_is_told_with_its_field() {
    let messages = |messages: Value| read::<ChatRequest>(&json!({ "messages": messages }));
    for (result, param, message) in [
        (chat(json!({ "top_p": "x" })), "top_p", "`top_p`: invalid type: string \"x\", expected f64"),
        (chat(json!({ "n": 1.5 })), "n", "`n`: invalid type: floating point `1.5`, expected i64"),
        (chat(json!({ "stop": [1] })), "stop", "`stop`: expected a string or an array of strings"),
        (
            chat(json!({ "stop_token_ids": [1, "2"] })),
            "stop_token_ids[1]",
            "`stop_token_ids[1]`: invalid type: string \"2\", expected a JSON number",
        ),
        (chat(json!({ "logprobs": 3 })), "logprobs", "`logprobs`: invalid type: integer `3`, expected a boolean"),
        (
            chat(json!({ "repeat_penalty": 1, "repetition_penalty": 1 })),
            "repeat_penalty",
            "`repeat_penalty` was given twice, under two names; give it once",
        ),
        (read(&json!({})), "messages", "`messages` is missing"),
        (messages(json!(null)), "messages", "`messages` is missing"),
        (messages(json!([{}])), "messages[0].role", "`messages[0].role` is missing"),
        (
            messages(json!([{ "role": "user", "content": 1 }])),
            "messages[0].content",
            "`messages[0].content`: invalid type: integer `1`, expected a string or an array of content parts",
        ),
        (
            messages(json!([{ "role": "user", "content": [{ "type": "text" }] }])),
            "messages[0].content[0].text",
            "`messages[0].content[0].text` is missing",
        ),
        (
            messages(json!([{ "role": "user", "content": [{ "type": "video_url" }] }])),
            "messages[0].content[0].type",
            "`messages[0].content[0].type`: unknown variant `video_url`, expected one of `text`, `refusal`, \
             `image_url`, `input_audio`, `file`",
        ),
    ] {
        let error = result.expect_err(message);
        assert_eq!((error.param(), error.to_string().as_str()), (Some(param), message));
    }
}

#[test]
fn a_mistake_does_not_echo_a_long_value() {
    let error = chat(json!({ "top_p": "é".repeat(1000) })).unwrap_err().to_string();
    assert!(error.starts_with("`top_p`: invalid type: string \"éé") && error.ends_with("é…"), "{error}");
    assert!(error.len() < 320);
}

#[test]
fn a_body_that_is_not_an_object_is_refused() {
    for (body, message) in [
        ("", "the body is not valid JSON: EOF while parsing a value at line 1 column 0"),
        ("{\"messages\": [}", "the body is not valid JSON: expected value at line 1 column 15"),
        ("[]", "the body must be a JSON object; it is an array"),
        ("null", "the body must be a JSON object; it is null"),
    ] {
        let error = parse::<ChatRequest>(body.as_bytes()).expect_err(body);
        assert_eq!((error.param(), error.to_string().as_str()), (None, message));
    }
}

#[test]
fn both_dialects_of_tokenize_are_read() {
    let request: TokenizeRequest = read(&json!({ "content": "a", "add_special": true, "with_pieces": true })).unwrap();
    assert_eq!(
        (request.content.as_deref(), request.add_special, request.with_pieces),
        (Some("a"), Some(true), Some(true))
    );
    let request: TokenizeRequest = read(&json!({
        "model": "m", "messages": [{ "role": "user", "content": "a" }], "return_token_strs": true, "frobnicate": [],
    }))
    .unwrap();
    assert_eq!((request.messages.map(|messages| messages.len()), request.return_token_strs), (Some(1), Some(true)));
    assert_eq!(request.unknown.keys().collect::<Vec<_>>(), ["frobnicate"]);
}
