//! Named tensors in one or more files: where each lies and how it is stored.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::LoadError;
use super::file;
use crate::quant::GgmlType;

/// Bytes read at a time; the staging buffer is never larger.
pub(super) const CHUNK_BYTES: usize = 4 << 20;

/// One tensor of a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorEntry {
    /// Index into [`TensorDirectory::files`].
    pub file: usize,
    /// Byte offset in the file.
    pub offset: u64,
    pub bytes: u64,
    /// Row-major.
    pub shape: Vec<usize>,
    /// Storage type: safetensors' floats share ggml's names for them. `Err` holds the name of one that is not known.
    pub ty: Result<&'static GgmlType, String>,
}

impl TensorEntry {
    /// The storage type's name.
    pub fn type_name(&self) -> &str {
        match &self.ty {
            Ok(ty) => ty.name,
            Err(name) => name,
        }
    }
}

/// All tensors of a checkpoint.
#[derive(Debug, Clone, Default)]
pub struct TensorDirectory {
    pub files: Vec<PathBuf>,
    pub tensors: BTreeMap<String, TensorEntry>,
}

impl TensorDirectory {
    /// Adds a tensor; a name may occur once, and its bytes must lie within the file.
    pub(super) fn insert(&mut self, name: String, entry: TensorEntry, file_len: u64) -> Result<(), LoadError> {
        let damaged = |what| LoadError::Damaged { path: self.files[entry.file].clone(), what };
        match entry.offset.checked_add(entry.bytes) {
            Some(end) if end <= file_len => {}
            _ => {
                return Err(damaged(format!(
                    "tensor {name:?} needs bytes {} to {}, but the file has {file_len}; was the download complete?",
                    entry.offset,
                    entry.offset.saturating_add(entry.bytes)
                )));
            }
        }
        if let Ok(ty) = entry.ty
            && ty.tensor_bytes(&entry.shape) != Some(entry.bytes)
        {
            let TensorEntry { shape, bytes, .. } = &entry;
            return Err(damaged(format!("tensor {name:?} of type {} and shape {shape:?} has {bytes} bytes", ty.name)));
        }
        if self.tensors.contains_key(&name) {
            return Err(damaged(format!("tensor {name:?} occurs twice")));
        }
        self.tensors.insert(name, entry);
        Ok(())
    }

    /// Refuses a file two of whose tensors share bytes. Those of unknown types have no known end.
    pub(super) fn check_overlaps(&self, file: usize) -> Result<(), LoadError> {
        let in_file = self.tensors.iter().filter(|(_, entry)| entry.file == file && entry.bytes > 0);
        let mut placed: Vec<(&String, &TensorEntry)> = in_file.collect();
        placed.sort_unstable_by_key(|(_, entry)| entry.offset);
        for pair in placed.windows(2) {
            let [(first, entry), (second, next)] = pair else { continue };
            let end = entry.offset + entry.bytes;
            if next.offset < end {
                let what = format!(
                    "tensor {second:?} starts at byte {} of the file, within tensor {first:?}, which ends at byte {end}",
                    next.offset
                );
                return Err(LoadError::Damaged { path: self.files[file].clone(), what });
            }
        }
        Ok(())
    }

    /// The checkpoint's first file, for messages.
    pub fn path(&self) -> &Path {
        self.files.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// The entry of `name`, or the error that it is missing.
    pub fn require(&self, name: &str) -> Result<&TensorEntry, LoadError> {
        self.tensors
            .get(name)
            .ok_or_else(|| LoadError::MissingTensor { path: self.path().to_owned(), tensor: name.to_owned() })
    }

    /// Calls `sink` with the tensor's bytes in order, in pieces of at most 4 MiB that hold whole blocks of `unit` bytes.
    pub fn read(
        &self,
        entry: &TensorEntry,
        unit: usize,
        mut sink: impl FnMut(&[u8]) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        let path = &self.files[entry.file];
        let io_error = |source| LoadError::Io { path: path.clone(), source };
        let (mut file, _) = file::open(path).map_err(io_error)?;
        file.seek(SeekFrom::Start(entry.offset)).map_err(io_error)?;
        let piece = (CHUNK_BYTES / unit * unit).min(entry.bytes as usize);
        let mut buffer = vec![0; piece];
        let mut left = entry.bytes as usize;
        while left > 0 {
            let piece = &mut buffer[..piece.min(left)];
            file.read_exact(piece).map_err(|source| match source.kind() {
                ErrorKind::UnexpectedEof => {
                    let end = entry.offset + entry.bytes;
                    let what = format!("it has shrunk since it was opened: a tensor should end at byte {end}");
                    LoadError::Damaged { path: path.clone(), what }
                }
                _ => io_error(source),
            })?;
            sink(piece)?;
            left -= piece.len();
        }
        Ok(())
    }
}
