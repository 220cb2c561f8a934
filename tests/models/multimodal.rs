//! Of a checkpoint with several parts the language model is found, whichever way `transformers` named it.

use std::collections::HashMap;

use candle_core::{DType, Device, Tensor};
use taper_tests::fixture;
use taper_tests::sequence::{Bench, worst_difference};

/// The tiny Gemma 3 as the language part of a model with vision: its tensors renamed by `rename`, its configuration
/// under `text_config`, and a tensor of another part beside it.
fn assert_found(rename: impl Fn(&str) -> String, vision: &str) {
    let directory = tempfile::tempdir().unwrap();
    let source = fixture("tiny/gemma3_text");
    let config: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(source.join("config.json")).unwrap()).unwrap();
    let config = serde_json::json!({ "model_type": "gemma3", "text_config": config, "vision_config": {} });
    std::fs::write(directory.path().join("config.json"), config.to_string()).unwrap();
    let tensors = candle_core::safetensors::load(source.join("model.safetensors"), &Device::Cpu).unwrap();
    let mut renamed: HashMap<String, Tensor> =
        tensors.into_iter().map(|(name, tensor)| (rename(&name), tensor)).collect();
    renamed.insert(vision.to_owned(), Tensor::zeros(7, DType::F32, &Device::Cpu).unwrap());
    candle_core::safetensors::save(&renamed, directory.path().join("model.safetensors")).unwrap();

    let tokens: Vec<u32> = (3..40).collect();
    let expected = Bench::load(&source, None, 50, DType::F32).run(&tokens, 40);
    let found = Bench::load(directory.path(), None, 50, DType::F32).run(&tokens, 40);
    let (difference, place) = worst_difference(&found, &expected);
    assert!(difference == 0.0, "off by {difference} at {place}");
}

#[test]
fn under_language_model_in_front() {
    assert_found(|name| format!("language_model.{name}"), "vision_tower.embeddings.weight");
}

#[test]
fn under_language_model_within_model() {
    let rename = |name: &str| name.replace("model.", "model.language_model.");
    assert_found(rename, "model.vision_tower.embeddings.weight");
}
