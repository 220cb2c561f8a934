//! Readers on a great many wrong files: a value or an error that names the file and is of readable length; no panic, and
//! what is accepted keeps the promises that later stages rely on.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};
use taper_models::CachePlan;
use taper_models::families::identify;
use taper_models::weights::gguf::Gguf;
use taper_models::weights::{Checkpoint, Format, GenerationConfig, index_files};
use taper_server::capacity::{self, Limits};
use taper_server::text::{EncodeOptions, Tokenizer};
use taper_tests::fixture;

use super::mutate::{byte_changes, changed_bytes, changed_json, changed_text, check, json_changes, text_changes};

#[track_caller]
fn check_message(error: impl std::fmt::Display, file: &str) {
    let message = error.to_string();
    assert!(message.contains(file), "does not name the file: {message}");
    assert!(message.len() < 4000, "{} bytes of message", message.len());
}

fn file_json(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(fixture(name)).unwrap()).unwrap()
}

/// What follows once headers are read: sizes, rotation, memory.
fn use_checkpoint(checkpoint: &Checkpoint, file: &str) {
    let identified = match identify(checkpoint) {
        Ok(identified) => identified,
        Err(error) => return check_message(error, file),
    };
    let spec = identified.spec;
    for rope in &spec.ropes {
        let frequencies = rope.inverse_frequencies(spec.max_position);
        assert_eq!(frequencies.len(), rope.rotary_dim / 2);
        assert!(frequencies.iter().all(|frequency| frequency.is_finite()), "{rope:?}");
    }
    let limits = Limits {
        ctx_size: None,
        kv_cache_memory: None,
        parallel: 4,
        step_tokens: 512,
        block_size: 32,
        kv_dtype: candle_core::DType::F16,
        available: Some(8 << 30),
    };
    if let Ok(cache) = CachePlan::new(&spec)
        && let Ok(capacity) = capacity::plan(&spec, &cache, 0, &limits)
    {
        assert!(capacity.kv_bytes() <= 8 << 30 && capacity.max_model_len <= spec.context_limit());
    }
}

