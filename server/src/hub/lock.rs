//! One process at a time writes a blob, be it ours or one of `huggingface_hub`, which locks the same file.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::store::open_own;

/// Takes the lock at `path`; calls `waiting` once if someone else has it.
pub(super) async fn take(path: &Path, waiting: impl Fn()) -> io::Result<File> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mut told = false;
    loop {
        let mut file = open_own(OpenOptions::new().read(true).write(true).create(true).truncate(false), path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => {
                if !told {
                    waiting();
                    told = true;
                }
                // On a thread of its own, so that Ctrl-C is heard meanwhile.
                let lock = move || file.lock().map(|()| file);
                file = tokio::task::spawn_blocking(lock).await.map_err(io::Error::other)??;
            }
        }
        if is_at(&file, path) {
            return Ok(file);
        }
    }
}

/// Some tools remove the lock's file when they are done; who has waited for that one has locked nothing.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.metadata()) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}
