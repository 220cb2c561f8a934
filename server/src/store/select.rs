//! Which files of a repository make the model that was asked for.
//!
//! Looks at names and sizes only, so that the Hub's listing and a snapshot on disk are judged alike.

use std::path::{Path, PathBuf};

use super::gguf_names::{self, GgufModel, gguf_models};
use super::name::{HubName, is_file};
use crate::capacity::bytes;

/// A file of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepoFile {
    /// With its folders, separated by `/`.
    pub name: String,
    pub size: u64,
}

/// The files of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    pub kind: Kind,
    pub files: Vec<RepoFile>,
    /// What was chosen where the name left a choice, with what else there is: worth a line to the user.
    pub choice: Option<String>,
}

/// How a model is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// The first of `files` is the one to open.
    Gguf { quant: Option<String> },
    /// The directory is what to open.
    Safetensors,
}

/// Why a repository holds no model that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    #[error("{id} holds no model: neither a .gguf file, nor config.json with model.safetensors")]
    NoModel { id: String },
    #[error("{id} has no {tag:?}; there are {available}")]
    NoSuchQuant { id: String, tag: String, available: String },
    #[error("{id} has no .gguf files, and so no {tag:?}; leave :{tag} off for its safetensors")]
    NoGguf { id: String, tag: String },
    #[error(
        "{id} holds pickled weights only ({file}). They are not read, since they can run code; a version in safetensors \
         or GGUF is needed"
    )]
    Pickles { id: String, file: String },
    #[error("{id} is incomplete, these parts are missing: {missing}")]
    MissingParts { id: String, missing: String },
}

impl Selection {
    /// Bytes of all its files.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// What is opened, where its files lie in `directory`: that, or the first GGUF file.
    pub fn path_in(&self, directory: &Path) -> PathBuf {
        match self.kind {
            Kind::Safetensors => directory.to_owned(),
            Kind::Gguf { .. } => directory.join(&self.files[0].name),
        }
    }
}

/// The files that `name` means among `files`.
pub fn select(name: &HubName, files: &[RepoFile]) -> Result<Selection, SelectError> {
    // A name that would lead out of the directory is no file of ours.
    let files: Vec<RepoFile> = files.iter().filter(|file| is_file(&file.name)).cloned().collect();
    let models = gguf_models(&files);
    let has = |file: &str| files.iter().any(|other| other.name == file);
    let weights = safetensors(&files);
    if let Some(file) = &name.file {
        return one_file(name, file, &files);
    }
    if let Some(tag) = &name.quant {
        return tagged(name, tag, &models);
    }
    match weights {
        Some(weights) if has("config.json") => with_metadata(name, weights, &files),
        _ if !models.is_empty() => usual(name, models),
        _ => Err(nothing(name, &files)),
    }
}

fn one_file(name: &HubName, file: &str, files: &[RepoFile]) -> Result<Selection, SelectError> {
    let named: Vec<RepoFile> = files.iter().filter(|other| other.name == file).cloned().collect();
    let all = gguf_models(files);
    // A part of a split stands for all of it.
    let whole = all.iter().find(|model| model.files.iter().any(|other| other.name == file)).cloned();
    match whole {
        Some(model) => gguf(name, model, None),
        // A file that we would not choose ourselves may be what the user means.
        None if !named.is_empty() => Ok(Selection { kind: Kind::Gguf { quant: None }, files: named, choice: None }),
        None => Err(no_such(name, file, &all)),
    }
}

fn tagged(name: &HubName, tag: &str, models: &[GgufModel]) -> Result<Selection, SelectError> {
    match gguf_names::tagged(models, tag) {
        Some(model) => gguf(name, model.clone(), None),
        None => Err(no_such(name, tag, models)),
    }
}

/// What llama.cpp and Ollama take if nothing is said, then what comes near it in size.
const USUAL: [&str; 5] = ["Q4_K_M", "Q4_K_S", "Q4_0", "Q5_K_M", "Q8_0"];

