//! What can be opened without downloading.

use super::super::cache::HubCache;
use super::super::resolve::resolve_local;
use super::{COMMIT, OTHER, cache, hub, put};

fn path_of(text: &str, cache: &HubCache) -> String {
    let path = resolve_local(&hub(text), cache).expect(text).path;
    path.strip_prefix(&cache.root).unwrap().to_str().unwrap().to_owned()
}

fn missing(text: &str, cache: &HubCache) -> String {
    resolve_local(&hub(text), cache).expect_err(text).to_string()
}

#[test]
fn a_gguf_model_is_its_first_file_and_safetensors_are_a_directory() {
    let (_directory, cache) = cache();
    for (file, blob) in [("q/x-Q8_0-00001-of-00002.gguf", "a"), ("q/x-Q8_0-00002-of-00002.gguf", "b")] {
        put(&cache, &hub("o/gguf"), COMMIT, file, blob);
    }
    for file in ["config.json", "model.safetensors"] {
        put(&cache, &hub("o/plain"), COMMIT, file, file);
    }
    for name in ["o/gguf", "o/plain"] {
        cache.write_ref(&hub(name), "main", COMMIT).unwrap();
    }
    let snapshot = |name: &str| format!("models--o--{name}/snapshots/{COMMIT}");
    assert_eq!(path_of("o/gguf:Q8_0", &cache), format!("{}/q/x-Q8_0-00001-of-00002.gguf", snapshot("gguf")));
    assert_eq!(path_of("o/plain", &cache), snapshot("plain"));
    assert_eq!(path_of(&format!("o/plain@{COMMIT}"), &cache), snapshot("plain"));
}

#[test]
fn without_a_revision_main_is_meant() {
    let (_directory, cache) = cache();
    let name = hub("o/n");
    put(&cache, &name, COMMIT, "x.gguf", "old");
    put(&cache, &name, OTHER, "x.gguf", "new");
    cache.write_ref(&name, "dev", COMMIT).unwrap();
    assert_eq!(
        missing("o/n", &cache),
        format!("o/n is not in the cache: of o/n it holds dev, commit {OTHER}, not main")
    );
    cache.write_ref(&name, "main", OTHER).unwrap();
    assert!(path_of("o/n", &cache).contains(OTHER));
    assert!(path_of("o/n@dev", &cache).contains(COMMIT));
}

#[test]
fn what_is_missing_is_named() {
    let (_directory, cache) = cache();
    let name = hub("o/n");
    assert_eq!(missing("o/n:Q8_0", &cache), "o/n:Q8_0 is not in the cache");
    put(&cache, &name, COMMIT, "x-Q8_0.gguf", "a");
    cache.link(&name, COMMIT, "x-Q4_0.gguf", "gone").unwrap();
    cache.write_ref(&name, "main", COMMIT).unwrap();
    assert_eq!(missing("o/n:Q6_K", &cache), "in the cache, o/n has no \"Q6_K\"; there are Q4_0 (0 B), Q8_0 (1 B)");
    assert_eq!(
        missing("o/n:Q4_0", &cache),
        "o/n:Q4_0 is in the cache only in part, these files are missing: x-Q4_0.gguf"
    );
}

#[test]
fn a_tokenizer_is_waited_for_while_a_download_is_unfinished() {
    let (_directory, cache) = cache();
    let name = hub("o/n");
    for file in ["config.json", "model.safetensors"] {
        put(&cache, &name, COMMIT, file, file);
    }
    cache.write_ref(&name, "main", COMMIT).unwrap();
    std::fs::write(cache.blob(&name, "x.incomplete").unwrap(), "").unwrap();
    assert!(missing("o/n", &cache).ends_with("missing: tokenizer.json"));
}
