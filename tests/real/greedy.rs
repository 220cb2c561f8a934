//! Greedy text is llama.cpp's, as far as two implementations of the same arithmetic agree.

use std::path::PathBuf;
use std::sync::PoisonError;

use serde_json::Value;
use taper_server::text::{DecodeOptions, EncodeOptions};
use taper_tests::engine::{ONE_AT_A_TIME, TestEngine, default_settings, finish};
use taper_tests::{fixture, test_model};

/// Characters that must agree; later ones may differ where two candidates are nearly tied.
const CHARACTERS: usize = 24;
/// Prompts of ten that must agree so far.
const MIN_AGREEING: usize = 9;

fn golden(name: &str) -> (Option<PathBuf>, Vec<Value>) {
    let text = std::fs::read_to_string(fixture("real").join(name)).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    (test_model(json["origin"]["model"].as_str().unwrap()), json["prompts"].as_array().unwrap().clone())
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn assert_same_beginnings(name: &str) {
    let (Some(path), prompts) = golden(name) else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let engine = TestEngine::start(&path, &default_settings());
    let tokenizer = engine.opened.tokenizer().unwrap();
    let requests: Vec<_> = prompts.iter().map(|prompt| engine.submit(&ids(&prompt["prompt_ids"]), 32)).collect();
    let beginning = |text: &str| text.chars().take(CHARACTERS).collect::<String>();
    let mut report = String::new();
    let mut agreeing = 0;
    for (prompt, request) in prompts.iter().zip(requests) {
        let options = DecodeOptions { skip_special: true, starts_text: false };
        let found = beginning(&tokenizer.decode(&finish(request).0, options));
        let expected = beginning(prompt["output_text"].as_str().unwrap());
        agreeing += usize::from(found == expected);
        report +=
            &format!("{} {found:?}, llama.cpp {expected:?}\n", if found == expected { "same" } else { "DIFFERENT" });
    }
    assert!(agreeing >= MIN_AGREEING, "{agreeing} of {} agree:\n{report}", prompts.len());
}

#[test]
fn smollm2_begins_as_in_llama_cpp() {
    assert_same_beginnings("smollm2.json");
}

#[test]
fn gemma3_begins_as_in_llama_cpp() {
    assert_same_beginnings("gemma3_270m.json");
}

/// Prompts are tokenised as llama.cpp does it, chat template included where the model has one.
#[test]
fn prompts_become_the_same_tokens() {
    for name in ["smollm2.json", "gemma3_270m.json"] {
        let (Some(path), prompts) = golden(name) else { continue };
        let opened = taper_server::loading::Opened::open(&path).unwrap();
        let tokenizer = opened.tokenizer().unwrap();
        for prompt in prompts {
            let text = prompt["rendered"].as_str().unwrap();
            let found = tokenizer.encode(text, EncodeOptions { add_special: true, parse_special: true }).unwrap();
            assert_eq!(found, ids(&prompt["prompt_ids"]), "{name}: {text:?}");
        }
    }
}
