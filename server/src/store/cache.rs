//! The Hub's cache on disk, shared with Python's `huggingface_hub` and llama.cpp: where a file lies, and how it gets there.
//!
//! ```text
//! models--owner--name/
//!   blobs/<etag>                       the bytes, once
//!   refs/<revision>                    the commit that a branch or tag stood for
//!   snapshots/<commit>/<file>          -> ../../blobs/<etag>
//! ```
//!
//! File names come from a server and the directory may have been written by anyone, so nothing here leaves the
//! repository's directory: names are checked, and so is where a directory really is. Only the files that a download
//! begins are taken as they are.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::name::{HubName, is_file, is_revision};

/// Why the cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error("there is no home directory to keep models in; set HF_HOME or HF_HUB_CACHE to a directory")]
    NoHome,
    #[error("{text:?} cannot be {part} in the cache: it could lead out of the repository's directory")]
    Unsafe { part: &'static str, text: String },
    #[error("{path} leads out of the repository's directory {repository}; remove it")]
    Outside { path: PathBuf, repository: PathBuf },
    #[error("{name} is being downloaded by another process, which holds {lock}; stop it, or wait until it is done")]
    Busy { name: String, lock: PathBuf },
    #[error("cannot {action} {path}: {source}")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

/// Adds to an error of the system what was being done, and to which path.
pub(super) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CacheError {
    let path = path.to_owned();
    move |source| CacheError::Io { action, path, source }
}

/// The cache's directory. It need not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubCache {
    pub root: PathBuf,
}

impl HubCache {
    /// Where the Hub's tools keep their cache in this environment.
    pub fn from_env() -> Result<Self, CacheError> {
        let root = root(|variable| std::env::var_os(variable), std::env::home_dir());
        root.map(|root| Self { root }).ok_or(CacheError::NoHome)
    }

    /// The directory of a repository.
    pub fn repo_dir(&self, name: &HubName) -> PathBuf {
        self.root.join(directory_name(name))
    }

    /// Where the bytes lie that the Hub names `etag`.
    pub fn blob(&self, name: &HubName, etag: &str) -> Result<PathBuf, CacheError> {
        Ok(self.repo_dir(name).join("blobs").join(one_part("an etag", etag)?))
    }

    /// As [`Self::blob`], in a directory that exists, and is really the repository's.
    pub fn blob_to_write(&self, name: &HubName, etag: &str) -> Result<PathBuf, CacheError> {
        let path = self.blob(name, etag)?;
        self.create_parent(name, &path)?;
        Ok(path)
    }

    /// What is locked by who writes that blob; other tools lock it, too.
    pub fn lock(&self, name: &HubName, etag: &str) -> Result<PathBuf, CacheError> {
        Ok(self.locks(name).join(format!("{}.lock", one_part("an etag", etag)?)))
    }

    /// The directory of a repository's locks.
    pub fn locks(&self, name: &HubName) -> PathBuf {
        self.root.join(".locks").join(directory_name(name))
    }

    /// The directory with the files of a commit.
    pub fn snapshot(&self, name: &HubName, commit: &str) -> Result<PathBuf, CacheError> {
        Ok(self.repo_dir(name).join("snapshots").join(one_part("a commit", commit)?))
    }

    /// The commit that `revision` stood for when it was last looked up. A commit stands for itself.
    pub fn read_ref(&self, name: &HubName, revision: &str) -> Result<Option<String>, CacheError> {
        if is_commit(revision) {
            return Ok(Some(revision.to_owned()));
        }
        let path = self.ref_path(name, revision)?;
        match std::fs::read_to_string(&path) {
            // A note that is empty, as after a power cut, or means nothing, is as good as none.
            Ok(text) => Ok(Some(text.trim().to_owned()).filter(|commit| one_part("a commit", commit).is_ok())),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(failed("read", &path)(error)),
        }
    }

    /// Notes that `revision` stands for `commit`. Readers see the old commit or the new one, never a part.
    pub fn write_ref(&self, name: &HubName, revision: &str, commit: &str) -> Result<(), CacheError> {
        one_part("a commit", commit)?;
        // As the Hub's own tools: a commit needs no note.
        if is_commit(revision) {
            return Ok(());
        }
        let path = self.ref_path(name, revision)?;
        self.create_parent(name, &path)?;
        put(&path, |temporary| {
            let mut file = std::fs::File::create(temporary)?;
            file.write_all(commit.as_bytes())?;
            file.sync_all()
        })
    }

