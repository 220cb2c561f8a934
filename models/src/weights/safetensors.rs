//! Safetensors directories: one file, or shards listed by `model.safetensors.index.json`.
//!
//! Headers are read by our own visitor, since the library's keeps the last of two tensors of one name and names no
//! tensor in its errors. What it refuses is refused here too: overlaps, holes, and bytes after the last tensor.

use std::collections::BTreeSet;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use safetensors::tensor::TensorInfo;
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::directory::{TensorDirectory, TensorEntry};
use super::error::LoadError;
use super::file::{self, MAX_INDEX_BYTES, brief, brief_message};
use crate::quant::GgmlType;

/// The format's own limit on its header.
const MAX_HEADER_BYTES: u64 = 100_000_000;
/// Longer names are no names, and they appear in messages.
const MAX_NAME_BYTES: usize = 1024;

/// Reads the headers of all safetensors files of `dir`.
pub(super) fn open(dir: &Path) -> Result<TensorDirectory, LoadError> {
    let mut directory = TensorDirectory::default();
    for path in shards(dir)? {
        let (file, file_len) = file::open(&path).map_err(|source| LoadError::Io { path: path.clone(), source })?;
        add_file(&mut directory, path, file, file_len)?;
    }
    Ok(directory)
}

/// The files named by the index, or the single `model.safetensors`, or whatever `*.safetensors` there is.
fn shards(dir: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let index = dir.join("model.safetensors.index.json");
    if is_there(&index)? {
        let io_error = |source| LoadError::Io { path: index.clone(), source };
        let text = file::read(&index, MAX_INDEX_BYTES).map_err(io_error)?;
        let paths: Vec<PathBuf> = index_files(&index, &text)?.into_iter().map(|name| dir.join(name)).collect();
        if let Some(missing) = paths.iter().find(|path| !path.exists()) {
            let what = format!("it lists {}, which is missing", missing.display());
            return Err(LoadError::Damaged { path: index, what });
        }
        return Ok(paths);
    }
    let single = dir.join("model.safetensors");
    if is_there(&single)? {
        return Ok(vec![single]);
    }
    let found = super::checkpoint::files_with(dir, &["safetensors"])?;
    if found.is_empty() {
        let why = format!("the directory holds no .safetensors file{}", super::checkpoint::pickle_note(dir)?);
        return Err(LoadError::NotACheckpoint { path: dir.to_owned(), why });
    }
    Ok(found)
}

/// Whether anything has this name, be it a link to nothing or to itself; those are errors when they are opened.
fn is_there(path: &Path) -> Result<bool, LoadError> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(LoadError::Io { path: path.to_owned(), source }),
    }
}

/// The names of the files that an index with this text lists.
pub fn index_files(index: &Path, text: &[u8]) -> Result<BTreeSet<String>, LoadError> {
    let damaged = |what: String| LoadError::Damaged { path: index.to_owned(), what };
    let json: serde_json::Value = serde_json::from_slice(text).map_err(|e| damaged(e.to_string()))?;
    let Some(map) = json.get("weight_map").and_then(|map| map.as_object()).filter(|map| !map.is_empty()) else {
        return Err(damaged("it has no \"weight_map\", or an empty one".to_owned()));
    };
    let mut names = BTreeSet::new();
    for (tensor, file) in map {
        match file.as_str() {
            // A name is a file beside the index, never a path out of the directory.
            Some(name) if Path::new(name).file_name().is_some_and(|base| base == name) => names.insert(name.to_owned()),
            _ => {
                return Err(damaged(format!(
                    "its weight_map has tensor {} in {}, which is no file name",
                    brief(tensor),
                    brief_message(file)
                )));
            }
        };
    }
    Ok(names)
}

