//! What a checkpoint itself recommends for sampling, and which tokens end a generation.

use serde_json::Value as Json;

use super::checkpoint::{Checkpoint, Format};
use super::error::LoadError;
use super::gguf::Gguf;

/// `generation_config.json`, or GGUF's `general.sampling.*`. Fields that the checkpoint does not set are `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GenerationConfig {
    pub temperature: Option<f32>,
    pub top_k: Option<u32>,
    pub top_p: Option<f32>,
    pub min_p: Option<f32>,
    pub typical_p: Option<f32>,
    pub repetition_penalty: Option<f32>,
    /// Tokens that end a generation, besides those the tokenizer knows.
    pub eos_token_ids: Vec<u32>,
}

impl GenerationConfig {
    /// Reads the recommendations of `checkpoint`; one that makes none is not an error.
    pub fn of(checkpoint: &Checkpoint) -> Result<Self, LoadError> {
        match &checkpoint.format {
            Format::Gguf(gguf) => Self::from_gguf(gguf),
            Format::Safetensors { dir, config } => {
                let path = dir.join("generation_config.json");
                let mut this = match std::fs::read_to_string(&path) {
                    Ok(text) => {
                        let json: Json = serde_json::from_str(&text)
                            .map_err(|e| LoadError::Damaged { path: path.clone(), what: e.to_string() })?;
                        Self::from_json(&json)
                    }
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => Self::default(),
                    Err(source) => return Err(LoadError::Io { path, source }),
                };
                if this.eos_token_ids.is_empty() {
                    this.eos_token_ids = token_ids(config.get("eos_token_id"));
                }
                Ok(this)
            }
        }
    }

    fn from_json(json: &Json) -> Self {
        let float = |key: &str| json.get(key).and_then(Json::as_f64).map(|v| v as f32);
        Self {
            temperature: float("temperature"),
            top_k: json.get("top_k").and_then(Json::as_u64).and_then(|k| u32::try_from(k).ok()),
            top_p: float("top_p"),
            min_p: float("min_p"),
            typical_p: float("typical_p"),
            repetition_penalty: float("repetition_penalty"),
            eos_token_ids: token_ids(json.get("eos_token_id")),
        }
    }

    fn from_gguf(gguf: &Gguf) -> Result<Self, LoadError> {
        let float = |key: &str| gguf.f64(&format!("general.sampling.{key}")).map(|v| v.map(|v| v as f32));
        Ok(Self {
            temperature: float("temp")?,
            top_k: gguf.u64("general.sampling.top_k")?.and_then(|k| u32::try_from(k).ok()),
            top_p: float("top_p")?,
            min_p: float("min_p")?,
            typical_p: None,
            repetition_penalty: float("penalty_repeat")?,
            eos_token_ids: Vec::new(), // the tokenizer's metadata has them
        })
    }
}

/// One id or a list of them.
fn token_ids(value: Option<&Json>) -> Vec<u32> {
    let id = |value: &Json| value.as_u64().and_then(|id| u32::try_from(id).ok());
    match value {
        Some(Json::Array(ids)) => ids.iter().filter_map(id).collect(),
        Some(one) => id(one).into_iter().collect(),
        None => Vec::new(),
    }
}
