//! Responses have the keys that clients read, where they read them.

use serde::Serialize;
use serde_json::{Value, json};
use taper_openapi::chat::{
    AssistantRole, ChatChoice, ChatChunk, ChatChunkChoice, ChatCompletion, ChatDelta, ChatMessage, FunctionCallDelta,
    ToolCallDelta, ToolType,
};
use taper_openapi::completions::{Completion, CompletionChoice};
use taper_openapi::error::{ErrorBody, ErrorResponse, ErrorType};
use taper_openapi::logprobs::{ChatLogprobs, TextLogprobs, TokenLogprob, TopLogprob};
use taper_openapi::object::{ChatChunkName, ChatCompletionName, TextCompletionName};
use taper_openapi::tokenize::{Piece, Token, TokenPiece, TokenizeResponse};
use taper_openapi::usage::{FinishReason, PromptProgress, Timings, Usage};

fn json_of(value: impl Serialize) -> Value {
    serde_json::to_value(value).expect("responses are JSON")
}

fn chunk(delta: ChatDelta, finish_reason: Option<FinishReason>) -> ChatChunk {
    ChatChunk {
        id: "chatcmpl-1".into(),
        object: ChatChunkName::Name,
        created: 1,
        model: "m".into(),
        system_fingerprint: "f".into(),
        choices: vec![ChatChunkChoice { index: 0, delta, logprobs: None, finish_reason }],
        usage: None,
        timings: None,
        prompt_progress: None,
    }
}

#[test]
fn a_chat_completion_has_openai_s_keys() {
    let top = vec![TopLogprob { token: "Hi".into(), logprob: -0.5, bytes: Some(vec![72, 105]) }];
    let token = TokenLogprob { token: "Hi".into(), logprob: -0.5, bytes: Some(vec![72, 105]), top_logprobs: top };
    let completion = ChatCompletion {
        id: "chatcmpl-1".into(),
        object: ChatCompletionName::Name,
        created: 1,
        model: "m".into(),
        system_fingerprint: "f".into(),
        choices: vec![ChatChoice {
            index: 0,
            message: ChatMessage {
                role: AssistantRole::Assistant,
                content: Some("Hi".into()),
                ..ChatMessage::default()
            },
            logprobs: Some(ChatLogprobs { content: Some(vec![token]), refusal: None }),
            finish_reason: FinishReason::Length,
        }],
        usage: Usage { prompt_tokens: 2, completion_tokens: 1, total_tokens: 3, ..Usage::default() },
        timings: None,
    };
    assert_eq!(
        json_of(completion),
        json!({
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "system_fingerprint": "f",
            "choices": [{
                "index": 0,
                "message": { "role": "assistant", "content": "Hi", "refusal": null },
                "logprobs": {
                    "content": [{
                        "token": "Hi",
                        "logprob": -0.5,
                        "bytes": [72, 105],
                        "top_logprobs": [{ "token": "Hi", "logprob": -0.5, "bytes": [72, 105] }],
                    }],
                    "refusal": null,
                },
                "finish_reason": "length",
            }],
            "usage": {
                "prompt_tokens": 2,
                "completion_tokens": 1,
                "total_tokens": 3,
                "prompt_tokens_details": { "cached_tokens": 0 },
                "completion_tokens_details": {
                    "reasoning_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
                },
            },
        })
    );
}

#[test]
fn a_delta_has_only_what_was_added() {
    let choice = |delta, finish_reason| json_of(chunk(delta, finish_reason))["choices"][0].clone();
    let first =
        ChatDelta { role: Some(AssistantRole::Assistant), content: Some(String::new()), ..ChatDelta::default() };
    assert_eq!(
        choice(first, None),
        json!({ "index": 0, "delta": { "role": "assistant", "content": "" }, "logprobs": null, "finish_reason": null })
    );
    assert_eq!(
        choice(ChatDelta::default(), Some(FinishReason::Stop)),
        json!({ "index": 0, "delta": {}, "logprobs": null, "finish_reason": "stop" })
    );
}

