//! What goes and what stays when a model is removed.

use super::super::cache::HubCache;
use super::super::remove::plan_removal;
use super::{COMMIT, OTHER, cache, hub, put};

/// Names in `folder` of the repository `o/n`.
fn left(cache: &HubCache, folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(cache.repo_dir(&hub("o/n")).join(folder)).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn remove(text: &str, cache: &HubCache) -> u64 {
    let removal = plan_removal(&hub(text), cache).unwrap();
    removal.carry_out().unwrap();
    removal.bytes
}

/// Two revisions that share a blob.
fn two_revisions() -> (tempfile::TempDir, HubCache) {
    let (directory, cache) = cache();
    let name = hub("o/n");
    for (commit, file, blob) in [
        (COMMIT, "config.json", "shared"),
        (OTHER, "config.json", "shared"),
        (COMMIT, "x-Q8_0.gguf", "old eight"),
        (OTHER, "x-Q8_0.gguf", "eight"),
        (OTHER, "x-Q4_0.gguf", "four"),
    ] {
        put(&cache, &name, commit, file, blob);
    }
    cache.write_ref(&name, "old", COMMIT).unwrap();
    cache.write_ref(&name, "main", OTHER).unwrap();
    (directory, cache)
}

#[test]
fn a_quantisation_goes_alone() {
    let (_directory, cache) = two_revisions();
    assert_eq!(remove("o/n@main:Q4_0", &cache), 4);
    assert_eq!(left(&cache, "blobs"), ["eight", "old eight", "shared"]);
    assert_eq!(left(&cache, &format!("snapshots/{OTHER}")), ["config.json", "x-Q8_0.gguf"]);
}

#[test]
fn a_quantisation_leaves_one_that_ends_alike() {
    let (_directory, cache) = two_revisions();
    put(&cache, &hub("o/n"), OTHER, "x-UD-Q4_0.gguf", "mixture");
    assert_eq!(remove("o/n:Q4_0", &cache), 4);
    assert_eq!(left(&cache, &format!("snapshots/{OTHER}")), ["config.json", "x-Q8_0.gguf", "x-UD-Q4_0.gguf"]);
}

#[test]
fn a_revision_goes_with_its_name_and_leaves_shared_bytes() {
    let (_directory, cache) = two_revisions();
    assert_eq!(remove("o/n@old", &cache), 9);
    assert_eq!(left(&cache, "blobs"), ["eight", "four", "shared"]);
    assert_eq!((left(&cache, "refs"), left(&cache, "snapshots")), (vec!["main".to_owned()], vec![OTHER.to_owned()]));
}

#[test]
fn the_last_weights_take_the_rest_with_them() {
    let (_directory, cache) = two_revisions();
    // Of the older revision nothing else is left, of the newer the other quantisation.
    assert_eq!(remove("o/n:Q8_0", &cache), 14);
    assert_eq!(
        (left(&cache, "blobs"), left(&cache, "snapshots")),
        (vec!["four".into(), "shared".into()], vec![OTHER.to_owned()])
    );
    assert_eq!(remove("o/n:Q4_0", &cache), 4 + 6 + 40);
    assert!(!cache.repo_dir(&hub("o/n")).exists());
}

#[test]
fn the_whole_repository_goes_with_unfinished_downloads() {
    let (_directory, cache) = two_revisions();
    std::fs::write(cache.blob(&hub("o/n"), "x.incomplete").unwrap(), "1234567").unwrap();
    let removal = plan_removal(&hub("o/n"), &cache).unwrap();
    assert_eq!(removal.what, "all of it, 2 revisions and 1 unfinished download");
    removal.carry_out().unwrap();
    assert!(!cache.repo_dir(&hub("o/n")).exists());
}

#[cfg(unix)]
#[test]
fn what_a_link_leads_to_outside_stays() {
    let (_directory, cache) = two_revisions();
    let outside = tempfile::tempdir().unwrap();
    let precious = outside.path().join("precious.gguf");
    std::fs::write(&precious, "precious").unwrap();
    let snapshot = cache.snapshot(&hub("o/n"), COMMIT).unwrap();
    std::os::unix::fs::symlink(&precious, snapshot.join("x-Q2_K.gguf")).unwrap();
    std::os::unix::fs::symlink(outside.path(), snapshot.join("folder")).unwrap();
    remove("o/n:Q2_K", &cache);
    remove("o/n@old", &cache);
    remove("o/n", &cache);
    assert!(precious.exists());
}

#[test]
fn what_is_not_there_is_named() {
    let (_directory, cache) = two_revisions();
    let message = |text: &str| plan_removal(&hub(text), &cache).unwrap_err().to_string();
    assert_eq!(message("o/other"), "o/other is not in the cache");
    assert!(message("o/n:Q6_K").starts_with("in the cache, o/n has no \"Q6_K\"; there are"), "{}", message("o/n:Q6_K"));
    assert!(message("o/n@dev").contains("it holds old, main, not dev"), "{}", message("o/n@dev"));
}
