//! One way to ask a checkpoint for its hyper-parameters, whether they are in `config.json` or in GGUF metadata.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::checkpoint::{Checkpoint, Format};
use super::directory::TensorDirectory;
use super::error::LoadError;
use super::file::{brief, brief_message};
use super::gguf::{Array, Value};
use super::loader::read_f32;

/// A hyper-parameter's name in `config.json`, and in GGUF below the architecture's prefix. Empty: not stored there.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub hf: &'static str,
    pub gguf: &'static str,
}

impl Key {
    /// The two names.
    pub const fn new(hf: &'static str, gguf: &'static str) -> Self {
        Self { hf, gguf }
    }

    /// The one that `config`'s file uses, whole.
    pub fn name(self, config: &Config) -> String {
        if config.is_gguf() { format!("{}.{}", config.architecture, self.gguf) } else { self.hf.to_owned() }
    }
}

/// A checkpoint's hyper-parameters.
pub struct Config<'a> {
    checkpoint: &'a Checkpoint,
    /// `config.json`'s object, or its `text_config` where the model has several parts.
    hf: Option<&'a Json>,
    /// GGUF's `general.architecture`, or `model_type` of `config.json`.
    pub architecture: String,
}

impl<'a> Config<'a> {
    /// Reads the architecture of `checkpoint`.
    pub fn new(checkpoint: &'a Checkpoint) -> Result<Self, LoadError> {
        match &checkpoint.format {
            Format::Gguf(gguf) => {
                let architecture = gguf.require("general.architecture", gguf.str("general.architecture")?)?.to_owned();
                Ok(Self { checkpoint, hf: None, architecture })
            }
            Format::Safetensors { dir, config } => {
                let text = config.get("text_config").filter(|text| text.is_object()).unwrap_or(config);
                let Some(architecture) = text.get("model_type").or(config.get("model_type")).and_then(Json::as_str)
                else {
                    return Err(LoadError::Config {
                        path: dir.join("config.json"),
                        key: "model_type".to_owned(),
                        found: "missing".to_owned(),
                        expected: "the name of a model family".to_owned(),
                    });
                };
                Ok(Self { checkpoint, hf: Some(text), architecture: architecture.to_owned() })
            }
        }
    }

    /// Whether the hyper-parameters come from GGUF metadata.
    pub fn is_gguf(&self) -> bool {
        self.hf.is_none()
    }

    /// The tensors beside the hyper-parameters.
    pub fn directory(&self) -> &TensorDirectory {
        &self.checkpoint.directory
    }

    /// A small tensor's values, if the checkpoint has it.
    pub fn tensor_f32(&self, name: &str) -> Result<Option<Vec<f32>>, LoadError> {
        match self.directory().tensors.get(name) {
            None => Ok(None),
            Some(entry) => {
                let elements: usize = entry.shape.iter().product();
                if elements > MAX_SMALL_TENSOR {
                    let expected = format!("at most {MAX_SMALL_TENSOR}");
                    return Err(self.bad(name, format!("a tensor of {elements} numbers"), expected));
                }
                read_f32(self.directory(), name, entry).map(Some)
            }
        }
    }

    /// Whether `config.json` has `key`, be it null. GGUF has no null.
    pub fn mentions(&self, key: Key) -> bool {
        match self.hf {
            Some(config) => config.get(key.hf).is_some(),
            None => self.gguf_value(key).is_some(),
        }
    }

    /// `key` as a count. `None` if absent or null.
    pub fn usize(&self, key: Key) -> Result<Option<usize>, LoadError> {
        let expected = format!("a count of at most {MAX_COUNT}");
        match self.value(key) {
            Scalar::Absent => Ok(None),
            Scalar::Number(n) if n >= 0.0 && n.fract() == 0.0 && n <= MAX_COUNT => Ok(Some(n as usize)),
            other => Err(self.unexpected(key, &other, &expected)),
        }
    }

    /// `key` as a count that must be there and not be zero.
    pub fn require_usize(&self, key: Key) -> Result<usize, LoadError> {
        match self.usize(key)? {
            Some(n) if n > 0 => Ok(n),
            Some(_) => Err(self.unexpected(key, &Scalar::Number(0.0), "a positive count")),
            None => Err(self.unexpected(key, &Scalar::Absent, "a positive count")),
        }
    }

