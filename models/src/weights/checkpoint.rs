//! Finds out what lies at a path: a GGUF file, the first of several, or a safetensors directory.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::directory::{TensorDirectory, TensorEntry};
use super::error::LoadError;
use super::file::{self, MAX_CONFIG_BYTES};
use super::gguf::Gguf;
use super::safetensors;
use crate::quant::GgmlType;

/// Files that one model may be split into; the format counts them with 16 bits.
const MAX_SPLITS: u64 = u16::MAX as u64;

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
        let kind = match std::fs::metadata(path) {
            Ok(metadata) => metadata.file_type(),
            Err(source) if source.kind() == ErrorKind::NotFound => {
                let why = "there is no such file or directory".to_owned();
                return Err(LoadError::NotACheckpoint { path: path.to_owned(), why });
            }
            Err(source) => return Err(LoadError::Io { path: path.to_owned(), source }),
        };
        if kind.is_dir() {
            return Self::open_dir(path);
        }
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            return Err(LoadError::NotACheckpoint { path: path.to_owned(), why: single_safetensors(path)? });
        }
        Self::open_gguf(path)
    }

    /// A safetensors checkpoint whose files have been read: `config` is the text of its `config.json`, each of `files`
    /// a name, the content from its beginning, and its length.
    pub fn from_parts<R: Read>(dir: &Path, config: &[u8], files: Vec<(&str, R, u64)>) -> Result<Self, LoadError> {
        let config = parse_config(&dir.join("config.json"), config)?;
        let mut directory = TensorDirectory::default();
        for (name, input, len) in files {
            safetensors::add_file(&mut directory, dir.join(name), input, len)?;
        }
        Ok(Self { format: Format::Safetensors { dir: dir.to_owned(), config }, directory })
    }

    fn open_dir(dir: &Path) -> Result<Self, LoadError> {
        let config_path = dir.join("config.json");
        if config_path.symlink_metadata().is_ok() {
            let text = file::read(&config_path, MAX_CONFIG_BYTES)
                .map_err(|source| LoadError::Io { path: config_path.clone(), source })?;
            let config = parse_config(&config_path, &text)?;
            let directory = safetensors::open(dir)?;
            return Ok(Self { format: Format::Safetensors { dir: dir.to_owned(), config }, directory });
        }
        match files_with(dir, &["gguf"])?.as_slice() {
            [] => Err(LoadError::NotACheckpoint {
                path: dir.to_owned(),
                why: format!("the directory holds neither a config.json nor a .gguf file{}", pickle_note(dir)?),
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
        if first.u64("split.count")?.unwrap_or(1) <= 1 {
            return Self::from_gguf(first);
        }
        let parts = other_splits(path, &first)?;
        let mut directory = TensorDirectory::default();
        add_tensors(&mut directory, &first)?;
        for (number, path) in (1..).zip(parts) {
            let part = Gguf::open(&path)?;
            check_split(&first, &part, number)?;
            add_tensors(&mut directory, &part)?;
        }
        let (found, all) = (directory.tensors.len() as u64, first.u64("split.tensors.count")?);
        if let Some(all) = all.filter(|all| *all != found) {
            let what = format!("its parts should hold {all} tensors (split.tensors.count), but they hold {found}");
            return Err(LoadError::Damaged { path: path.to_owned(), what });
        }
        Ok(Self { format: Format::Gguf(Box::new(first)), directory })
    }

    /// The checkpoint of a single GGUF file.
    pub fn from_gguf(gguf: Gguf) -> Result<Self, LoadError> {
        let mut directory = TensorDirectory::default();
        add_tensors(&mut directory, &gguf)?;
        Ok(Self { format: Format::Gguf(Box::new(gguf)), directory })
    }
}

fn parse_config(path: &Path, text: &[u8]) -> Result<serde_json::Value, LoadError> {
    let damaged = |what| LoadError::Damaged { path: path.to_owned(), what };
    let config: serde_json::Value = serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
    if config.is_object() { Ok(config) } else { Err(damaged("it is no JSON object".to_owned())) }
}

/// Why a `.safetensors` file by itself is no checkpoint.
fn single_safetensors(path: &Path) -> Result<String, LoadError> {
    let start = file::open(path).and_then(|(file, _)| file::start_of(file));
    let start = start.map_err(|source| LoadError::Io { path: path.to_owned(), source })?;
    Ok(match file::known_other(&start) {
        Some(what) => format!("it is {what}"),
        None => "a single safetensors file lacks its config.json; name the directory that holds both".to_owned(),
    })
}

/// The files of `dir` with one of these extensions, sorted.
pub(super) fn files_with(dir: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>, LoadError> {
    let io_error = |source| LoadError::Io { path: dir.to_owned(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(io_error)? {
        let path = entry.map_err(io_error)?.path();
        if path.extension().is_some_and(|found| extensions.iter().any(|extension| found == *extension)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// What to say of the pickles in a directory where nothing else was found.
pub(super) fn pickle_note(dir: &Path) -> Result<String, LoadError> {
    let pickles = files_with(dir, &["bin", "pt", "pth", "ckpt"])?;
    Ok(pickles.first().and_then(|path| path.file_name()).map_or_else(String::new, |name| {
        format!(
            "; {} is a Python pickle, and reading a pickle runs code from it, so none is read; convert it to safetensors",
            name.display()
        )
    }))
}

/// `(2, 3)` for `name-00002-of-00003.gguf`.
fn split_number(path: &Path) -> Option<(u64, u64)> {
    let stem = path.file_stem()?.to_str()?;
    let (rest, count) = stem.rsplit_once("-of-")?;
    let (_, number) = rest.rsplit_once('-')?;
    Some((number.parse().ok()?, count.parse().ok()?))
}

/// The files after the first, which must be the one that was named, since only it holds the metadata.
fn other_splits(path: &Path, first: &Gguf) -> Result<Vec<PathBuf>, LoadError> {
    let not = |why: String| LoadError::NotACheckpoint { path: path.to_owned(), why };
    let count = first.u64("split.count")?.unwrap_or(1);
    if count > MAX_SPLITS {
        return Err(not(format!("it claims to be one of {count} parts; at most {MAX_SPLITS} are possible")));
    }
    let number = first.u64("split.no")?.unwrap_or(0);
    if number != 0 {
        return Err(not(format!("this is part {} of {count}; name the first part", number.saturating_add(1))));
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
    match paths.iter().find(|path| !path.exists()) {
        Some(missing) => Err(not(format!("its part {} is missing", missing.display()))),
        None => Ok(paths),
    }
}

/// Refuses a part that belongs elsewhere: a copy of another one, or a part of another model.
fn check_split(first: &Gguf, part: &Gguf, number: u64) -> Result<(), LoadError> {
    let of = |gguf: &Gguf| Ok::<_, LoadError>((gguf.u64("split.no")?.unwrap_or(0), gguf.u64("split.count")?));
    let ((found, found_count), (_, count)) = (of(part)?, of(first)?);
    if (found, found_count) == (number, count) {
        return Ok(());
    }
    let what = format!(
        "its name says part {} of {}, the file itself part {} of {}",
        number + 1,
        count.unwrap_or(1),
        found.saturating_add(1),
        found_count.unwrap_or(1)
    );
    Err(LoadError::Damaged { path: part.path.clone(), what })
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
    directory.check_overlaps(directory.files.len() - 1)
}
