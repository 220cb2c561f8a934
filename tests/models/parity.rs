//! Logits and greedy tokens equal those of `transformers`, whatever the cut into steps and whatever the file format.

use std::path::PathBuf;

use candle_core::{DType, Device};
use taper_tests::fixture;
use taper_tests::sequence::{Bench, worst_difference};

/// f32 sums in another order than the reference's; logits are of the order of 1.
const TOLERANCE: f32 = 2e-4;

/// Reference values of one prompt.
struct Expected {
    input_ids: Vec<u32>,
    logits: Vec<Vec<f32>>,
    greedy: Vec<u32>,
}

fn expected(name: &str, file: &str) -> Expected {
    let path = fixture("tiny").join(name).join(file);
    let tensors =
        candle_core::safetensors::load(&path, &Device::Cpu).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let ids = |name: &str| tensors[name].to_dtype(DType::U32).unwrap().flatten_all().unwrap().to_vec1().unwrap();
    Expected {
        input_ids: ids("input_ids"),
        logits: tensors["logits"].get(0).unwrap().to_vec2().unwrap(),
        greedy: ids("greedy"),
    }
}

fn checkpoint(name: &str) -> PathBuf {
    fixture("tiny").join(name)
}

fn gguf(name: &str) -> PathBuf {
    fixture("tiny_gguf").join(format!("{name}.gguf"))
}

/// The whole prompt at once, one token at a time, and in chunks of 7 give the reference's logits; so does its greedy
/// continuation.
fn assert_parity(path: PathBuf, max_model_len: Option<usize>, expected: &Expected, tolerance: f32) {
    let mut bench = Bench::load(&path, max_model_len, 400, DType::F32);
    for chunk in [expected.input_ids.len(), 1, 7] {
        let logits = bench.run(&expected.input_ids, chunk);
        let (difference, place) = worst_difference(&logits, &expected.logits);
        assert!(difference <= tolerance, "{}, steps of {chunk}: off by {difference} at {place}", path.display());
    }
    let greedy = bench.greedy(&expected.input_ids, expected.greedy.len());
    assert_eq!(greedy, expected.greedy, "{}: greedy tokens", path.display());
}

macro_rules! parity {
    ($($name:ident: $folder:literal;)*) => {
        $(#[test]
        fn $name() {
            assert_parity(checkpoint($folder), None, &expected($folder, "expected.safetensors"), TOLERANCE);
        })*
    };
}

parity! {
    llama: "llama";
    llama_with_llama3_rope: "llama_rope3";
    llama_with_one_kv_head: "llama_one_kv_head";
    llama_with_odd_sizes: "llama_odd_sizes";
    llama_with_tied_embeddings: "llama_tied";
    llama_with_biases: "llama_bias";
    llama_stored_as_f32: "llama_f32";
    llama_stored_as_f16: "llama_f16";
    llama_in_shards: "llama_sharded";
    llama_with_linear_rope: "llama_linear";
    llama_with_yarn: "llama_yarn";
    llama_with_yarn_mscale: "llama_yarn_mscale";
    llama_with_yarn_attention_factor: "llama_yarn_attention_factor";
    llama_with_old_configuration_keys: "llama_old_keys";
    mistral_with_window: "mistral";
    qwen2: "qwen2";
    qwen2_with_windows_on_upper_layers: "qwen2_windowed";
    qwen3: "qwen3";
    qwen3_with_old_configuration_keys: "qwen3_old_keys";
    gemma3: "gemma3_text";
    gemma3_with_linear_rope_on_full_layers: "gemma3_linear";
    gemma3_with_old_configuration_keys: "gemma3_old_keys";
}

/// Frequencies of these rules follow the context length, which is fixed when the model is loaded.
#[test]
fn dynamic_rope_is_unscaled_within_the_original_context() {
    assert_parity(checkpoint("llama_dynamic"), Some(32), &expected("llama_dynamic", "expected.safetensors"), TOLERANCE);
}

#[test]
fn dynamic_rope_has_the_base_of_the_served_context() {
    assert_parity(
        checkpoint("llama_dynamic"),
        Some(56),
        &expected("llama_dynamic", "expected_context56.safetensors"),
        TOLERANCE,
    );
}

#[test]
fn longrope_has_short_factors_within_the_original_context() {
    assert_parity(
        checkpoint("llama_longrope"),
        Some(32),
        &expected("llama_longrope", "expected.safetensors"),
        TOLERANCE,
    );
}

#[test]
fn longrope_has_long_factors_beyond_the_original_context() {
    assert_parity(
        checkpoint("llama_longrope"),
        None,
        &expected("llama_longrope", "expected_long.safetensors"),
        TOLERANCE,
    );
}

macro_rules! gguf_parity {
    ($($name:ident: $file:literal is $folder:literal $expected:literal;)*) => {
        $(#[test]
        fn $name() {
            assert_parity(gguf($file), None, &expected($folder, $expected), TOLERANCE);
        })*
    };
}

gguf_parity! {
    gguf_llama: "llama" is "llama" "expected.safetensors";
    gguf_llama_with_rope_freqs: "llama_rope3" is "llama_rope3" "expected.safetensors";
    gguf_llama_with_odd_sizes: "llama_odd_sizes" is "llama_odd_sizes" "expected.safetensors";
    gguf_llama_with_biases: "llama_bias" is "llama_bias" "expected.safetensors";
    gguf_llama_split_in_two: "llama_one_kv_head-00001-of-00002" is "llama_one_kv_head" "expected.safetensors";
    gguf_llama_without_output_tensor: "llama_tied" is "llama_tied" "expected.safetensors";
    gguf_llama_with_linear_rope: "llama_linear" is "llama_linear" "expected.safetensors";
    gguf_llama_with_yarn: "llama_yarn" is "llama_yarn" "expected.safetensors";
    gguf_llama_with_longrope: "llama_longrope" is "llama_longrope" "expected_long.safetensors";
    gguf_qwen2: "qwen2" is "qwen2" "expected.safetensors";
    gguf_qwen3: "qwen3" is "qwen3" "expected.safetensors";
    gguf_qwen3_with_yarn: "qwen3_old_keys" is "qwen3_old_keys" "expected.safetensors";
    gguf_gemma3_with_its_keys: "gemma3_text" is "gemma3_text" "expected.safetensors";
    gguf_gemma3_without_pattern_key: "gemma3_old_keys" is "gemma3_old_keys" "expected.safetensors";
}
