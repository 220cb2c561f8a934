//! Safetensors directories: one file, or shards listed by `model.safetensors.index.json`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::directory::{TensorDirectory, TensorEntry};
use super::error::LoadError;
use crate::quant::GgmlType;

/// The format's own limit on its header.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Reads the headers of all safetensors files of `dir`.
pub(super) fn open(dir: &Path) -> Result<TensorDirectory, LoadError> {
    let mut directory = TensorDirectory::default();
    for path in shards(dir)? {
        add_file(&mut directory, path)?;
    }
    Ok(directory)
}

/// The files named by the index, or the single `model.safetensors`, or whatever `*.safetensors` there is.
fn shards(dir: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let index = dir.join("model.safetensors.index.json");
    if index.is_file() {
        return shards_of_index(dir, &index);
    }
    let single = dir.join("model.safetensors");
    if single.is_file() {
        return Ok(vec![single]);
    }
    let io_error = |source| LoadError::Io { path: dir.to_owned(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(io_error)? {
        let path = entry.map_err(io_error)?.path();
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            found.push(path);
        }
    }
    found.sort();
    if found.is_empty() {
        let why = "the directory holds no .safetensors file".to_owned();
        return Err(LoadError::NotACheckpoint { path: dir.to_owned(), why });
    }
    Ok(found)
}

fn shards_of_index(dir: &Path, index: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let text = std::fs::read_to_string(index).map_err(|source| LoadError::Io { path: index.to_owned(), source })?;
    let damaged = |what: String| LoadError::Damaged { path: index.to_owned(), what };
    let json: serde_json::Value = serde_json::from_str(&text).map_err(|e| damaged(e.to_string()))?;
    let Some(map) = json.get("weight_map").and_then(|map| map.as_object()) else {
        return Err(damaged("it has no \"weight_map\"".to_owned()));
    };
    let mut names = BTreeSet::new();
    for file in map.values() {
        match file.as_str() {
            // A name is a file beside the index, never a path out of the directory.
            Some(name) if Path::new(name).file_name().is_some_and(|base| base == name) => names.insert(name),
            _ => return Err(damaged(format!("its weight_map names the file {file}"))),
        };
    }
    let paths: Vec<PathBuf> = names.into_iter().map(|name| dir.join(name)).collect();
    match paths.iter().find(|path| !path.is_file()) {
        Some(missing) => Err(damaged(format!("it lists {}, which is missing", missing.display()))),
        None => Ok(paths),
    }
}

fn add_file(directory: &mut TensorDirectory, path: PathBuf) -> Result<(), LoadError> {
    let io_error = |source| LoadError::Io { path: path.clone(), source };
    let damaged = |what: String| LoadError::Damaged { path: path.clone(), what };
    let mut file = File::open(&path).map_err(io_error)?;
    let file_len = file.metadata().map_err(io_error)?.len();
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(io_error)?;
    let header_len = u64::from_le_bytes(length);
    if header_len > MAX_HEADER_BYTES || header_len + 8 > file_len {
        return Err(damaged(format!("its header claims {header_len} bytes, the file has {file_len}")));
    }
    let mut header = vec![0; header_len as usize];
    file.read_exact(&mut header).map_err(io_error)?;
    let metadata: safetensors::tensor::Metadata =
        serde_json::from_slice(&header).map_err(|e| damaged(format!("its header is not what it should be: {e}")))?;
    directory.files.push(path.clone());
    for (name, info) in metadata.tensors() {
        let (start, end) = info.data_offsets;
        let entry = TensorEntry {
            file: directory.files.len() - 1,
            offset: header_len + 8 + start as u64,
            bytes: end.saturating_sub(start) as u64,
            shape: info.shape.clone(),
            ty: float_type(info.dtype),
        };
        directory.insert(name, entry, file_len)?;
    }
    Ok(())
}

fn float_type(dtype: safetensors::Dtype) -> Result<&'static GgmlType, String> {
    let id = match dtype {
        safetensors::Dtype::F32 => 0,
        safetensors::Dtype::F16 => 1,
        safetensors::Dtype::BF16 => 30,
        other => return Err(format!("{other:?}")),
    };
    GgmlType::from_id(id).ok_or_else(|| format!("{dtype:?}"))
}
