//! The registry of model families: each is one file that turns hyper-parameters into a [`DecoderSpec`].

mod common;
mod gemma3;
mod llama;
mod mistral;
mod names;
mod qwen2;
mod qwen3;
mod rope;

pub use names::{LayerNames, WeightNames};

use crate::spec::DecoderSpec;
use crate::weights::{Checkpoint, Config, LoadError};

/// A model family.
pub struct Family {
    /// The name people use for it.
    pub name: &'static str,
    /// `model_type` values of `config.json`.
    pub model_types: &'static [&'static str],
    /// `general.architecture` values of GGUF files.
    pub gguf_architectures: &'static [&'static str],
    /// Reads the hyper-parameters.
    pub spec: fn(&Config) -> Result<DecoderSpec, LoadError>,
    /// Weight names in safetensors checkpoints.
    pub hf_names: WeightNames,
    /// Weight names in GGUF files.
    pub gguf_names: WeightNames,
}

/// All families, in the order the README lists them.
pub static FAMILIES: &[Family] = &[llama::FAMILY, mistral::FAMILY, qwen2::FAMILY, qwen3::FAMILY, gemma3::FAMILY];

/// A checkpoint whose family is known and whose hyper-parameters have been read.
pub struct Identified {
    pub family: &'static Family,
    pub spec: DecoderSpec,
    pub names: WeightNames,
}

/// Finds the family of `checkpoint` and reads its hyper-parameters.
pub fn identify(checkpoint: &Checkpoint) -> Result<Identified, LoadError> {
    let config = Config::new(checkpoint)?;
    let architecture = config.architecture.as_str();
    let known = |family: &&Family| {
        if config.is_gguf() {
            family.gguf_architectures.contains(&architecture)
        } else {
            family.model_types.contains(&architecture)
        }
    };
    let Some(family) = FAMILIES.iter().find(known) else {
        let names: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
        return Err(LoadError::Family {
            path: config.path(),
            family: architecture.chars().take(100).collect(),
            supported: names.join(", "),
        });
    };
    let spec = (family.spec)(&config)?;
    let names = if config.is_gguf() { family.gguf_names } else { family.hf_names.located(config.directory()) };
    Ok(Identified { family, spec, names })
}
