//! Checkpoints on disk: GGUF files (split too) and safetensors directories, as one directory of named tensors.

pub mod gguf;

mod checkpoint;
mod config;
mod directory;
mod error;
pub mod file;
mod generation;
mod loader;
mod safetensors;

pub use checkpoint::{Checkpoint, Format};
pub use config::{Config, Key};
pub use directory::{TensorDirectory, TensorEntry};
pub use error::LoadError;
pub use generation::GenerationConfig;
pub use loader::{Loader, Progress};
pub use safetensors::index_files;