    /// `key` as a number.
    pub fn f64(&self, key: Key) -> Result<Option<f64>, LoadError> {
        match self.value(key) {
            Scalar::Absent => Ok(None),
            Scalar::Number(n) if n.is_finite() => Ok(Some(n)),
            other => Err(self.unexpected(key, &other, "a number")),
        }
    }

    /// `key` as a truth value.
    pub fn bool(&self, key: Key) -> Result<Option<bool>, LoadError> {
        match self.value(key) {
            Scalar::Absent => Ok(None),
            Scalar::Bool(b) => Ok(Some(b)),
            other => Err(self.unexpected(key, &other, "true or false")),
        }
    }

    /// `key` as text.
    pub fn str(&self, key: Key) -> Result<Option<String>, LoadError> {
        match self.value(key) {
            Scalar::Absent => Ok(None),
            Scalar::Text(text) => Ok(Some(text)),
            other => Err(self.unexpected(key, &other, "text")),
        }
    }

    /// `key` of `config.json` as it stands, for what has a structure of its own. `None` if absent, null, or GGUF.
    pub fn json(&self, key: &str) -> Option<&'a Json> {
        self.hf?.get(key).filter(|value| !value.is_null())
    }

    /// GGUF's array of tokens' length, which is the vocabulary's size where no key states it.
    pub fn gguf_vocabulary(&self) -> Option<usize> {
        match &self.checkpoint.format {
            Format::Gguf(gguf) => gguf.array("tokenizer.ggml.tokens").ok().flatten().map(Array::len),
            Format::Safetensors { .. } => None,
        }
    }

    /// The error that `key` is not what it should be.
    pub fn bad(&self, key: &str, found: impl Into<String>, expected: impl Into<String>) -> LoadError {
        LoadError::Config { path: self.path(), key: key.to_owned(), found: found.into(), expected: expected.into() }
    }

    /// Where the hyper-parameters are.
    pub fn path(&self) -> PathBuf {
        match &self.checkpoint.format {
            Format::Safetensors { dir, .. } => dir.join("config.json"),
            Format::Gguf(gguf) => Path::to_owned(&gguf.path),
        }
    }

    fn gguf_value(&self, key: Key) -> Option<&'a Value> {
        match &self.checkpoint.format {
            Format::Gguf(gguf) if !key.gguf.is_empty() => gguf.get(&format!("{}.{}", self.architecture, key.gguf)),
            _ => None,
        }
    }

    fn value(&self, key: Key) -> Scalar {
        match self.hf {
            Some(config) if !key.hf.is_empty() => config.get(key.hf).map_or(Scalar::Absent, Scalar::from_json),
            Some(_) => Scalar::Absent,
            None => self.gguf_value(key).map_or(Scalar::Absent, Scalar::from_gguf),
        }
    }

    fn unexpected(&self, key: Key, found: &Scalar, expected: &str) -> LoadError {
        self.bad(&key.name(self), found.to_string(), expected)
    }
}

/// Numbers of a tensor that is read as a hyper-parameter: one for each pair of a head's dimensions.
const MAX_SMALL_TENSOR: usize = 1 << 16;

/// Counts beyond this are damage; products of counts are bounded where they are made.
const MAX_COUNT: f64 = (1u64 << 32) as f64;

/// A value of either source.
enum Scalar {
    Absent,
    Number(f64),
    Bool(bool),
    Text(String),
    Other(String),
}

impl Scalar {
    fn from_json(value: &Json) -> Self {
        match value {
            Json::Null => Scalar::Absent,
            Json::Bool(b) => Scalar::Bool(*b),
            Json::Number(n) => n.as_f64().map_or_else(|| Scalar::Other(brief_message(n)), Scalar::Number),
            Json::String(text) => Scalar::Text(text.clone()),
            other => Scalar::Other(brief_message(other)),
        }
    }

    fn from_gguf(value: &Value) -> Self {
        match value {
            Value::Unsigned(n) => Scalar::Number(*n as f64),
            Value::Signed(n) => Scalar::Number(*n as f64),
            Value::Float(n) => Scalar::Number(*n),
            Value::Bool(b) => Scalar::Bool(*b),
            Value::String(text) => Scalar::Text(text.clone()),
            Value::Array(array) => Scalar::Other(format!("an array of {} elements", array.len())),
        }
    }
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scalar::Absent => write!(f, "missing"),
            Scalar::Number(n) => write!(f, "{n}"),
            Scalar::Bool(b) => write!(f, "{b}"),
            Scalar::Text(text) => write!(f, "{}", brief(text)),
            Scalar::Other(text) => write!(f, "{text}"),
        }
    }
}