/// Adds the tensors of `input`, a file of `file_len` bytes.
pub(super) fn add_file(
    directory: &mut TensorDirectory,
    path: PathBuf,
    mut input: impl Read,
    file_len: u64,
) -> Result<(), LoadError> {
    let damaged = |what: String| LoadError::Damaged { path: path.clone(), what };
    let header = header_bytes(&path, &mut input, file_len)?;
    let data_start = header.len() as u64 + 8;
    let Header(mut tensors) = serde_json::from_slice(&header)
        .map_err(|error| damaged(format!("its header is not what it should be: {}", brief_message(error))))?;
    drop(header);
    tensors.sort_by_key(|(_, info)| info.data_offsets);
    check_layout(&tensors, file_len - data_start).map_err(damaged)?;
    directory.files.push(path);
    for (name, info) in tensors {
        let (start, end) = info.data_offsets;
        let entry = TensorEntry {
            file: directory.files.len() - 1,
            offset: data_start + start as u64,
            bytes: (end - start) as u64,
            shape: info.shape,
            ty: float_type(info.dtype),
        };
        directory.insert(name, entry, file_len)?;
    }
    Ok(())
}

fn header_bytes(path: &Path, input: &mut impl Read, file_len: u64) -> Result<Vec<u8>, LoadError> {
    let io_error = |source| LoadError::Io { path: path.to_owned(), source };
    let damaged = |what: String| LoadError::Damaged { path: path.to_owned(), what };
    let start = file::start_of(&mut *input).map_err(io_error)?;
    if let Some(what) = file::known_other(&start) {
        return Err(LoadError::NotACheckpoint { path: path.to_owned(), why: format!("it is {what}") });
    }
    let Some((length, rest)) = start.split_first_chunk::<8>() else {
        return Err(damaged(format!("it has {file_len} bytes, less than the length of a header takes")));
    };
    let header_len = u64::from_le_bytes(*length);
    if header_len > MAX_HEADER_BYTES || header_len + 8 > file_len {
        return Err(damaged(format!("its header claims {header_len} bytes, the file has {file_len}")));
    }
    let mut header = vec![0; header_len as usize];
    rest.chain(input).read_exact(&mut header).map_err(io_error)?;
    Ok(header)
}

/// Tensors must fill the data, in the order of their offsets and without holes, each with as many bytes as it needs.
fn check_layout(tensors: &[(String, TensorInfo)], data_len: u64) -> Result<(), String> {
    let (mut done, mut last) = (0, "the header");
    for (name, info) in tensors {
        let (start, end) = info.data_offsets;
        if start < done {
            return Err(format!(
                "tensor {name:?} starts at byte {start} of the data, before the end of {last} at {done}"
            ));
        }
        if start > done {
            return Err(format!("bytes {done} to {start} of the data, before tensor {name:?}, belong to no tensor"));
        }
        let elements = info.shape.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim));
        let bits = elements.and_then(|elements| elements.checked_mul(info.dtype.bitsize()));
        let bytes = end.checked_sub(start);
        if bits.is_none() || bytes.and_then(|bytes| bytes.checked_mul(8)) != bits {
            return Err(format!(
                "tensor {name:?} of type {:?} and shape {:?} has the bytes {start} to {end}",
                info.dtype, info.shape
            ));
        }
        (done, last) = (end, name);
    }
    match data_len.checked_sub(done as u64) {
        Some(0) => Ok(()),
        Some(rest) => Err(format!("its last {rest} bytes belong to no tensor")),
        None => Err(format!(
            "its tensors need {done} bytes after the header, but the file has {data_len}; was the download complete?"
        )),
    }
}

/// What a header says of its tensors.
struct Header(Vec<(String, TensorInfo)>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object of tensors by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut tensors = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if name.len() > MAX_NAME_BYTES {
                return Err(A::Error::custom(format!("a tensor's name has {} bytes", name.len())));
            }
            let info = map.next_value::<TensorInfo>();
            let info = info.map_err(|error| A::Error::custom(format!("tensor {name:?}: {error}")))?;
            tensors.push((name, info));
        }
        Ok(Header(tensors))
    }
}

fn float_type(dtype: Dtype) -> Result<&'static GgmlType, String> {
    let id = match dtype {
        Dtype::F32 => 0,
        Dtype::F16 => 1,
        Dtype::BF16 => 30,
        other => return Err(format!("{other:?}")),
    };
    GgmlType::from_id(id).ok_or_else(|| format!("{dtype:?}"))
}
