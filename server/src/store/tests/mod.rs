//! Names, the cache on disk, and what is chosen from it.

mod cache;
mod name;
mod remove;
mod resolve;
mod select;

use tempfile::TempDir;

use super::cache::HubCache;
use super::name::HubName;
use super::select::RepoFile;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const OTHER: &str = "fedcba9876543210fedcba9876543210fedcba98";

fn hub(text: &str) -> HubName {
    text.parse().expect(text)
}

/// A cache of its own, which goes when the test ends.
fn cache() -> (TempDir, HubCache) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().to_owned();
    (directory, HubCache { root })
}

/// Puts `file` into the snapshot of `commit`, as a download would; its bytes are those of `blob`.
fn put(cache: &HubCache, name: &HubName, commit: &str, file: &str, blob: &str) {
    let path = cache.blob(name, blob).unwrap();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, blob).unwrap();
    cache.link(name, commit, file, blob).unwrap();
}

fn listing(names: &[&str]) -> Vec<RepoFile> {
    names.iter().map(|name| RepoFile { name: (*name).to_owned(), size: 1 << 20 }).collect()
}
