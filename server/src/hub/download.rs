//! One file from the Hub to a blob of the cache: locked, brought, checked, and only then given its name.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::checksum::Checksum;
use super::error::PullError;
use super::partial::{self, Partial};
use super::remote::RemoteFile;
use super::transfer::Transfers;
use super::{Event, lock};
use crate::store::begun::length;

/// A file that the cache shall have.
pub(super) struct Wanted {
    pub file: RemoteFile,
    pub checksum: Checksum,
    pub blob: PathBuf,
    pub lock: PathBuf,
}

impl Wanted {
    /// Whether the cache has it.
    pub fn is_whole(&self) -> bool {
        self.blob.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == self.file.size)
    }

    /// Bytes of it that need not be downloaded.
    pub fn present_bytes(&self) -> u64 {
        if self.is_whole() {
            return self.file.size;
        }
        length(&partial::present(&self.blob, self.file.size))
    }
}

/// Brings `wanted`, of which `counted` bytes have been reported as present.
pub(super) async fn download(transfers: &Transfers<'_>, wanted: &Wanted, counted: u64) -> Result<(), PullError> {
    let (file, blob) = (&wanted.file, wanted.blob.as_path());
    let waiting = || transfers.tell(Event::Waiting { file: &file.name });
    let lock = lock::take(&wanted.lock, waiting).await.map_err(disk(&wanted.lock))?;
    // Whoever had the lock may have brought it, or some of it.
    transfers.tell(Event::Received(wanted.present_bytes().saturating_sub(counted)));
    if wanted.is_whole() {
        return Ok(());
    }
    let (partial, present) = Partial::open(blob, file.size, &file.name, lock).map_err(disk(blob))?;
    let partial = Arc::new(partial);
    let filled = transfers.fill(file, &partial, &present).await;
    if let Err(failure) = filled {
        if partial::present(blob, file.size).is_empty() {
            partial::remove(blob).map_err(disk(blob))?;
        }
        return Err(transfers.remote.asked.error_in(&file.name, failure));
    }
    transfers.tell(Event::Checking { file: &file.name });
    check(wanted, &partial).await?;
    partial.finish().map_err(disk(blob))
}

/// Compares what arrived with the Hub's checksum; removes what is damaged.
async fn check(wanted: &Wanted, partial: &Partial) -> Result<(), PullError> {
    let (checksum, path) = (wanted.checksum.clone(), partial.path().to_owned());
    let compare = move || checksum.mismatch(&path);
    let compared = tokio::task::spawn_blocking(compare).await.map_err(io::Error::other).flatten();
    let Some(found) = compared.map_err(disk(partial.path()))? else { return Ok(()) };
    partial::remove(&wanted.blob).map_err(disk(&wanted.blob))?;
    let (file, kind) = (wanted.file.name.clone(), wanted.checksum.kind());
    Err(PullError::Damaged { file, kind, found, expected: wanted.checksum.etag().to_owned() })
}

fn disk(path: &Path) -> impl FnOnce(io::Error) -> PullError {
    let path = path.to_owned();
    move |source| PullError::Disk { path, source }
}