/// The usual quantisation, or the first there is.
fn usual(name: &HubName, models: Vec<GgufModel>) -> Result<Selection, SelectError> {
    let of = |quant: &&str| models.iter().find(|model| model.quant.as_deref() == Some(quant));
    let chosen = USUAL.iter().find_map(of).unwrap_or(&models[0]).clone();
    let choice = (models.len() > 1).then(|| {
        let what = chosen.quant.as_deref().unwrap_or(&chosen.files[0].name);
        let others: Vec<GgufModel> = models.iter().filter(|model| **model != chosen).cloned().collect();
        format!("taking {what} of {}; there are also {}", name.id(), available(&others))
    });
    gguf(name, chosen, choice)
}

fn gguf(name: &HubName, model: GgufModel, choice: Option<String>) -> Result<Selection, SelectError> {
    if !model.missing.is_empty() {
        return Err(SelectError::MissingParts { id: name.id(), missing: model.missing.join(", ") });
    }
    Ok(Selection { kind: Kind::Gguf { quant: model.quant }, files: model.files, choice })
}

/// That `models` have no `tag`, with those there are.
pub(super) fn no_such(name: &HubName, tag: &str, models: &[GgufModel]) -> SelectError {
    let (id, tag) = (name.id(), tag.to_owned());
    match models {
        [] => SelectError::NoGguf { id, tag },
        models => SelectError::NoSuchQuant { id, tag, available: available(models) },
    }
}

/// `Q4_K_M (88.2 MiB), Q8_0 (138.1 MiB)`.
fn available(models: &[GgufModel]) -> String {
    let one = |model: &GgufModel| {
        let label = model.quant.as_deref().unwrap_or(&model.files[0].name);
        format!("{label} ({})", bytes(model.size()))
    };
    models.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What a model needs beside its weights, as far as it has it.
const METADATA: [&str; 11] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
];
const INDEX: &str = "model.safetensors.index.json";

/// The weights in safetensors: one file, or the shards.
fn safetensors(files: &[RepoFile]) -> Option<Vec<RepoFile>> {
    let named = |name: &str| files.iter().find(|file| file.name == name).cloned();
    if let Some(single) = named("model.safetensors") {
        return Some(vec![single]);
    }
    let shards = files.iter().filter(|file| shard(&file.name).is_some()).cloned();
    let all: Vec<RepoFile> = named(INDEX).into_iter().chain(shards).collect();
    (!all.is_empty()).then_some(all)
}

/// `(2, 3)` for `model-00002-of-00003.safetensors`.
fn shard(name: &str) -> Option<(u32, u32)> {
    let (number, count) = name.strip_prefix("model-")?.strip_suffix(".safetensors")?.split_once("-of-")?;
    Some((number.parse().ok()?, count.parse().ok().filter(|count| *count <= 1000)?))
}

fn with_metadata(name: &HubName, weights: Vec<RepoFile>, files: &[RepoFile]) -> Result<Selection, SelectError> {
    let missing = missing_shards(&weights);
    if !missing.is_empty() {
        return Err(SelectError::MissingParts { id: name.id(), missing: missing.join(", ") });
    }
    let is_template = |name: &str| name.starts_with("additional_chat_templates/") && name.ends_with(".jinja");
    let metadata = files.iter().filter(|file| METADATA.contains(&file.name.as_str()) || is_template(&file.name));
    let files = metadata.cloned().chain(weights).collect();
    Ok(Selection { kind: Kind::Safetensors, files, choice: None })
}

fn missing_shards(weights: &[RepoFile]) -> Vec<String> {
    let there: Vec<(u32, u32)> = weights.iter().filter_map(|file| shard(&file.name)).collect();
    let is_single = weights.iter().any(|file| file.name == "model.safetensors");
    match there.first() {
        None if is_single => Vec::new(),
        None => vec!["all that model.safetensors.index.json names".to_owned()],
        Some((_, count)) => (1..=*count)
            .filter(|number| !there.contains(&(*number, *count)))
            .map(|number| format!("model-{number:05}-of-{count:05}.safetensors"))
            .collect(),
    }
}

fn nothing(name: &HubName, files: &[RepoFile]) -> SelectError {
    let pickled = |file: &&RepoFile| [".bin", ".pt", ".pth", ".ckpt"].iter().any(|end| file.name.ends_with(end));
    let has_safetensors = files.iter().any(|file| file.name.ends_with(".safetensors"));
    match files.iter().find(pickled) {
        Some(file) if !has_safetensors => SelectError::Pickles { id: name.id(), file: file.name.clone() },
        _ => SelectError::NoModel { id: name.id() },
    }
}
