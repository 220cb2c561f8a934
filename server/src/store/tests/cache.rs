//! Files get where the Hub's other tools look for them, and nowhere else.

use std::path::Path;

use super::super::cache::CacheError;
use super::super::models::{Format, cached_models};
use super::{COMMIT, OTHER, cache, hub, put};

#[test]
fn a_file_is_a_relative_link_to_its_blob() {
    let (_directory, cache) = cache();
    let name = hub("o/n");
    put(&cache, &name, COMMIT, "a/b/x.gguf", "etag");
    let repository = cache.root.join("models--o--n");
    let link = repository.join("snapshots").join(COMMIT).join("a/b/x.gguf");
    assert_eq!(std::fs::read_link(&link).unwrap(), Path::new("../../../../blobs/etag"));
    assert_eq!(std::fs::read_to_string(link).unwrap(), "etag");
}

#[test]
fn a_revision_stands_for_the_commit_that_was_noted_last() {
    let (_directory, cache) = cache();
    let name = hub("o/n");
    assert_eq!(cache.read_ref(&name, "main").unwrap(), None);
    for (revision, commit) in [("main", COMMIT), ("main", OTHER), ("refs/pr/7", COMMIT)] {
        cache.write_ref(&name, revision, commit).unwrap();
        assert_eq!(cache.read_ref(&name, revision).unwrap().as_deref(), Some(commit));
    }
    assert_eq!(std::fs::read_to_string(cache.root.join("models--o--n/refs/refs/pr/7")).unwrap(), COMMIT);
    assert_eq!(cache.read_ref(&name, OTHER).unwrap().as_deref(), Some(OTHER));
}

#[test]
fn names_that_lead_out_of_the_repository_are_refused() {
    let (_directory, cache) = cache();
    let name = hub("o/n");
    for file in ["../x", "/etc/x", "a/../../x", "a\\b", "a//b", "", "c:x"] {
        assert!(matches!(cache.link(&name, COMMIT, file, "etag"), Err(CacheError::Unsafe { .. })), "{file}");
    }
    assert!(cache.link(&name, "..", "x", "etag").is_err() && cache.link(&name, COMMIT, "x", "../etag").is_err());
    assert!(cache.write_ref(&name, "../../x", COMMIT).is_err() && cache.write_ref(&name, "main", "../x").is_err());
    assert!(!cache.root.join("models--o--n").exists());
}

#[cfg(unix)]
#[test]
fn a_directory_that_is_a_link_to_elsewhere_is_not_written_to() {
    let (_directory, cache) = cache();
    let elsewhere = tempfile::tempdir().unwrap();
    let name = hub("o/n");
    std::fs::create_dir_all(cache.repo_dir(&name)).unwrap();
    for folder in ["snapshots", "refs"] {
        std::os::unix::fs::symlink(elsewhere.path(), cache.repo_dir(&name).join(folder)).unwrap();
    }
    assert!(matches!(cache.link(&name, COMMIT, "x", "etag"), Err(CacheError::Outside { .. })));
    assert!(matches!(cache.write_ref(&name, "main", COMMIT), Err(CacheError::Outside { .. })));
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[cfg(unix)]
#[test]
fn links_to_nowhere_and_to_elsewhere_are_not_usable() {
    let (_directory, cache) = cache();
    let name = hub("o/n");
    put(&cache, &name, COMMIT, "good.gguf", "good");
    cache.link(&name, COMMIT, "gone.gguf", "gone").unwrap();
    let secret = cache.root.join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let snapshot = cache.snapshot(&name, COMMIT).unwrap();
    std::os::unix::fs::symlink(&secret, snapshot.join("secret.gguf")).unwrap();
    std::os::unix::fs::symlink(&cache.root, snapshot.join("folder")).unwrap();
    let repo = cache.scan_repo(&name).unwrap().unwrap();
    let files = repo.revisions[0].files.iter().map(|file| (file.name.as_str(), file.blob.is_some()));
    let expected = [("folder", false), ("gone.gguf", false), ("good.gguf", true), ("secret.gguf", false)];
    assert_eq!(files.collect::<Vec<_>>(), expected);
}

#[test]
fn the_cache_lists_models_and_what_is_unfinished() {
    let (_directory, cache) = cache();
    let (whole, begun) = (hub("o/whole"), hub("o/begun"));
    put(&cache, &whole, COMMIT, "x-Q8_0.gguf", "12345");
    put(&cache, &whole, COMMIT, "x-Q4_0-00001-of-00002.gguf", "123");
    cache.write_ref(&whole, "main", COMMIT).unwrap();
    let blob = cache.blob(&begun, "abc.incomplete").unwrap();
    std::fs::create_dir_all(blob.parent().unwrap()).unwrap();
    std::fs::write(blob, "1234567").unwrap();
    // Neither is a model.
    std::fs::create_dir(cache.root.join("datasets--o--n")).unwrap();
    std::fs::create_dir(cache.root.join("models--gpt2")).unwrap();
    let models: Vec<_> = cache.scan().unwrap().iter().flat_map(cached_models).collect();
    let rows: Vec<_> =
        models.iter().map(|model| (model.name.to_string(), model.format, model.size, model.complete)).collect();
    let expected = [
        ("o/begun", Format::Other, 7, false),
        ("o/whole:Q8_0", Format::Gguf, 5, true),
        ("o/whole:Q4_0", Format::Gguf, 3, false),
    ];
    assert_eq!(rows, expected.map(|(name, format, size, complete)| (name.to_owned(), format, size, complete)));
    assert_eq!(models[2].missing, ["x-Q4_0-00002-of-00002.gguf"]);
}

#[test]
fn a_cache_that_does_not_exist_is_empty() {
    let (directory, cache) = cache();
    drop(directory);
    assert_eq!(cache.scan().unwrap(), []);
}
