//! Where a model lies that is already here, or what of it is not.

use std::path::PathBuf;

use super::begun::Begun;
use super::cache::{CacheError, HubCache};
use super::name::HubName;
use super::scan::{CachedRepo, CachedRevision};
use super::select::{Kind, RepoFile, SelectError, Selection, select};
use crate::capacity::bytes;

/// A model that is in the cache with all its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    /// What to open: the snapshot's directory, or a GGUF file (of a split one, its first part).
    pub path: PathBuf,
    pub revision: CachedRevision,
    pub selection: Selection,
}

/// Why a model cannot be opened without downloading.
#[derive(Debug, thiserror::Error)]
pub enum NotHere {
    #[error("{0} is not in the cache")]
    Repository(String),
    #[error("{name} is not in the cache, its download has only begun: {arrived}")]
    Begun { name: String, arrived: String },
    #[error("{name} is not in the cache: of {id} it holds {held}, not {wanted}")]
    Revision { name: String, id: String, wanted: String, held: String },
    #[error("{name} is in the cache only in part, these files are missing: {missing}")]
    Incomplete { name: String, missing: String },
    #[error("in the cache, {0}")]
    Other(#[from] SelectError),
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// The model of this name in `cache`.
pub fn resolve_local(name: &HubName, cache: &HubCache) -> Result<Local, NotHere> {
    let repo = cache.scan_repo(name)?.ok_or_else(|| NotHere::Repository(name.to_string()))?;
    let commit = cache.read_ref(name, name.revision())?;
    let revision = repo.revisions.iter().find(|revision| Some(&revision.commit) == commit.as_ref());
    let revision = revision.ok_or_else(|| no_revision(name, &repo))?.clone();
    let selection = select(name, &revision.repo_files())?;
    let missing = missing(&repo, &revision, &selection);
    if !missing.is_empty() {
        return Err(NotHere::Incomplete { name: name.to_string(), missing: missing.join(", ") });
    }
    let path = selection.path_in(&revision.dir);
    Ok(Local { path, revision, selection })
}

impl CachedRevision {
    /// Its files as a listing; one whose bytes are not here has no size.
    pub fn repo_files(&self) -> Vec<RepoFile> {
        let size = |file: &super::scan::CachedFile| file.blob.as_ref().map_or(0, |blob| blob.size);
        self.files.iter().map(|file| RepoFile { name: file.name.clone(), size: size(file) }).collect()
    }
}

/// That `repo` lacks the revision of `name`, with those it has.
pub(super) fn no_revision(name: &HubName, repo: &CachedRepo) -> NotHere {
    let describe = |revision: &CachedRevision| match revision.refs.first() {
        Some(branch) => branch.clone(),
        None => format!("commit {}", revision.commit),
    };
    match repo.revisions.iter().map(describe).collect::<Vec<_>>() {
        held if held.is_empty() && !repo.begun.is_empty() => {
            NotHere::Begun { name: name.to_string(), arrived: arrived(&repo.begun) }
        }
        held if held.is_empty() => NotHere::Repository(name.to_string()),
        held => NotHere::Revision {
            name: name.to_string(),
            id: name.id(),
            wanted: name.revision().to_owned(),
            held: held.join(", "),
        },
    }
}

/// How much of some downloads is here: `51.5 MiB of 93.8 MiB`.
fn arrived(begun: &[Begun]) -> String {
    let present = bytes(begun.iter().map(|one| one.present).sum());
    match begun.iter().map(|one| one.size).sum::<Option<u64>>() {
        Some(size) => format!("{present} of {}", bytes(size)),
        None => present,
    }
}

/// Files of the model whose bytes are not here. A tokenizer counts while a download is unfinished: it may be what that
/// download would have brought next, and without it nothing can be said.
pub(super) fn missing(repo: &CachedRepo, revision: &CachedRevision, selection: &Selection) -> Vec<String> {
    let is_here = |name: &str| revision.files.iter().any(|file| file.name == name && file.blob.is_some());
    let mut wanted: Vec<&str> = selection.files.iter().map(|file| file.name.as_str()).collect();
    if selection.kind == Kind::Safetensors && !repo.begun.is_empty() && !wanted.contains(&"tokenizer.json") {
        wanted.push("tokenizer.json");
    }
    wanted.into_iter().filter(|name| !is_here(name)).map(str::to_owned).collect()
}
