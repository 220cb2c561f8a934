//! Finds out what lies at a path: a GGUF file, the first of several, or a safetensors directory.

use std::path::{Path, PathBuf};

use super::directory::{TensorDirectory, TensorEntry};
use super::error::LoadError;
use super::gguf::Gguf;
use super::safetensors;
use crate::quant::GgmlType;

/// How a checkpoint is stored, with what describes it.
#[derive(Debug, Clone)]
pub enum Format {
    /// `config.json` beside safetensors files.
    Safetensors {
        dir: PathBuf,
        config: serde_json::Value,
    },
    Gguf(Box<Gguf>),
}

/// A checkpoint whose headers have been read.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    pub format: Format,
    pub directory: TensorDirectory,
}

impl Checkpoint {
    /// Opens a `.gguf` file, or a directory that holds `config.json` and safetensors, or GGUF files of one model.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        if path.is_dir() {
            return Self::open_dir(path);
        }
        if !path.exists() {
            return Err(LoadError::NotACheckpoint {
                path: path.to_owned(),
                why: "there is no such file or directory".to_owned(),
            });
        }
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            let why = "a single safetensors file lacks its config.json; name the directory that holds both".to_owned();
            return Err(LoadError::NotACheckpoint { path: path.to_owned(), why });
        }
        Self::open_gguf(path)
    }

    fn open_dir(dir: &Path) -> Result<Self, LoadError> {
        let config_path = dir.join("config.json");
        if config_path.is_file() {
            let text = std::fs::read_to_string(&config_path)
                .map_err(|source| LoadError::Io { path: config_path.clone(), source })?;
            let config = serde_json::from_str(&text)
                .map_err(|e| LoadError::Damaged { path: config_path.clone(), what: e.to_string() })?;
            let directory = safetensors::open(dir)?;
            return Ok(Self { format: Format::Safetensors { dir: dir.to_owned(), config }, directory });
        }
        match gguf_files(dir)?.as_slice() {
            [] => Err(LoadError::NotACheckpoint {
                path: dir.to_owned(),
                why: "the directory holds neither a config.json nor a .gguf file".to_owned(),
            }),
            [file] => Self::open_gguf(file),
            [first, ..] if split_number(first).is_some_and(|(number, _)| number == 1) => Self::open_gguf(first),
            several => Err(LoadError::NotACheckpoint {
                path: dir.to_owned(),
                why: format!("the directory holds {} .gguf files; name one of them", several.len()),
            }),
        }
    }

    fn open_gguf(path: &Path) -> Result<Self, LoadError> {
        let first = Gguf::open(path)?;
        let mut directory = TensorDirectory::default();
        let count = first.u64("split.count")?.unwrap_or(1);
        add_tensors(&mut directory, &first)?;
        if count > 1 {
            for other in other_splits(path, &first, count)? {
                add_tensors(&mut directory, &Gguf::open(&other)?)?;
            }
        }
        Ok(Self { format: Format::Gguf(Box::new(first)), directory })
    }
}

/// The `.gguf` files of `dir`, sorted.
fn gguf_files(dir: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let io_error = |source| LoadError::Io { path: dir.to_owned(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(io_error)? {
        let path = entry.map_err(io_error)?.path();
        if path.extension().is_some_and(|extension| extension == "gguf") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// `(2, 3)` for `name-00002-of-00003.gguf`.
fn split_number(path: &Path) -> Option<(u64, u64)> {
    let stem = path.file_stem()?.to_str()?;
    let (rest, count) = stem.rsplit_once("-of-")?;
    let (_, number) = rest.rsplit_once('-')?;
    Some((number.parse().ok()?, count.parse().ok()?))
}

/// The files after the first, which must be the one that was named, since only it holds the metadata.
fn other_splits(path: &Path, first: &Gguf, count: u64) -> Result<Vec<PathBuf>, LoadError> {
    let not = |why: String| LoadError::NotACheckpoint { path: path.to_owned(), why };
    let number = first.u64("split.no")?.unwrap_or(0);
    if number != 0 {
        return Err(not(format!("this is part {} of {count}; name the first part", number + 1)));
    }
    let Some((1, named)) = split_number(path) else {
        return Err(not(format!("a file of {count} parts must be named like model-00001-of-{count:05}.gguf")));
    };
    if named != count {
        return Err(not(format!("the name says {named} parts, the file itself {count}")));
    }
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let base = stem.strip_suffix(&format!("-00001-of-{count:05}")).unwrap_or(stem);
    let paths: Vec<PathBuf> =
        (2..=count).map(|part| path.with_file_name(format!("{base}-{part:05}-of-{count:05}.gguf"))).collect();
    match paths.iter().find(|path| !path.is_file()) {
        Some(missing) => Err(not(format!("its part {} is missing", missing.display()))),
        None => Ok(paths),
    }
}

fn add_tensors(directory: &mut TensorDirectory, gguf: &Gguf) -> Result<(), LoadError> {
    directory.files.push(gguf.path.clone());
    for tensor in &gguf.tensors {
        let damaged = |what| LoadError::Damaged { path: gguf.path.clone(), what };
        let ty = GgmlType::from_id(tensor.ggml_type).ok_or_else(|| format!("ggml type {}", tensor.ggml_type));
        let bytes = match &ty {
            Ok(ty) => ty.tensor_bytes(&tensor.shape).ok_or_else(|| {
                damaged(format!(
                    "tensor {:?} of type {} has the shape {:?}, whose rows are not a multiple of {}",
                    tensor.name, ty.name, tensor.shape, ty.block_size
                ))
            })?,
            Err(_) => 0, // of unknown size; an error only if someone asks for it
        };
        let entry = TensorEntry {
            file: directory.files.len() - 1,
            offset: tensor.offset,
            bytes,
            shape: tensor.shape.clone(),
            ty,
        };
        directory.insert(tensor.name.clone(), entry, gguf.file_len)?;
    }
    Ok(())
}
