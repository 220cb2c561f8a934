//! How a checkpoint's files are opened: regular files only, read whole only up to a limit, and named by what they begin
//! with where they are something else.
//!
//! Opening a named pipe would wait for a writer that may never come, and a device may never end.

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Bytes of a configuration that are read; published ones have a few KB, vocabularies in them a few MB.
pub const MAX_CONFIG_BYTES: u64 = 16 << 20;
/// Bytes of a shard index; the largest that is published (of a model with 90,000 tensors) has 9 MB.
pub(super) const MAX_INDEX_BYTES: u64 = 64 << 20;

/// Opens the regular file at `path`, with its length.
pub fn open(path: &Path) -> io::Result<(File, u64)> {
    let kind = std::fs::metadata(path)?.file_type();
    if kind.is_dir() {
        return Err(io::Error::other("it is a directory, where a file is expected"));
    }
    if !kind.is_file() {
        return Err(io::Error::other("it is a pipe, a socket or a device; only regular files are read"));
    }
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    Ok((file, len))
}

/// All bytes of the regular file at `path`, which may have `limit` of them.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (file, len) = open(path)?;
    let too_long =
        |len: u64| io::Error::other(format!("it has {len} bytes; of a file of this kind at most {limit} are read"));
    if len > limit {
        return Err(too_long(len));
    }
    let mut bytes = Vec::with_capacity(len as usize);
    // It may have grown since.
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(too_long(bytes.len() as u64)) } else { Ok(bytes) }
}

/// What a file is that begins with `start` and is neither GGUF nor safetensors: what people name as a model, or get
/// instead of one when they download it.
pub(super) fn known_other(start: &[u8]) -> Option<&'static str> {
    const PICKLE: &str = "a Python pickle, probably a PyTorch checkpoint. Reading a pickle runs code from it, so none is \
                          read; convert it to safetensors or GGUF";
    const PACKED: &str = "a compressed file; unpack it first";
    let known: [(&[u8], &str); 12] = [
        (
            b"PK\x03\x04",
            "a zip archive, probably a PyTorch checkpoint. Those hold Python pickles, and reading a pickle runs code from \
             it, so none is read; convert it to safetensors or GGUF",
        ),
        (b"\x80\x02", PICKLE),
        (b"\x80\x03", PICKLE),
        (b"\x80\x04", PICKLE),
        (b"\x80\x05", PICKLE),
        (b"\x1f\x8b", PACKED),
        (b"\x28\xb5\x2f\xfd", PACKED),
        (b"\xfd7zXZ", PACKED),
        (b"version https://git-lfs", "a Git LFS pointer: the model itself is still to be downloaded (git lfs pull)"),
        (b"<!", "a web page, so the download went wrong"),
        (b"<htm", "a web page, so the download went wrong"),
        (b"\x89HDF", "an HDF5 file, which is not supported; convert it to safetensors or GGUF"),
    ];
    known.into_iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, what)| what)
}

/// The first bytes of `input`, fewer if it is short.
pub(super) fn start_of(input: impl Read) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    input.take(32).read_to_end(&mut start)?;
    Ok(start)
}

/// Text or a value from a file as it stands in a message: quoted, and cut where it is long.
pub fn brief(value: impl Debug) -> String {
    cut(format!("{value:?}"), 200)
}

/// A message of a library, which may quote what it read at any length.
pub fn brief_message(error: impl std::fmt::Display) -> String {
    cut(error.to_string(), 500)
}

fn cut(text: String, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_beyond_its_limit_is_not_read() {
        let path = std::env::temp_dir().join(format!("taper-limit-{}", std::process::id()));
        std::fs::write(&path, b"1234").unwrap();
        let whole = read(&path, 4).unwrap();
        let message = read(&path, 3).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(whole, b"1234");
        assert_eq!(message, "it has 4 bytes; of a file of this kind at most 3 are read");
    }
}