#[test]
fn a_chunk_has_no_keys_of_extras_that_it_does_not_carry() {
    let keys = |chunk: ChatChunk| json_of(chunk).as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    let plain = chunk(ChatDelta::default(), None);
    let base = ["id", "object", "created", "model", "system_fingerprint", "choices"];
    assert_eq!(keys(plain.clone()), base);
    let full = ChatChunk {
        usage: Some(Usage::default()),
        timings: Some(Timings::default()),
        prompt_progress: Some(PromptProgress::default()),
        ..plain
    };
    assert_eq!(keys(full)[base.len()..], ["usage", "timings", "prompt_progress"]);
}

#[test]
fn a_tool_call_comes_in_pieces() {
    let piece = ToolCallDelta {
        index: 0,
        id: Some("call_1".into()),
        kind: Some(ToolType::Function),
        function: FunctionCallDelta { name: Some("f".into()), arguments: Some(String::new()) },
    };
    assert_eq!(
        json_of(piece),
        json!({ "index": 0, "id": "call_1", "type": "function", "function": { "name": "f", "arguments": "" } })
    );
}

#[test]
fn a_text_completion_has_openai_s_keys() {
    let top = json!({ " a": -0.5, " b": -1.5 }).as_object().cloned();
    let completion = Completion {
        id: "cmpl-1".into(),
        object: TextCompletionName::Name,
        created: 1,
        model: "m".into(),
        system_fingerprint: "f".into(),
        choices: vec![CompletionChoice {
            index: 0,
            text: "x a".into(),
            logprobs: Some(TextLogprobs {
                tokens: vec!["x".into(), " a".into()],
                token_logprobs: vec![None, Some(-0.5)],
                top_logprobs: vec![None, top],
                text_offset: vec![0, 1],
            }),
            finish_reason: FinishReason::Stop,
        }],
        usage: Usage::default(),
        timings: None,
    };
    let json = json_of(completion);
    assert_eq!((&json["object"], &json["choices"][0]["text"]), (&json!("text_completion"), &json!("x a")));
    assert_eq!(
        json["choices"][0]["logprobs"],
        json!({
            "tokens": ["x", " a"],
            "token_logprobs": [null, -0.5],
            "top_logprobs": [null, { " a": -0.5, " b": -1.5 }],
            "text_offset": [0, 1],
        })
    );
}

#[test]
fn timings_have_llama_server_s_keys() {
    let timings = json_of(Timings::default());
    let keys: Vec<_> = timings.as_object().expect("an object").keys().collect();
    assert_eq!(
        keys,
        [
            "cache_n",
            "prompt_n",
            "prompt_ms",
            "prompt_per_token_ms",
            "prompt_per_second",
            "predicted_n",
            "predicted_ms",
            "predicted_per_token_ms",
            "predicted_per_second",
            "draft_n",
            "draft_n_accepted",
            "queue_ms",
        ]
    );
}

#[test]
fn an_error_has_all_four_keys() {
    let error = ErrorBody {
        message: "no".into(),
        kind: ErrorType::InvalidRequestError,
        param: None,
        code: Some("invalid_value".into()),
    };
    assert_eq!(
        json_of(ErrorResponse { error }),
        json!({ "error": {
            "message": "no", "type": "invalid_request_error", "param": null, "code": "invalid_value",
        } })
    );
}

#[test]
fn tokens_are_ids_or_pieces() {
    let piece = |id, piece| Token::Piece(TokenPiece { id, piece });
    let response = TokenizeResponse {
        tokens: vec![Token::Id(1), piece(2, Piece::Text("a".into())), piece(3, Piece::Bytes(vec![0xE2, 0x82]))],
        count: 3,
        max_model_len: 9,
        token_strs: None,
    };
    assert_eq!(
        json_of(response),
        json!({
            "tokens": [1, { "id": 2, "piece": "a" }, { "id": 3, "piece": [226, 130] }],
            "count": 3,
            "max_model_len": 9,
            "token_strs": null,
        })
    );
}
