//! Trees of source files: copied, listed.

use crate::{Result, said};
use std::fs;
use std::path::{Path, PathBuf};

/// Copies a folder and all that is in it. Written anew rather than copied with their permissions: a registry's files may be
/// read-only.
pub fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).map_err(|error| said(to, &error))?;
    for path in entries(from)? {
        let target = to.join(path.file_name().expect("an entry of a folder has a name"));
        if path.is_dir() {
            copy_tree(&path, &target)?;
        } else {
            let bytes = fs::read(&path).map_err(|error| said(&path, &error))?;
            fs::write(&target, bytes).map_err(|error| said(&target, &error))?;
        }
    }
    Ok(())
}

/// Every Rust file below a folder, in the order of their paths.
pub fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = vec![];
    for path in entries(folder)? {
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(files)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = || fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>();
    let mut paths = read().map_err(|error| said(folder, &error))?;
    paths.sort();
    Ok(paths)
}
