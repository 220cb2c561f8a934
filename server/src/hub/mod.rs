//! Models from the Hugging Face Hub: from a name to files in the cache, whole and checked.
//!
//! A snapshot and its ref are written when all files of the model are there, so a model that was pulled in part is never
//! taken for one. What has arrived is kept, see [`partial`].

mod checksum;
mod download;
mod error;
mod failure;
mod interrupt;
mod limits;
mod lock;
mod partial;
mod remote;
mod space;
mod token;
mod transfer;

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::PathBuf;

use futures_util::{StreamExt, stream};
use serde::Serialize;
use tokio::sync::Semaphore;

use crate::store::cache::HubCache;
use crate::store::name::{HubName, is_file};
use crate::store::select::{RepoFile, Selection, select};
use download::{Wanted, download};
use remote::{Remote, RemoteFile};
use transfer::Transfers;

pub use error::PullError;
pub use interrupt::Interrupt;
pub use limits::Limits;

/// What to bring, and where to.
#[derive(Debug)]
pub struct PullRequest<'a> {
    pub name: &'a HubName,
    pub cache: &'a HubCache,
    pub limits: Limits,
    pub interrupt: Interrupt,
}

/// A model that is wholly in the cache.
#[derive(Debug, Serialize)]
pub struct Pulled {
    pub name: String,
    pub revision: String,
    pub commit: String,
    pub files: Vec<PulledFile>,
    /// Of all its files.
    pub bytes: u64,
    /// Of these, what this pull brought.
    pub downloaded: u64,
    /// What to open: a GGUF file, or a directory.
    pub path: PathBuf,
}

/// A file of a model.
#[derive(Debug, Serialize)]
pub struct PulledFile {
    pub name: String,
    pub bytes: u64,
}

/// What a pull tells while it runs.
#[derive(Debug)]
pub enum Event<'a> {
    /// What was chosen where the name left a choice.
    Choice(&'a str),
    /// What the model needs, and how much of it is here.
    Begin { files: usize, bytes: u64, present: u64 },
    /// So many bytes more are here.
    Received(u64),
    /// So many bytes that had been received do not count.
    Lost(u64),
    /// The connection broke and is made anew.
    Again { file: &'a str, why: &'a str },
    /// Another process downloads this file, and we wait for it.
    Waiting { file: &'a str },
    /// The file is here and is being read once more.
    Checking { file: &'a str },
}

/// Is told what happens.
pub type Report<'a> = dyn FnMut(Event<'_>) + 'a;

/// Brings the model into the cache; returns when it is there, or why it is not.
///
/// Must not be called on a thread that runs an asynchronous runtime: it has its own.
pub fn pull(request: &PullRequest, report: &mut Report<'_>) -> Result<Pulled, PullError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| PullError::Disk { path: request.cache.root.clone(), source })?;
    let result = runtime.block_on(async {
        tokio::select! {
            result = pull_now(request, report) => result,
            () = request.interrupt.raised() => Err(PullError::Interrupted),
        }
    });
    // Not dropped: that would wait for whoever holds a lock that we wait for.
    runtime.shutdown_background();
    result
}

async fn pull_now(request: &PullRequest<'_>, report: &mut Report<'_>) -> Result<Pulled, PullError> {
    let (name, cache) = (request.name, request.cache);
    let remote = Remote::new(name, request.limits.clone())?;
    let commit = remote.commit().await?;
    let (selection, wanted) = wanted(&remote, request, &commit).await?;
    if let Some(choice) = &selection.choice {
        report(Event::Choice(choice));
    }
    let present: u64 = wanted.iter().map(Wanted::present_bytes).sum();
    let need = selection.size().saturating_sub(present);
    space::check(&cache.root, need)?;
    report(Event::Begin { files: wanted.len(), bytes: selection.size(), present });
    bring(&remote, &commit, &wanted, report).await?;
    for wanted in &wanted {
        cache.link(name, &commit, &wanted.file.name, wanted.checksum.etag())?;
    }
    cache.write_ref(name, name.revision(), &commit)?;
    let path = selection.path_in(&cache.snapshot(name, &commit)?);
    Ok(pulled(name, &commit, &selection.files, need, path))
}

/// The files of the model, and where each of them goes.
async fn wanted(
    remote: &Remote,
    request: &PullRequest<'_>,
    commit: &str,
) -> Result<(Selection, Vec<Wanted>), PullError> {
    let mut listing = remote.files(commit).await?;
    if let Some(file) = listing.iter().find(|file| !is_file(&file.name)) {
        return Err(PullError::UnsafeFile { name: request.name.id(), file: file.name.clone() });
    }
    let files: Vec<_> = listing.iter().map(|file| RepoFile { name: file.name.clone(), size: file.size }).collect();
    let selection = select(request.name, &files)?;
    listing.retain(|file| selection.files.iter().any(|selected| selected.name == file.name));
    let sha256s = match listing.iter().all(|file| file.checksum.is_some()) {
        true => Default::default(),
        false => remote.sha256s(commit).await?,
    };
    let in_order = selection.files.iter().filter_map(|one| listing.iter().find(|file| file.name == one.name));
    let wanted = in_order.map(|file| {
        let checksum = file.checksum.clone().or_else(|| sha256s.get(&file.name).cloned());
        place(request, file.clone(), checksum)
    });
    let wanted = wanted.collect::<Result<Vec<_>, _>>()?;
    Ok((selection, wanted))
}

fn place(
    request: &PullRequest<'_>,
    file: RemoteFile,
    checksum: Option<checksum::Checksum>,
) -> Result<Wanted, PullError> {
    let (name, cache) = (request.name, request.cache);
    let none = || PullError::NoChecksum { name: name.id(), file: file.name.clone() };
    let checksum = checksum.ok_or_else(none)?;
    let blob = cache.blob_to_write(name, checksum.etag())?;
    let lock = cache.lock(name, checksum.etag())?;
    Ok(Wanted { file, checksum, blob, lock })
}

/// Downloads what is not here, several files at once.
async fn bring(remote: &Remote, commit: &str, wanted: &[Wanted], report: &mut Report<'_>) -> Result<(), PullError> {
    let connections = remote.limits.connections.max(1);
    let report = RefCell::new(report);
    let transfers = Transfers { remote, commit, connections: Semaphore::new(connections), report };
    // Two files with the same bytes are one blob.
    let mut begun = HashSet::new();
    let missing = wanted.iter().filter(|wanted| !wanted.is_whole() && begun.insert(wanted.checksum.etag()));
    let downloads = missing.map(|wanted| download(&transfers, wanted, wanted.present_bytes()));
    let mut downloads = std::pin::pin!(stream::iter(downloads).buffer_unordered(connections));
    while let Some(downloaded) = downloads.next().await {
        downloaded?;
    }
    Ok(())
}

fn pulled(name: &HubName, commit: &str, files: &[RepoFile], downloaded: u64, path: PathBuf) -> Pulled {
    Pulled {
        name: name.to_string(),
        revision: name.revision().to_owned(),
        commit: commit.to_owned(),
        files: files.iter().map(|file| PulledFile { name: file.name.clone(), bytes: file.size }).collect(),
        bytes: files.iter().map(|file| file.size).sum(),
        downloaded,
        path,
    }
}