/// A small GGUF file with something of everything, and the places of its counts, lengths, types and offsets.
fn small_gguf() -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut fields) = (b"GGUF\x03\0\0\0".to_vec(), vec![4]);
    let put = |bytes: &mut Vec<u8>, fields: &mut Vec<usize>, field: &[u8]| {
        fields.push(bytes.len());
        bytes.extend(field);
    };
    let text = |bytes: &mut Vec<u8>, fields: &mut Vec<usize>, text: &str| {
        put(bytes, fields, &(text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    };
    let numbers: [(&str, u32); 12] = [
        ("llama.context_length", 64),
        ("llama.embedding_length", 8),
        ("llama.block_count", 1),
        ("llama.feed_forward_length", 16),
        ("llama.attention.head_count", 2),
        ("llama.attention.head_count_kv", 1),
        ("llama.rope.dimension_count", 4),
        ("tokenizer.ggml.bos_token_id", 1),
        ("tokenizer.ggml.eos_token_id", 2),
        ("tokenizer.ggml.unknown_token_id", 0),
        ("general.alignment", 32),
        ("llama.vocab_size", 5),
    ];
    let pieces = ["<unk>", "<s>", "</s>", "a", "▁a"];
    let tensors: [(&str, &[u64]); 4] = [
        ("token_embd.weight", &[8, 5]),
        ("output_norm.weight", &[8]),
        ("blk.0.attn_norm.weight", &[8]),
        ("blk.0.attn_q.weight", &[8, 8]),
    ];
    put(&mut bytes, &mut fields, &(tensors.len() as u64).to_le_bytes());
    put(&mut bytes, &mut fields, &(numbers.len() as u64 + 6).to_le_bytes());
    for (key, value) in numbers {
        text(&mut bytes, &mut fields, key);
        put(&mut bytes, &mut fields, &4u32.to_le_bytes());
        put(&mut bytes, &mut fields, &value.to_le_bytes());
    }
    for (key, value) in
        [("general.architecture", "llama"), ("tokenizer.ggml.model", "llama"), ("tokenizer.chat_template", "{{ 1 }}")]
    {
        text(&mut bytes, &mut fields, key);
        put(&mut bytes, &mut fields, &8u32.to_le_bytes());
        text(&mut bytes, &mut fields, value);
    }
    let mut array = |key: &str, kind: u32, items: &mut dyn FnMut(&mut Vec<u8>, &mut Vec<usize>)| {
        text(&mut bytes, &mut fields, key);
        put(&mut bytes, &mut fields, &9u32.to_le_bytes());
        put(&mut bytes, &mut fields, &kind.to_le_bytes());
        put(&mut bytes, &mut fields, &(pieces.len() as u64).to_le_bytes());
        items(&mut bytes, &mut fields);
    };
    array("tokenizer.ggml.tokens", 8, &mut |bytes, fields| pieces.iter().for_each(|piece| text(bytes, fields, piece)));
    array("tokenizer.ggml.scores", 6, &mut |bytes, _| (0..5).for_each(|at| bytes.extend((-(at as f32)).to_le_bytes())));
    array("tokenizer.ggml.token_type", 5, &mut |bytes, _| {
        [2i32, 3, 3, 1, 1].iter().for_each(|kind| bytes.extend(kind.to_le_bytes()))
    });
    let mut offset = 0u64;
    for (name, shape) in tensors {
        text(&mut bytes, &mut fields, name);
        put(&mut bytes, &mut fields, &(shape.len() as u32).to_le_bytes());
        shape.iter().for_each(|dim| put(&mut bytes, &mut fields, &dim.to_le_bytes()));
        put(&mut bytes, &mut fields, &0u32.to_le_bytes());
        put(&mut bytes, &mut fields, &offset.to_le_bytes());
        offset = (offset + shape.iter().product::<u64>() * 4).next_multiple_of(32);
    }
    bytes.resize(bytes.len().next_multiple_of(32) + offset as usize, 0);
    (bytes, fields)
}

fn read_gguf(bytes: &[u8]) {
    let gguf = match Gguf::read(Path::new("model.gguf"), bytes, bytes.len() as u64) {
        Ok(gguf) => gguf,
        Err(error) => return check_message(error, "model.gguf"),
    };
    match Tokenizer::from_gguf(&gguf) {
        Ok(tokenizer) => encode_with(&tokenizer),
        Err(error) => check_message(error, "model.gguf"),
    }
    match Checkpoint::from_gguf(gguf) {
        Ok(checkpoint) => {
            let mut ends = 0;
            let mut entries: Vec<_> = checkpoint.directory.tensors.values().filter(|entry| entry.bytes > 0).collect();
            entries.sort_by_key(|entry| entry.offset);
            for entry in entries {
                assert!(entry.offset >= ends && entry.offset + entry.bytes <= bytes.len() as u64, "{entry:?}");
                ends = entry.offset + entry.bytes;
            }
            use_checkpoint(&checkpoint, "model.gguf");
        }
        Err(error) => check_message(error, "model.gguf"),
    }
}

#[test]
fn any_gguf_is_read_or_refused() {
    let (bytes, fields) = small_gguf();
    let gguf = Gguf::read(Path::new("model.gguf"), &bytes[..], bytes.len() as u64).unwrap();
    identify(&Checkpoint::from_gguf(gguf.clone()).unwrap()).map(|_| ()).unwrap();
    Tokenizer::from_gguf(&gguf).unwrap();
    check("GGUF", byte_changes(), |changes| read_gguf(&changed_bytes(&bytes, &fields, &changes)));
}

#[test]
fn any_safetensors_header_is_read_or_refused() {
    let file = std::fs::read(fixture("tiny/llama/model.safetensors")).unwrap();
    let header_len = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&file[8..8 + header_len]).unwrap();
    let data_len = (file.len() - 8 - header_len) as u64;
    let config = std::fs::read(fixture("tiny/llama/config.json")).unwrap();
    let index = file_json("tiny/llama_sharded/model.safetensors.index.json");
    let strategy = (text_changes(), any::<Option<u64>>(), prop::option::weighted(0.1, 0u64..u64::MAX));
    check("safetensors and index", strategy, |((tree, text), claimed, data)| {
        let json = changed_text(&header, &tree, &text);
        let claimed = claimed.filter(|claimed| claimed % 16 == 0).unwrap_or(json.len() as u64);
        let mut bytes = claimed.to_le_bytes().to_vec();
        bytes.extend(&json);
        let len = (bytes.len() as u64).saturating_add(data.unwrap_or(data_len));
        match Checkpoint::from_parts(Path::new("dir"), &config, vec![("model.safetensors", &bytes[..], len)]) {
            Ok(checkpoint) => use_checkpoint(&checkpoint, "config.json"),
            Err(error) => check_message(error, "model.safetensors"),
        }
        match index_files(Path::new("index.json"), &changed_text(&index, &tree, &text)) {
            Ok(files) => assert!(files.iter().all(|file| !file.contains('/') && file != ".."), "{files:?}"),
            Err(error) => check_message(error, "index.json"),
        }
    });
}

