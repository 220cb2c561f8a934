//! Tokenizers against the libraries they stand in for, on small vocabularies (fixtures made by `generate/text.py`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use taper_models::weights::gguf::Gguf;
use taper_server::text::{DecodeOptions, EncodeOptions, Tokenizer, TokenizerError};

const PLAIN: EncodeOptions = EncodeOptions { add_special: false, parse_special: false };
const PARSED: EncodeOptions = EncodeOptions { add_special: false, parse_special: true };
const FULL: EncodeOptions = EncodeOptions { add_special: true, parse_special: true };

/// The four kinds of tokenizer.
pub const KINDS: [&str; 4] = ["spm", "spm_plain", "byte_level", "metaspace"];

fn fixture(name: &str) -> PathBuf {
    taper_tests::fixture("text").join(name)
}

/// Loads the fixture of this kind.
pub fn tokenizer(kind: &str) -> Arc<Tokenizer> {
    let loaded = match kind {
        "spm" | "spm_plain" => Tokenizer::from_gguf(&Gguf::open(&fixture(&format!("{kind}.gguf"))).unwrap()),
        _ => Tokenizer::from_dir(&fixture(kind)),
    };
    Arc::new(loaded.unwrap_or_else(|error| panic!("{kind}: {error}")))
}

fn cases(kind: &str) -> Vec<Value> {
    let all: Value = serde_json::from_slice(&std::fs::read(fixture("tokens.json")).unwrap()).unwrap();
    all[kind].as_array().unwrap().clone()
}

