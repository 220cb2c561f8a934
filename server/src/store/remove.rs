//! What goes when a model is removed from the cache: its files, and the bytes that no other snapshot uses.
//!
//! A plan first, so that a user can be told; nothing is touched before it is carried out. Links are removed, never
//! followed: what a hostile cache points to stays.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::path::PathBuf;

use super::begun::Begun;
use super::cache::{CacheError, HubCache, failed};
use super::gguf_names::{gguf_models, quantised};
use super::name::HubName;
use super::open_own;
use super::resolve::{NotHere, begun_of, no_revision};
use super::scan::{CachedFile, CachedRepo, CachedRevision, bytes_below, entries};
use super::select::no_such;
use crate::capacity::plural;

/// What will be removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removal {
    /// Files of snapshots, blobs and references.
    pub files: Vec<PathBuf>,
    /// Directories with all that is in them.
    pub directories: Vec<PathBuf>,
    /// Bytes that are free afterwards.
    pub bytes: u64,
    /// In words: `2 revisions, 14 files`.
    pub what: String,
    /// Where those who download it hold locks.
    locks: PathBuf,
    name: String,
    /// All that there is of the repository.
    is_all: bool,
}

/// What removing `name` would take from `cache`.
pub fn plan_removal(name: &HubName, cache: &HubCache) -> Result<Removal, NotHere> {
    let repo = cache.scan_repo(name)?.ok_or_else(|| NotHere::Repository(name.to_string()))?;
    let about = Removal { locks: cache.locks(name), name: repo.name.id(), ..Removal::default() };
    let begun = if name.revision.is_none() { begun_of(name, &repo) } else { Vec::new() };
    let chosen = match chosen(name, &repo, cache) {
        Err(NotHere::Other(_)) if !begun.is_empty() => Vec::new(),
        Err(NotHere::Other(_)) if repo.revisions.is_empty() => return Err(no_revision(name, &repo)),
        chosen => chosen?,
    };
    let is_whole = |revision: &&CachedRevision| {
        let leaving = chosen.iter().find(|(other, _)| other.commit == revision.commit).map(|(_, files)| files);
        leaving.is_some_and(|leaving| nothing_is_left(revision, leaving))
    };
    let whole: Vec<&CachedRevision> = repo.revisions.iter().filter(is_whole).collect();
    if whole.len() == repo.revisions.len() && begun.len() == repo.begun.len() {
        return Ok(everything(&repo, about)?);
    }
    Ok(with_begun(some(&repo, &chosen, &whole, cache, about), &begun))
}

impl Removal {
    /// Removes it, unless someone is downloading it.
    pub fn carry_out(&self) -> Result<(), CacheError> {
        let _held = self.hold_locks()?;
        for file in &self.files {
            match std::fs::remove_file(file) {
                // A copy in place of a link is its own blob, and may be gone already.
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(failed("remove", file)(error));
                }
                _ => {}
            }
        }
        self.directories.iter().try_for_each(|dir| std::fs::remove_dir_all(dir).map_err(failed("remove", dir)))
    }

    /// Holds the locks of the blobs that go, so that no download of them goes on meanwhile.
    fn hold_locks(&self) -> Result<Vec<File>, CacheError> {
        // What the Hub names a blob by has no dot in it; what has begun goes on with one.
        let stem = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
        let blobs: BTreeSet<String> =
            self.files.iter().filter_map(|file| Some(stem(file.file_name()?.to_str()?))).collect();
        let goes = |lock: &str| self.is_all || blobs.contains(&stem(lock));
        let mut held = Vec::new();
        let locks = entries(&self.locks)?.into_iter().filter(|(lock, metadata)| metadata.is_file() && goes(lock));
        for (lock, _) in locks {
            let path = self.locks.join(lock);
            let file = open_own(OpenOptions::new().read(true).write(true), &path).map_err(failed("open", &path))?;
            match file.try_lock() {
                Ok(()) => held.push(file),
                Err(TryLockError::WouldBlock) => return Err(CacheError::Busy { name: self.name.clone(), lock: path }),
                Err(TryLockError::Error(error)) => return Err(failed("lock", &path)(error)),
            }
        }
        Ok(held)
    }
}

type Chosen<'a> = Vec<(&'a CachedRevision, Vec<&'a CachedFile>)>;

/// The files that `name` means, by revision.
fn chosen<'a>(name: &HubName, repo: &'a CachedRepo, cache: &HubCache) -> Result<Chosen<'a>, NotHere> {
    let commit = name.revision.as_ref().map(|revision| cache.read_ref(name, revision)).transpose()?;
    let is_meant =
        |revision: &&CachedRevision| commit.as_ref().is_none_or(|commit| commit.as_ref() == Some(&revision.commit));
    let revisions: Vec<&CachedRevision> = repo.revisions.iter().filter(is_meant).collect();
    if name.revision.is_some() && revisions.is_empty() {
        return Err(no_revision(name, repo));
    }
    let chosen: Chosen = revisions.into_iter().map(|revision| (revision, files_of(name, revision))).collect();
    match name.file.as_ref().or(name.quant.as_ref()) {
        Some(tag) if chosen.iter().all(|(_, files)| files.is_empty()) => {
            let all: Vec<_> = repo.revisions.iter().flat_map(|revision| gguf_models(&revision.repo_files())).collect();
            Err(no_such(name, tag, &all).into())
        }
        _ => Ok(chosen),
    }
}

