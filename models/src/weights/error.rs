//! Why a model could not be loaded, in words for the person who named it.

use std::path::PathBuf;

use super::gguf::GgufError;

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{path}: {why}")]
    NotACheckpoint { path: PathBuf, why: String },
    #[error(transparent)]
    Gguf(#[from] GgufError),
    #[error("{path} is damaged or cut off: {what}")]
    Damaged { path: PathBuf, what: String },
    #[error("{path}: the model family {family:?} is not supported; supported are: {supported}")]
    Family { path: PathBuf, family: String, supported: String },
    #[error("{path}: {key:?} is {found}, expected {expected}")]
    Config { path: PathBuf, key: String, found: String, expected: String },
    #[error("{path}: tensor {tensor:?} is missing")]
    MissingTensor { path: PathBuf, tensor: String },
    #[error("{path}: tensor {tensor:?} has shape {found:?}, but the configuration asks for {expected:?}")]
    Shape { path: PathBuf, tensor: String, found: Vec<usize>, expected: Vec<usize> },
    #[error("{path}: tensor {tensor:?} is stored as {found}; supported are {supported}")]
    TensorType { path: PathBuf, tensor: String, found: String, supported: String },
    #[error("{what}: {source}")]
    Tensor { what: String, source: Box<candle_core::Error> },
    #[error("loading was interrupted")]
    Interrupted,
}
