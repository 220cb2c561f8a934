//! Every GGUF type that weights come in, through a file: the same model, stored quantised and stored as the f32 values
//! that its blocks stand for, gives the same logits up to the rounding of activations to 8 bits.

use std::path::{Path, PathBuf};

use candle_core::quantized::gguf_file::{Value, write};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Tensor};
use taper_models::quant::GgmlType;
use taper_tests::sequence::{Bench, worst_difference};

const HIDDEN: usize = 256;
const VOCAB: usize = 64;

/// Matrices of a one-layer Llama, `(name, rows)`; all have 256 columns, a whole block of every type.
const MATRICES: [(&str, usize); 9] = [
    ("token_embd.weight", VOCAB),
    ("output.weight", VOCAB),
    ("blk.0.attn_q.weight", HIDDEN),
    ("blk.0.attn_k.weight", HIDDEN / 2),
    ("blk.0.attn_v.weight", HIDDEN / 2),
    ("blk.0.attn_output.weight", HIDDEN),
    ("blk.0.ffn_gate.weight", HIDDEN),
    ("blk.0.ffn_up.weight", HIDDEN),
    ("blk.0.ffn_down.weight", HIDDEN),
];
const NORMS: [&str; 3] = ["output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"];

fn metadata() -> Vec<(&'static str, Value)> {
    vec![
        ("general.architecture", Value::String("llama".into())),
        ("llama.block_count", Value::U32(1)),
        ("llama.embedding_length", Value::U32(HIDDEN as u32)),
        ("llama.feed_forward_length", Value::U32(HIDDEN as u32)),
        ("llama.attention.head_count", Value::U32(4)),
        ("llama.attention.head_count_kv", Value::U32(2)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-6)),
        ("llama.context_length", Value::U32(64)),
    ]
}

fn weights(dtype: GgmlDType) -> Vec<(&'static str, QTensor)> {
    let matrix = |seed: usize, rows: usize| {
        let values =
            (0..rows * HIDDEN).map(|i| ((i * 7919 + seed * 104_729) as f32 * 0.618).sin() * 0.1).collect::<Vec<_>>();
        QTensor::quantize(&Tensor::from_vec(values, (rows, HIDDEN), &Device::Cpu).unwrap(), dtype).unwrap()
    };
    let ones = || QTensor::quantize(&Tensor::ones(HIDDEN, DType::F32, &Device::Cpu).unwrap(), GgmlDType::F32).unwrap();
    let matrices = MATRICES.iter().enumerate().map(|(seed, (name, rows))| (*name, matrix(seed, *rows)));
    matrices.chain(NORMS.iter().map(|name| (*name, ones()))).collect()
}

fn file(directory: &Path, name: &str, weights: &[(&str, QTensor)]) -> PathBuf {
    let path = directory.join(name);
    let metadata = metadata();
    let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(key, value)| (*key, value)).collect();
    let weights: Vec<(&str, &QTensor)> = weights.iter().map(|(name, tensor)| (*name, tensor)).collect();
    write(&mut std::fs::File::create(&path).unwrap(), &metadata, &weights).unwrap();
    path
}

fn logits(path: &Path) -> Vec<Vec<f32>> {
    let tokens: Vec<u32> = (0..20).map(|i| i * 13 % VOCAB as u32).collect();
    Bench::load(path, None, 10, DType::F32).run(&tokens, 7)
}

#[test]
fn a_file_of_any_type_gives_the_logits_of_its_values() {
    let directory = tempfile::tempdir().unwrap();
    for ty in GgmlType::all().iter().filter(|ty| ty.dtype.is_some()) {
        let quantised = weights(ty.dtype.unwrap());
        let dense: Vec<(&str, QTensor)> = quantised
            .iter()
            .map(|(name, tensor)| {
                (*name, QTensor::quantize(&tensor.dequantize(&Device::Cpu).unwrap(), GgmlDType::F32).unwrap())
            })
            .collect();
        let found = logits(&file(directory.path(), "quantised.gguf", &quantised));
        let expected = logits(&file(directory.path(), "dense.gguf", &dense));
        let (difference, place) = worst_difference(&found, &expected);
        // Dense types differ in nothing but their storage. Logits reach beyond 1, and a misread block moves them as far.
        assert!(expected.iter().flatten().any(|logit| logit.abs() > 1.0));
        let tolerance = if ty.block_size == 1 { 0.0 } else { 0.2 };
        assert!(difference <= tolerance, "{}: off by {difference} at {place}", ty.name);
    }
}

/// A type that is known but not computed with is named, not guessed at.
#[test]
fn a_type_without_kernels_is_a_load_error_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(directory.path(), "model.gguf", &weights(GgmlDType::Q4_0));
    let mut bytes = std::fs::read(&path).unwrap();
    // The type follows the name, the rank and two dimensions.
    let name = b"blk.0.attn_q.weight";
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap() + name.len() + 4 + 16;
    assert_eq!(bytes[at..at + 4], 2u32.to_le_bytes(), "Q4_0");
    bytes[at..at + 4].copy_from_slice(&20u32.to_le_bytes()); // IQ4_NL, of the same size
    std::fs::write(&path, bytes).unwrap();
    let error = taper_models::Model::load(&path, &Device::Cpu, None, &mut |_, _| true).unwrap_err().to_string();
    assert!(error.contains("blk.0.attn_q.weight") && error.contains("IQ4_NL") && error.contains("Q4_K"), "{error}");
}