fn files_of<'a>(name: &HubName, revision: &'a CachedRevision) -> Vec<&'a CachedFile> {
    let models = gguf_models(&revision.repo_files());
    let model = match (&name.quant, &name.file) {
        (None, None) => return revision.files.iter().collect(),
        // Nothing goes that only looks like what was named.
        (Some(tag), _) => quantised(&models, tag),
        (None, file) => models.iter().find(|model| model.files.iter().any(|part| Some(&part.name) == file.as_ref())),
    };
    let is_part = |name: &str| model.is_some_and(|model| model.files.iter().any(|part| part.name == name));
    let is_named = |file: &&CachedFile| is_part(&file.name) || Some(&file.name) == name.file.as_ref();
    revision.files.iter().filter(is_named).collect()
}

/// Whether no weights stay in `revision` when `leaving` go; what was beside them is no use alone.
fn nothing_is_left(revision: &CachedRevision, leaving: &[&CachedFile]) -> bool {
    let is_weights =
        |name: &str| [".gguf", ".safetensors", ".bin", ".pt", ".pth"].iter().any(|end| name.ends_with(end));
    let mut staying = revision.files.iter().filter(|file| !leaving.contains(file));
    leaving.len() == revision.files.len() || (!leaving.is_empty() && !staying.any(|file| is_weights(&file.name)))
}

fn everything(repo: &CachedRepo, about: Removal) -> Result<Removal, CacheError> {
    let revisions = || plural(repo.revisions.len(), "revision");
    let begun = || plural(repo.begun.len(), "unfinished download");
    let what = match (repo.revisions.is_empty(), repo.begun.is_empty()) {
        (_, true) => format!("all of it, {}", revisions()),
        (true, false) => format!("all of it, {}", begun()),
        (false, false) => format!("all of it, {} and {}", revisions(), begun()),
    };
    Ok(Removal { directories: vec![repo.dir.clone()], bytes: bytes_below(&repo.dir)?, what, is_all: true, ..about })
}

/// `removal`, and these unfinished downloads.
fn with_begun(removal: Removal, begun: &[&Begun]) -> Removal {
    if begun.is_empty() {
        return removal;
    }
    let unfinished = plural(begun.len(), "unfinished download");
    let what = if removal.files.is_empty() { unfinished } else { format!("{} and {unfinished}", removal.what) };
    let files = begun.iter().flat_map(|begun| begun.paths.clone());
    Removal {
        files: removal.files.iter().cloned().chain(files).collect(),
        bytes: removal.bytes + begun.iter().map(|begun| begun.present).sum::<u64>(),
        what,
        ..removal
    }
}

fn some(repo: &CachedRepo, chosen: &Chosen, whole: &[&CachedRevision], cache: &HubCache, about: Removal) -> Removal {
    let leaves = |revision: &CachedRevision, file: &CachedFile| {
        let meant = chosen.iter().find(|(other, _)| other.commit == revision.commit);
        whole.iter().any(|other| other.commit == revision.commit)
            || meant.is_some_and(|(_, files)| files.contains(&file))
    };
    let all = repo.revisions.iter().flat_map(|revision| revision.files.iter().map(move |file| (revision, file)));
    let (leaving, staying): (Vec<_>, Vec<_>) = all.partition(|(revision, file)| leaves(revision, file));
    let used: BTreeSet<&PathBuf> = staying.iter().filter_map(|(_, file)| Some(&file.blob.as_ref()?.path)).collect();
    let blobs = leaving.iter().filter_map(|(_, file)| file.blob.as_ref()).filter(|blob| !used.contains(&blob.path));
    let unused: BTreeMap<&PathBuf, u64> = blobs.map(|blob| (&blob.path, blob.size)).collect();
    let what = match whole.len() {
        0 => plural(leaving.len(), "file"),
        revisions => format!("{}, {}", plural(leaving.len(), "file"), plural(revisions, "revision")),
    };
    let refs = cache.repo_dir(&repo.name).join("refs");
    let mut files: Vec<PathBuf> = leaving.iter().map(|(revision, file)| revision.dir.join(&file.name)).collect();
    files.extend(whole.iter().flat_map(|revision| &revision.refs).map(|name| refs.join(name)));
    files.extend(unused.keys().map(|path| (*path).clone()));
    let directories = whole.iter().map(|revision| revision.dir.clone()).collect();
    Removal { files, directories, bytes: unused.values().sum(), what, ..about }
}
