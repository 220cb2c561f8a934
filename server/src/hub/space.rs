//! Whether what is going to be downloaded fits on the disk.

use std::path::Path;

use super::error::PullError;

/// Fails if `need` bytes do not fit where `directory` is or will be.
pub(super) fn check(directory: &Path, need: u64) -> Result<(), PullError> {
    match available(directory) {
        Some(available) if available < need => {
            Err(PullError::Space { need, available, directory: directory.to_owned() })
        }
        // A file system that does not say is no reason to stop.
        _ => Ok(()),
    }
}

/// Bytes that we may write, without those that are kept for the system.
fn available(directory: &Path) -> Option<u64> {
    let existing = directory.ancestors().find(|directory| directory.exists())?;
    let found = rustix::fs::statvfs(existing).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}
