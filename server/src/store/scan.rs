//! What the cache holds: repositories, their snapshots, and files that are usable or only begun.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::begun::{Begun, begun};
use super::cache::{CacheError, HubCache, failed, is_inside};
use super::name::{HubName, is_file, is_revision};

/// A repository in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedRepo {
    /// Owner and name only.
    pub name: HubName,
    pub dir: PathBuf,
    pub revisions: Vec<CachedRevision>,
    /// Downloads that have not ended.
    pub begun: Vec<Begun>,
}

/// One commit of a repository, as far as it is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedRevision {
    pub commit: String,
    /// Branches and tags that stood for it when last looked up.
    pub refs: Vec<String>,
    pub dir: PathBuf,
    pub files: Vec<CachedFile>,
}

/// One file of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedFile {
    /// Its path in the repository, with `/`.
    pub name: String,
    /// `None`: a link that leads nowhere, or out of the repository's directory; not usable.
    pub blob: Option<Blob>,
}

/// The bytes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// All links followed.
    pub path: PathBuf,
    pub size: u64,
    pub modified: Option<SystemTime>,
    pub accessed: Option<SystemTime>,
}

impl HubCache {
    /// Every repository of a model in the cache, by name. Nothing where there is no cache.
    pub fn scan(&self) -> Result<Vec<CachedRepo>, CacheError> {
        let mut repos = Vec::new();
        for (name, _) in entries(&self.root)? {
            if let Some(name) = repo_name(&name) {
                match self.scan_repo(&name) {
                    Ok(repo) => repos.extend(repo),
                    // Of another user, perhaps; the others are no worse for it.
                    Err(error) => tracing::warn!("{name} is left out: {error}"),
                }
            }
        }
        Ok(repos)
    }

    /// One repository. `None`: not in the cache.
    pub fn scan_repo(&self, name: &HubName) -> Result<Option<CachedRepo>, CacheError> {
        let dir = self.repo_dir(name);
        if !dir.is_dir() {
            return Ok(None);
        }
        let refs = refs(self, name, &dir)?;
        let mut revisions = Vec::new();
        for (commit, metadata) in entries(&dir.join("snapshots"))? {
            let snapshot = dir.join("snapshots").join(&commit);
            if metadata.is_dir() && is_inside(&snapshot, &dir) {
                let files = files(&snapshot, &dir)?;
                let refs = refs.get(&commit).cloned().unwrap_or_default();
                revisions.push(CachedRevision { commit, refs, dir: snapshot, files });
            }
        }
        let name = HubName { revision: None, quant: None, file: None, ..name.clone() };
        Ok(Some(CachedRepo { name, begun: begun_in(&dir.join("blobs"))?, revisions, dir }))
    }
}

/// `models--owner--name` as a name; the cache also has data sets, and old repositories without an owner.
fn repo_name(directory: &str) -> Option<HubName> {
    let (owner, name) = directory.strip_prefix("models--")?.split_once("--")?;
    format!("hf://{owner}/{name}").parse().ok()
}

/// Branches and tags by commit.
fn refs(cache: &HubCache, name: &HubName, dir: &Path) -> Result<BTreeMap<String, Vec<String>>, CacheError> {
    let mut by_commit: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for revision in walk(&dir.join("refs"))? {
        if is_revision(&revision)
            && let Ok(Some(commit)) = cache.read_ref(name, &revision)
        {
            by_commit.entry(commit).or_default().push(revision);
        }
    }
    Ok(by_commit)
}

fn files(snapshot: &Path, repository: &Path) -> Result<Vec<CachedFile>, CacheError> {
    let names = walk(snapshot)?.into_iter().filter(|name| is_file(name));
    Ok(names.map(|name| CachedFile { blob: blob(&snapshot.join(&name), repository), name }).collect())
}

fn blob(path: &Path, repository: &Path) -> Option<Blob> {
    let metadata = path.metadata().ok().filter(Metadata::is_file)?;
    let path = is_inside(path, repository).then(|| path.canonicalize().ok())??;
    let (modified, accessed) = (metadata.modified().ok(), metadata.accessed().ok());
    Some(Blob { path, size: metadata.len(), modified, accessed })
}

fn begun_in(blobs: &Path) -> Result<Vec<Begun>, CacheError> {
    Ok(entries(blobs)?.iter().filter_map(|(name, metadata)| begun(blobs, name, metadata.len())).collect())
}

/// The files below `directory`, with their folders. Links are files here, whatever they lead to.
fn walk(directory: &Path) -> Result<Vec<String>, CacheError> {
    let (mut found, mut folders) = (Vec::new(), vec![String::new()]);
    while let Some(folder) = folders.pop() {
        for (name, metadata) in entries(&directory.join(&folder))? {
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if metadata.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    Ok(found)
}

/// Bytes of all files below `directory`; links count nothing.
pub(super) fn bytes_below(directory: &Path) -> Result<u64, CacheError> {
    let sizes = walk(directory)?.into_iter().filter_map(|file| directory.join(file).symlink_metadata().ok());
    Ok(sizes.filter(Metadata::is_file).map(|metadata| metadata.len()).sum())
}

/// Names in `directory` in order, with what they are themselves, links not followed. Nothing where it does not exist.
pub(super) fn entries(directory: &Path) -> Result<Vec<(String, Metadata)>, CacheError> {
    let listing = match std::fs::read_dir(directory) {
        Ok(listing) => listing,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("read", directory)(error)),
    };
    // What vanishes while we look, and names that are no text, are nobody's model.
    let entries =
        listing.flatten().filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.metadata().ok()?)));
    let mut entries: Vec<_> = entries.collect();
    entries.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(entries)
}