fn ids(case: &Value, key: &str) -> Vec<u32> {
    case[key].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// Checks every case of a kind, and says all that differ.
fn check(kind: &str, key: &str, options: EncodeOptions) {
    let tokenizer = tokenizer(kind);
    let mut failures = Vec::new();
    for case in cases(kind) {
        let text = case["text"].as_str().unwrap();
        let (got, expected) = (tokenizer.encode(text, options).unwrap(), ids(&case, key));
        if got != expected {
            failures.push(format!("{text:?}: got {got:?}, expected {expected:?}"));
        }
    }
    assert!(failures.is_empty(), "{kind}, {key}:\n{}", failures.join("\n"));
}

#[test]
fn scored_vocabulary_encodes_as_sentencepiece_does() {
    check("spm", "ids", PLAIN);
    check("spm_plain", "ids", PLAIN);
}

#[test]
fn tokenizer_json_encodes_as_its_library_does() {
    for kind in ["byte_level", "metaspace"] {
        check(kind, "ids", PARSED);
    }
}

#[test]
fn special_tokens_are_put_around_a_text_as_the_file_says() {
    for kind in ["byte_level", "metaspace"] {
        check(kind, "full", FULL);
    }
}

#[test]
fn special_tokens_in_untrusted_text_stay_text() {
    for kind in ["byte_level", "metaspace"] {
        check(kind, "plain", PLAIN);
    }
    for kind in KINDS {
        let tokenizer = tokenizer(kind);
        let ids = tokenizer.encode("a<s>b</s><unk><|end|>", PLAIN).unwrap();
        let special: Vec<_> = ids.iter().filter(|&&id| tokenizer.is_special(id)).collect();
        assert!(special.is_empty(), "{kind}: {special:?} in {ids:?}");
    }
}

#[test]
fn trusted_text_can_spell_control_tokens() {
    for kind in KINDS {
        let tokenizer = tokenizer(kind);
        let special = tokenizer.special_tokens();
        let ids = tokenizer.encode("<s>a</s>", PARSED).unwrap();
        assert_eq!((ids.first().copied(), ids.last().copied()), (special.bos, special.eos), "{kind}: {ids:?}");
    }
}

#[test]
fn decoding_gives_what_the_original_gives() {
    let options = DecodeOptions { skip_special: true, starts_text: true };
    for kind in KINDS {
        let tokenizer = tokenizer(kind);
        for case in cases(kind) {
            let ids = ids(&case, "ids");
            assert_eq!(tokenizer.decode(&ids, options), case["decoded"].as_str().unwrap(), "{kind}: {ids:?}");
        }
    }
}

#[test]
fn text_that_goes_on_keeps_its_first_space() {
    let tokenizer = tokenizer("spm");
    let ids = tokenizer.encode("Hello", PLAIN).unwrap();
    let shown = |starts_text| tokenizer.decode(&ids, DecodeOptions { skip_special: true, starts_text });
    assert_eq!((shown(true).as_str(), shown(false).as_str()), ("Hello", " Hello"));
}

#[test]
fn control_tokens_are_shown_on_request() {
    for kind in KINDS {
        let tokenizer = tokenizer(kind);
        let eos = tokenizer.special_tokens().eos.unwrap();
        let shown = |skip_special| tokenizer.decode(&[eos], DecodeOptions { skip_special, starts_text: true });
        assert_eq!((shown(false).as_str(), shown(true).as_str()), ("</s>", ""), "{kind}");
    }
}

#[test]
fn end_tokens_are_those_of_the_file_and_well_known_ones() {
    let tokenizer = tokenizer("byte_level");
    let names: Vec<_> = ["</s>", "<|end|>"].map(|name| tokenizer.encode(name, PARSED).unwrap()).concat();
    assert_eq!(tokenizer.special_tokens().end_of_generation, names);
    assert!(names.iter().all(|&id| tokenizer.is_end_of_generation(id)));
    assert_eq!(tokenizer.special_tokens().eot, Some(names[1]));
}

#[test]
fn chat_prompt_gets_exactly_one_begin_token() {
    for kind in ["spm", "spm_plain", "byte_level"] {
        let tokenizer = tokenizer(kind);
        assert!(tokenizer.add_bos(), "{kind}");
        let without = tokenizer.encode_chat("the lazy dog").unwrap();
        let with = tokenizer.encode_chat("<s>the lazy dog").unwrap();
        assert_eq!(without, with, "{kind}");
        assert_eq!(
            with.iter().filter(|&&id| Some(id) == tokenizer.special_tokens().bos).count(),
            1,
            "{kind}: {with:?}"
        );
    }
}

#[test]
fn ids_outside_the_vocabulary_are_empty() {
    for kind in KINDS {
        let tokenizer = tokenizer(kind);
        assert_eq!(tokenizer.token_bytes(tokenizer.vocab_size() as u32), b"", "{kind}");
        assert_eq!(tokenizer.token_bytes(u32::MAX), b"", "{kind}");
    }
}

#[test]
fn every_byte_has_a_token_that_stands_for_it() {
    for kind in KINDS {
        let tokenizer = tokenizer(kind);
        for byte in 0..=255u8 {
            let found = (0..tokenizer.vocab_size() as u32).any(|id| tokenizer.token_bytes(id) == [byte]);
            assert!(found, "{kind}: no token for byte {byte:#04x}");
        }
    }
}

#[test]
fn missing_tokenizer_is_reported_by_path() {
    let error = Tokenizer::from_dir(&fixture("nowhere")).unwrap_err();
    assert!(matches!(&error, TokenizerError::Missing { dir } if dir.ends_with("nowhere")), "{error}");
}

/// A GGUF file with these string values and a vocabulary of five tokens without kinds.
fn gguf(dir: &Path, strings: &[(&str, &str)]) -> Gguf {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    let put_text = |bytes: &mut Vec<u8>, text: &str| {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    };
    bytes.extend(0u64.to_le_bytes());
    bytes.extend((strings.len() as u64 + 2).to_le_bytes());
    for (key, value) in strings {
        put_text(&mut bytes, key);
        bytes.extend(8u32.to_le_bytes());
        put_text(&mut bytes, value);
    }
    let tokens = vec!["a", "b", "ab", "<|im_end|>", "</s>"];
    for (key, values) in [("tokenizer.ggml.tokens", tokens), ("tokenizer.ggml.merges", vec!["a b"])] {
        put_text(&mut bytes, key);
        bytes.extend(9u32.to_le_bytes());
        bytes.extend(8u32.to_le_bytes());
        bytes.extend((values.len() as u64).to_le_bytes());
        values.iter().for_each(|value| put_text(&mut bytes, value));
    }
    let path = dir.join("vocabulary.gguf");
    std::fs::write(&path, bytes).unwrap();
    Gguf::open(&path).unwrap()
}

#[test]
fn unknown_pre_tokenizer_is_refused_with_the_list_of_known_ones() {
    let dir = tempfile::tempdir().unwrap();
    let gguf = gguf(dir.path(), &[("tokenizer.ggml.model", "gpt2"), ("tokenizer.ggml.pre", "klingon")]);
    let error = Tokenizer::from_gguf(&gguf).unwrap_err().to_string();
    assert!(error.contains("\"klingon\"") && error.contains("llama-bpe, llama3"), "{error}");
}

#[test]
fn unsupported_tokenizer_model_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let error = Tokenizer::from_gguf(&gguf(dir.path(), &[("tokenizer.ggml.model", "bert")])).unwrap_err();
    assert!(matches!(&error, TokenizerError::Model { model, .. } if model == "bert"), "{error}");
}

#[test]
fn merges_of_a_gguf_vocabulary_are_applied() {
    let dir = tempfile::tempdir().unwrap();
    let gguf = gguf(dir.path(), &[("tokenizer.ggml.model", "gpt2"), ("tokenizer.ggml.pre", "gpt-2")]);
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    assert_eq!(tokenizer.encode("abba", PLAIN).unwrap(), [2, 1, 0]);
}

#[test]
fn end_token_that_the_file_forgets_to_flag_still_ends() {
    let dir = tempfile::tempdir().unwrap();
    let gguf = gguf(dir.path(), &[("tokenizer.ggml.model", "gpt2"), ("tokenizer.ggml.pre", "gpt-2")]);
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    assert_eq!(tokenizer.encode("a<|im_end|>", PARSED).unwrap(), [0, 3]);
    // `</s>` by its name alone could be text.
    assert_eq!(tokenizer.special_tokens().end_of_generation, [3]);
}

#[test]
fn vocabulary_without_scores_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let error = Tokenizer::from_gguf(&gguf(dir.path(), &[("tokenizer.ggml.model", "llama")])).unwrap_err().to_string();
    assert!(error.contains("tokenizer.ggml.scores"), "{error}");
}
