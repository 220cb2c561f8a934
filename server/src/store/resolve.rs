//! Where a model lies that is already here, or what of it is not.

use std::path::PathBuf;

use super::begun::Begun;
use super::cache::{CacheError, HubCache};
use super::gguf_names::{GgufModel, gguf_models, quantised};
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
    let selection = match select(name, &revision.repo_files()) {
        Err(_) if name.revision.is_none() && !begun_of(name, &repo).is_empty() => return Err(only_begun(name, &repo)),
        selected => selected?,
    };
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
        held if held.is_empty() && !begun_of(name, repo).is_empty() => only_begun(name, repo),
        held if held.is_empty() => NotHere::Repository(name.to_string()),
        held => NotHere::Revision {
            name: name.to_string(),
            id: name.id(),
            wanted: name.revision().to_owned(),
            held: held.join(", "),
        },
    }
}

/// The downloads in `repo` that have only begun and are of what `name` means: all of them, or those of its quantisation or file.
pub(super) fn begun_of<'a>(name: &HubName, repo: &'a CachedRepo) -> Vec<&'a Begun> {
    let file = |begun: &Begun| Some(RepoFile { name: begun.file.clone()?, size: begun.present });
    let models = gguf_models(&repo.begun.iter().filter_map(file).collect::<Vec<_>>());
    let has = |model: &GgufModel, file: Option<&String>| model.files.iter().any(|part| Some(&part.name) == file);
    let model = match (&name.quant, &name.file) {
        (None, None) => return repo.begun.iter().collect(),
        (Some(tag), _) => quantised(&models, tag),
        (None, file) => models.iter().find(|model| has(model, file.as_ref())),
    };
    repo.begun.iter().filter(|begun| model.is_some_and(|model| has(model, begun.file.as_ref()))).collect()
}

fn only_begun(name: &HubName, repo: &CachedRepo) -> NotHere {
    NotHere::Begun { name: name.to_string(), arrived: arrived(&begun_of(name, repo)) }
}

/// How much of some downloads is here: `51.5 MiB of 93.8 MiB`.
fn arrived(begun: &[&Begun]) -> String {
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