    /// Makes `file` of the snapshot of `commit` be the blob `etag`, and says where it is now.
    pub fn link(&self, name: &HubName, commit: &str, file: &str, etag: &str) -> Result<PathBuf, CacheError> {
        let blob = self.blob(name, etag)?;
        let path = self.snapshot(name, commit)?.join(safe_file(file)?);
        self.create_parent(name, &path)?;
        let up = "../".repeat(2 + file.matches('/').count());
        let target = PathBuf::from(format!("{up}blobs/{etag}"));
        // Some file systems have no symbolic links, and some no links at all.
        put(&path, |temporary| {
            symlink(&target, temporary)
                .or_else(|_| std::fs::hard_link(&blob, temporary))
                .or_else(|_| std::fs::copy(&blob, temporary).map(drop))
        })?;
        Ok(path)
    }

    fn ref_path(&self, name: &HubName, revision: &str) -> Result<PathBuf, CacheError> {
        if !is_revision(revision) {
            return Err(CacheError::Unsafe { part: "a revision", text: revision.to_owned() });
        }
        Ok(self.repo_dir(name).join("refs").join(revision))
    }

    /// Creates the directory of `path`, which must really lie in the repository's.
    fn create_parent(&self, name: &HubName, path: &Path) -> Result<(), CacheError> {
        let (parent, repository) = (path.parent().unwrap_or(path), self.repo_dir(name));
        std::fs::create_dir_all(&repository).map_err(failed("create", &repository))?;
        // Checked before anything is created, so that a link to elsewhere gets no directories there.
        let existing = parent.ancestors().find(|directory| directory.exists()).unwrap_or(&repository);
        if !is_inside(existing, &repository) {
            return Err(CacheError::Outside { path: existing.to_owned(), repository });
        }
        std::fs::create_dir_all(parent).map_err(failed("create", parent))
    }
}

fn directory_name(name: &HubName) -> String {
    format!("models--{}--{}", name.owner, name.name)
}

/// Whether `path`, all links followed, lies in `directory`. Not where it leads nowhere.
pub(super) fn is_inside(path: &Path, directory: &Path) -> bool {
    match (path.canonicalize(), directory.canonicalize()) {
        (Ok(path), Ok(directory)) => path.starts_with(directory),
        _ => false,
    }
}

/// As `huggingface_hub` looks for it.
fn root(variable: impl Fn(&str) -> Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    let set = |name: &str| {
        let path = PathBuf::from(variable(name).filter(|value| !value.is_empty())?);
        match (path.strip_prefix("~"), &home) {
            (Ok(rest), Some(home)) => Some(home.join(rest)),
            _ => Some(path),
        }
    };
    set("HF_HUB_CACHE")
        .or_else(|| set("HUGGINGFACE_HUB_CACHE"))
        .or_else(|| Some(set("HF_HOME")?.join("hub")))
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("huggingface/hub")))
        .or_else(|| Some(home.as_ref()?.join(".cache/huggingface/hub")))
}

/// Whether `text` is a full commit, which is looked up nowhere.
pub fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// `text`, if it is one part of a path.
fn one_part<'a>(part: &'static str, text: &'a str) -> Result<&'a str, CacheError> {
    let safe = is_file(text) && !text.contains('/');
    if safe { Ok(text) } else { Err(CacheError::Unsafe { part, text: text.to_owned() }) }
}

/// `file`, if it is a path that stays in its snapshot.
fn safe_file(file: &str) -> Result<&str, CacheError> {
    if is_file(file) { Ok(file) } else { Err(CacheError::Unsafe { part: "a file", text: file.to_owned() }) }
}

/// Makes `path` in one step: what `make` wrote beside it takes its place.
fn put(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), CacheError> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_file_name(format!(".{}-{number}.tmp", std::process::id()));
    make(&temporary).and_then(|()| std::fs::rename(&temporary, path)).map_err(|error| {
        // There may be nothing to remove; the error that matters is the one above.
        let _ = std::fs::remove_file(&temporary);
        failed("write", path)(error)
    })
}

#[cfg(unix)]
fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(windows)]
fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_file(target, link)
}
