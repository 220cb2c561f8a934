//! Models of candle-transformers, as published, with tiny random weights: the same numbers on the CPU, on the minimal device bit by
//! bit, and on the reference device to within the order of its sums. Four kinds: dense and quantised language models, a vision
//! model with convolutions, and one that calls candle-nn's fused norms with its own epsilon.

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{CustomDevice, DType, Device, Result, Tensor};
use candle_nn::{Module, ModuleT, VarBuilder, VarMap};
use candle_transformers::models;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use taper_candle_tests::{data, same_everywhere};

/// Of the largest logit: sums of a few hundred f32 in another order, through a few layers.
const TOLERANCE: f32 = 1e-4;

/// Writes the weights that a model asks for, made up by its own initialisers, to a file that every device loads.
fn weights<M>(folder: &Path, model: impl FnOnce(VarBuilder<'static>) -> Result<M>) -> PathBuf {
    let names = VarMap::new();
    model(VarBuilder::from_varmap(&names, DType::F32, &Device::Cpu)).unwrap();
    let path = folder.join("model.safetensors");
    names.save(&path).unwrap();
    path
}

fn load<'a>(path: &Path, device: &Device) -> Result<VarBuilder<'a>> {
    let bytes = std::fs::read(path)?;
    VarBuilder::from_buffered_safetensors(bytes, DType::F32, device)
}

#[test]
fn a_language_model() {
    use models::llama::{Cache, Config, Llama};
    let config = Config {
        hidden_size: 32,
        intermediate_size: 48,
        vocab_size: 64,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        use_flash_attn: false,
        rms_norm_eps: 1e-5,
        rope_theta: 1e4,
        bos_token_id: None,
        eos_token_id: None,
        rope_scaling: None,
        max_position_embeddings: 64,
        tie_word_embeddings: false,
    };
    let folder = tempfile::tempdir().unwrap();
    let path = weights(folder.path(), |names| Llama::load(names, &config));
    let (reference, _) = same_everywhere(TOLERANCE, |device| {
        let model = Llama::load(load(&path, device)?, &config)?;
        let mut cache = Cache::new(true, DType::F32, &config, device)?;
        model.forward(&Tensor::new(&[[1u32, 5, 9, 33]], device)?, 0, &mut cache)?;
        model.forward(&Tensor::new(&[[7u32]], device)?, 4, &mut cache)
    });
    // Two norms in each of two layers and one at the end, for a prompt and for a token.
    assert_eq!(reference.calls()["rms-norm"], 10);
}

#[test]
fn a_quantised_language_model() {
    use models::quantized_llama::ModelWeights;
    let file = quantised_llama().unwrap();
    let (reference, _) = same_everywhere(TOLERANCE, |device| {
        let mut file = Cursor::new(&file);
        let content = gguf_file::Content::read(&mut file)?;
        let mut model = ModelWeights::from_gguf(content, &mut file, device)?;
        model.forward(&Tensor::new(&[[1u32, 5, 9, 33]], device)?, 0)?;
        model.forward(&Tensor::new(&[[7u32]], device)?, 4)
    });
    // Seven products in each of two layers and the logits, for a prompt and for a token.
    assert_eq!(reference.round_trips().counts()["qmatmul"], 30);
}

/// A GGUF file of a Llama with two layers, in Q4_K.
fn quantised_llama() -> Result<Vec<u8>> {
    let (hidden, inner, vocabulary, heads, kv_heads, layers) = (256, 512, 64, 4, 2, 2);
    let weight = |shape: &[usize]| {
        let format = if shape.len() == 1 { GgmlDType::F32 } else { GgmlDType::Q4K };
        QTensor::quantize(&data(shape, &Device::Cpu)?, format)
    };
    let mut tensors = vec![
        ("token_embd.weight".to_owned(), weight(&[vocabulary, hidden])?),
        ("output.weight".to_owned(), weight(&[vocabulary, hidden])?),
        ("output_norm.weight".to_owned(), weight(&[hidden])?),
    ];
    for layer in 0..layers {
        let shapes: [(&str, &[usize]); 9] = [
            ("attn_q", &[hidden, hidden]),
            ("attn_k", &[hidden / heads * kv_heads, hidden]),
            ("attn_v", &[hidden / heads * kv_heads, hidden]),
            ("attn_output", &[hidden, hidden]),
            ("ffn_gate", &[inner, hidden]),
            ("ffn_up", &[inner, hidden]),
            ("ffn_down", &[hidden, inner]),
            ("attn_norm", &[hidden]),
            ("ffn_norm", &[hidden]),
        ];
        for (name, shape) in shapes {
            tensors.push((format!("blk.{layer}.{name}.weight"), weight(shape)?));
        }
    }
    let metadata = [
        ("general.architecture", Value::String("llama".into())),
        ("llama.attention.head_count", Value::U32(heads as u32)),
        ("llama.attention.head_count_kv", Value::U32(kv_heads as u32)),
        ("llama.block_count", Value::U32(layers)),
        ("llama.embedding_length", Value::U32(hidden as u32)),
        ("llama.rope.dimension_count", Value::U32((hidden / heads) as u32)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
    ];
    let metadata: Vec<_> = metadata.iter().map(|(key, value)| (*key, value)).collect();
    let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let mut file = Cursor::new(vec![]);
    gguf_file::write(&mut file, &metadata, &tensors)?;
    Ok(file.into_inner())
}

#[test]
fn a_vision_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = weights(folder.path(), |names| models::resnet::resnet18(10, names));
    let (reference, _) = same_everywhere(TOLERANCE, |device| {
        let model = models::resnet::resnet18(10, load(&path, device)?)?;
        model.forward_t(&data(&[1, 3, 32, 32], device)?, false)
    });
    // Of ResNet-18's 20 convolutions all but the pooling is the device's own.
    assert_eq!(reference.calls()["conv2d"], 20);
    assert_eq!(reference.round_trips().counts().into_iter().collect::<Vec<_>>(), [("max_pool2d", 1)]);
}

#[test]
fn a_text_encoder_with_layer_norms() {
    use models::clip::text_model::{Activation, ClipTextConfig, ClipTextTransformer};
    let config = ClipTextConfig {
        vocab_size: 64,
        embed_dim: 32,
        activation: Activation::QuickGelu,
        intermediate_size: 48,
        max_position_embeddings: 16,
        pad_with: None,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        projection_dim: 32,
    };
    let folder = tempfile::tempdir().unwrap();
    let path = weights(folder.path(), |names| ClipTextTransformer::new(names, &config));
    same_everywhere(TOLERANCE, |device| {
        let model = ClipTextTransformer::new(load(&path, device)?, &config)?;
        model.forward(&Tensor::new(&[[1u32, 5, 9, 33]], device)?)
    });
}
