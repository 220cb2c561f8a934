//! Models by name: what a name means, where downloaded files lie, which of them make a model. Knows no network.

pub mod begun;
pub mod cache;
pub mod gguf_names;
pub mod models;
pub mod name;
pub mod remove;
pub mod resolve;
pub mod scan;
pub mod select;

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

#[cfg(test)]
mod tests;

/// Opens a file that the cache itself makes. A link in its place is an error: anyone may have put it there.
pub(crate) fn open_own(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, rustix::fs::OFlags::NOFOLLOW.bits() as i32);
    options.open(path)
}
