//! What a checkpoint itself recommends for sampling, and which tokens end a generation.

use std::path::Path;

use serde_json::Value as Json;

use super::checkpoint::{Checkpoint, Format};
use super::error::LoadError;
use super::file::{self, MAX_CONFIG_BYTES, brief_message};
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
                let mut this = match file::read(&path, MAX_CONFIG_BYTES) {
                    Ok(text) => Self::parse(&path, &text)?,
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => Self::default(),
                    Err(source) => return Err(LoadError::Io { path, source }),
                };
                if this.eos_token_ids.is_empty() {
                    this.eos_token_ids = token_ids(&dir.join("config.json"), config)?;
                }
                Ok(this)
            }
        }
    }

    /// Reads the text of a `generation_config.json`, which errors call `path`.
    pub fn parse(path: &Path, text: &[u8]) -> Result<Self, LoadError> {
        let json: Json = serde_json::from_slice(text)
            .map_err(|error| LoadError::Damaged { path: path.to_owned(), what: error.to_string() })?;
        let float = |key: &str| match json.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(value) => match value.as_f64() {
                Some(number) => Ok(Some(number as f32)),
                None => Err(unexpected(path, key, value, "a number")),
            },
        };
        Ok(Self {
            temperature: float("temperature")?,
            // Negative: off, in some files.
            top_k: float("top_k")?.filter(|k| *k >= 0.0).map(|k| k as u32),
            top_p: float("top_p")?,
            min_p: float("min_p")?,
            typical_p: float("typical_p")?,
            repetition_penalty: float("repetition_penalty")?,
            eos_token_ids: token_ids(path, &json)?,
        })
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

/// `eos_token_id`: one id or a list of them.
fn token_ids(path: &Path, config: &Json) -> Result<Vec<u32>, LoadError> {
    const KEY: &str = "eos_token_id";
    let id = |value: &Json| {
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| unexpected(path, KEY, value, "a token id or a list of them"))
    };
    match config.get(KEY) {
        None | Some(Json::Null) => Ok(Vec::new()),
        Some(Json::Array(ids)) => ids.iter().map(id).collect(),
        Some(one) => Ok(vec![id(one)?]),
    }
}

fn unexpected(path: &Path, key: &str, found: &Json, expected: &str) -> LoadError {
    let (path, key, expected) = (path.to_owned(), key.to_owned(), expected.to_owned());
    LoadError::Config { path, key, found: brief_message(found), expected }
}