#[test]
fn any_configuration_is_read_or_refused() {
    let names = [
        "llama_rope3",
        "llama_yarn",
        "llama_longrope",
        "llama_dynamic",
        "gemma3_text",
        "gemma3_old_keys",
        "qwen2_windowed",
        "qwen3",
        "mistral",
    ];
    let checkpoints: Vec<(Checkpoint, Value, Value)> = names
        .iter()
        .map(|name| {
            let checkpoint = Checkpoint::open(&fixture(&format!("tiny/{name}"))).unwrap();
            let json = |file: &str| file_json(&format!("tiny/{name}/{file}"));
            (checkpoint, json("config.json"), json("generation_config.json"))
        })
        .collect();
    let strategy = (0..names.len(), json_changes(), text_changes());
    check("configurations", strategy, |(which, changes, (tree, text))| {
        let (checkpoint, config, generation) = &checkpoints[which];
        let mut checkpoint = checkpoint.clone();
        let config = Some(changed_json(config, &changes)).filter(Value::is_object).unwrap_or_else(|| config.clone());
        checkpoint.format = Format::Safetensors { dir: "dir".into(), config };
        use_checkpoint(&checkpoint, "config.json");
        let generation = changed_text(generation, &tree, &text);
        if let Err(error) = GenerationConfig::parse(Path::new("generation_config.json"), &generation) {
            check_message(error, "generation_config.json");
        }
    });
}

fn encode_with(tokenizer: &Tokenizer) {
    for parse_special in [false, true] {
        let options = EncodeOptions { add_special: true, parse_special };
        if let Ok(ids) = tokenizer.encode("a <s> ab\u{e9} aaaa", options) {
            let outside = |id: &&u32| **id as usize >= tokenizer.vocab_size();
            let around: Vec<u32> =
                [&tokenizer.special_tokens().prefix[..], &tokenizer.special_tokens().suffix].concat();
            assert!(ids.iter().find(outside).is_none_or(|id| around.contains(id)), "{ids:?}");
        }
    }
}

#[test]
fn any_tokenizer_json_is_read_or_refused() {
    let added = |id: u32, content: &str| json!({ "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true });
    let template = json!({
        "type": "TemplateProcessing",
        "single": [{ "SpecialToken": { "id": "<s>", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } }],
        "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 1 } }],
        "special_tokens": { "<s>": { "id": "<s>", "ids": [0], "tokens": ["<s>"] } },
    });
    let split = json!({ "type": "Split", "pattern": { "Regex": "[a-z]+|\\s+(?!\\S)|\\s+" }, "behavior": "Isolated", "invert": false });
    let bpe = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [added(0, "<s>"), added(1, "</s>")],
        "normalizer": { "type": "Sequence", "normalizers": [
            { "type": "Prepend", "prepend": "▁" },
            { "type": "Replace", "pattern": { "String": " " }, "content": "▁" },
            { "type": "NFC" },
        ] },
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": [split, { "type": "Digits", "individual_digits": true }, { "type": "FixedLength", "length": 5 }] },
        "post_processor": template,
        "decoder": { "type": "Sequence", "decoders": [
            { "type": "Replace", "pattern": { "String": "▁" }, "content": " " }, { "type": "ByteFallback" }, { "type": "Fuse" },
            { "type": "Strip", "content": " ", "start": 1, "stop": 0 },
        ] },
        "model": {
            "type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null, "end_of_word_suffix": null,
            "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
            "vocab": { "<s>": 0, "</s>": 1, "<unk>": 2, "a": 3, "b": 4, "▁": 5, "ab": 6, "▁a": 7, "aa": 8 },
            "merges": [["a", "b"], ["▁", "a"], ["a", "a"]],
        },
    });
    let unigram = json!({
        "version": "1.0", "added_tokens": [added(0, "<unk>"), added(1, "<s>")],
        "normalizer": { "type": "Precompiled", "precompiled_charsmap": format!("AAQA{}AABhAGIA", "AAAA".repeat(341)) },
        "pre_tokenizer": { "type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true },
        "post_processor": { "type": "BertProcessing", "sep": ["<s>", 1], "cls": ["<s>", 1] },
        "decoder": { "type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true },
        "model": { "type": "Unigram", "unk_id": 0, "byte_fallback": false, "vocab": [["<unk>", 0.0], ["<s>", 0.0], ["▁", -2.0], ["a", -2.5], ["▁a", -1.5], ["ab", -3.0]] },
    });
    let word_piece = json!({
        "version": "1.0", "added_tokens": [], "normalizer": { "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true },
        "pre_tokenizer": { "type": "BertPreTokenizer" }, "post_processor": null, "decoder": null,
        "model": { "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": { "[UNK]": 0, "a": 1, "##b": 2, "ab": 3 } },
    });
    let path = Path::new("tokenizer.json");
    let bases = [bpe, unigram, word_piece];
    for base in &bases[..2] {
        Tokenizer::from_json(path, base.to_string().as_bytes(), None, None).unwrap();
    }
    let strategy = (0..bases.len(), text_changes());
    check("tokenizer.json", strategy, |(which, (tree, text))| {
        match Tokenizer::from_json(path, &changed_text(&bases[which], &tree, &text), Some("<s>".to_owned()), None) {
            Ok(tokenizer) => encode_with(&tokenizer),
            Err(error) => check_message(error, "tokenizer.json"),
        }
    });
}
