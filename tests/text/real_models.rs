//! Tokenizers and chat template of the real models against llama.cpp (fixture made by `generate/real_tokens.py`).

use serde_json::{Map, Value};
use taper_models::weights::gguf::Gguf;
use taper_server::text::{
    ChatInput, ChatTemplate, DecodeOptions, EncodeOptions, TemplateLimits, TemplateSources, Tokenizer,
};
use taper_tests::{fixture, test_model};

const SMOLLM2: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const GEMMA3: &str = "gemma-3-270m-q4_k_m.gguf";

fn recorded(model: &str) -> Value {
    let all: Value = serde_json::from_slice(&std::fs::read(fixture("real/tokens.json")).unwrap()).unwrap();
    all[model].clone()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// Encodes every recorded text in both readings of special tokens, and decodes it again.
fn check(model: &str) {
    let Some(path) = test_model(model) else { return };
    let tokenizer = Tokenizer::from_gguf(&Gguf::open(&path).unwrap()).unwrap();
    for case in recorded(model)["texts"].as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        for (key, parse_special) in [("plain", false), ("parsed", true)] {
            let got = tokenizer.encode(text, EncodeOptions { add_special: false, parse_special }).unwrap();
            assert_eq!(got, ids(&case[key]), "{text:?}, {key}");
            let decoded = tokenizer.decode(&got, DecodeOptions { skip_special: false, starts_text: true });
            assert_eq!(decoded, text, "{got:?}");
        }
    }
}

#[test]
fn smollm2_texts_are_tokenized_as_llama_cpp_does() {
    check(SMOLLM2);
}

#[test]
fn gemma3_texts_are_tokenized_as_llama_cpp_does() {
    check(GEMMA3);
}

#[test]
fn special_tokens_of_the_real_models_are_found() {
    let (Some(smollm2), Some(gemma3)) = (test_model(SMOLLM2), test_model(GEMMA3)) else { return };
    let load = |path| Tokenizer::from_gguf(&Gguf::open(path).unwrap()).unwrap();
    let (smollm2, gemma3) = (load(&smollm2), load(&gemma3));
    assert!(!smollm2.add_bos() && gemma3.add_bos());
    let names = |tokenizer: &Tokenizer| -> Vec<String> {
        let ends = &tokenizer.special_tokens().end_of_generation;
        ends.iter().map(|&id| String::from_utf8_lossy(tokenizer.token_bytes(id)).into_owned()).collect()
    };
    assert_eq!(names(&smollm2), ["<|endoftext|>", "<|im_end|>", "<reponame>"]);
    assert_eq!(names(&gemma3), ["<eos>", "<end_of_turn>"]);
}

#[test]
fn smollm2_conversations_are_written_as_llama_cpp_does() {
    let Some(path) = test_model(SMOLLM2) else { return };
    let gguf = Gguf::open(&path).unwrap();
    let sources = TemplateSources::from_gguf(&gguf, &Tokenizer::from_gguf(&gguf).unwrap()).unwrap();
    let template = ChatTemplate::new(&sources, TemplateLimits::default()).unwrap();
    for chat in recorded(SMOLLM2)["chats"].as_array().unwrap() {
        let (messages, kwargs) = (chat["messages"].as_array().unwrap(), Map::new());
        let input = ChatInput { messages, tools: None, add_generation_prompt: true, kwargs: &kwargs };
        assert_eq!(template.render(&input).unwrap(), chat["prompt"].as_str().unwrap());
    }
}

#[test]
fn gemma3_270m_is_a_base_model_and_gets_the_fallback() {
    let Some(path) = test_model(GEMMA3) else { return };
    let gguf = Gguf::open(&path).unwrap();
    let sources = TemplateSources::from_gguf(&gguf, &Tokenizer::from_gguf(&gguf).unwrap()).unwrap();
    assert!(ChatTemplate::new(&sources, TemplateLimits::default()).unwrap().is_fallback());
}
