//! Pulls that end well.

use serde_json::{Value, json};

use super::cache::Cache;
use super::stand_in::StandIn;
use super::{command, done, fixture, noise, stderr, taper};

#[test]
fn a_model_lies_where_other_tools_look_for_it() {
    let bytes = noise(300_000);
    let hub = StandIn::with("o/n", &[("n-Q8_0.gguf", &bytes), ("README.md", b"# n")]);
    let cache = Cache::new();
    let said = done(&taper(&hub, &cache, &["pull", "o/n:q8_0"]));
    let commit = hub.commit("o/n");
    let entry = &hub.listing("o/n")[1];
    let sha256 = entry["lfs"]["oid"].as_str().unwrap();
    let snapshot = format!("snapshots/{commit}/n-Q8_0.gguf");
    assert_eq!(cache.files("o/n"), [format!("blobs/{sha256}"), "refs/main".to_owned(), snapshot.clone()]);
    assert_eq!(std::fs::read(cache.repository("o/n").join(&snapshot)).unwrap(), bytes);
    assert_eq!(std::fs::read_to_string(cache.repository("o/n").join("refs/main")).unwrap(), commit);
    assert!(said.starts_with(&format!("o/n:q8_0 is here: commit {}", &commit[..12])), "{said}");
}

#[test]
fn small_files_are_named_by_their_git_sha1() {
    let names = ["config.json", "generation_config.json", "model.safetensors"];
    let files: Vec<_> = names.iter().map(|name| (*name, fixture(&format!("tiny/llama/{name}")))).collect();
    let files: Vec<_> = files.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
    let (hub, cache) = (StandIn::with("o/n", &files), Cache::new());
    done(&taper(&hub, &cache, &["pull", "o/n"]));
    let blobs = hub.listing("o/n").into_iter().map(|entry| {
        let etag = entry["lfs"]["oid"].as_str().or(entry["oid"].as_str()).unwrap();
        format!("blobs/{etag}")
    });
    let mut blobs: Vec<_> = blobs.collect();
    blobs.sort();
    assert_eq!(cache.files("o/n")[..3], blobs);
}

#[test]
fn an_up_to_date_model_is_not_downloaded_again() {
    let (hub, cache) = (StandIn::with("o/n", &[("n-Q8_0.gguf", &noise(1000))]), Cache::new());
    done(&taper(&hub, &cache, &["pull", "o/n:Q8_0"]));
    let before = hub.log().len();
    let said = done(&taper(&hub, &cache, &["pull", "o/n:Q8_0"]));
    assert!(said.starts_with("o/n:Q8_0 is up to date: commit "), "{said}");
    let asked = hub.log().split_off(before);
    assert!(asked.iter().all(|entry| entry["path"].as_str().unwrap().starts_with("/api/")), "{asked:?}");
}

/// A fault of the disk, or another tool's: the size that the Hub names tells.
#[test]
fn a_file_that_was_cut_short_in_the_cache_is_brought_anew() {
    let bytes = noise(1000);
    let (hub, cache) = (StandIn::with("o/n", &[("n-Q8_0.gguf", &bytes)]), Cache::new());
    done(&taper(&hub, &cache, &["pull", "o/n:Q8_0"]));
    let blob = cache.files("o/n").into_iter().find(|file| file.starts_with("blobs/")).unwrap();
    let blob = cache.repository("o/n").join(blob);
    std::fs::write(&blob, &bytes[..500]).unwrap();
    done(&taper(&hub, &cache, &["pull", "o/n:Q8_0"]));
    assert_eq!(std::fs::read(blob).unwrap(), bytes);
}

#[test]
fn a_new_commit_brings_only_the_files_that_changed() {
    let files: [(&str, &[u8]); 3] =
        [("config.json", b"{}"), ("tokenizer.json", b"{}"), ("model.safetensors", &noise(100_000))];
    let (hub, cache) = (StandIn::with("o/n", &files), Cache::new());
    done(&taper(&hub, &cache, &["pull", "o/n"]));
    hub.put("o/n", "config.json", b"{\"new\":1}");
    let before = hub.log().len();
    done(&taper(&hub, &cache, &["pull", "o/n"]));
    assert_eq!(hub.sent_after(before), 9);
    let ref_main = std::fs::read_to_string(cache.repository("o/n").join("refs/main")).unwrap();
    assert_eq!(ref_main, hub.commit("o/n"));
}

#[test]
fn a_branch_with_a_slash_is_a_revision() {
    let (hub, cache) = (StandIn::with("o/n", &[("n-Q8_0.gguf", &noise(1000))]), Cache::new());
    done(&taper(&hub, &cache, &["pull", "o/n:Q8_0", "--revision", "feature/x"]));
    assert!(cache.repository("o/n").join("refs/feature/x").is_file());
    assert!(!cache.repository("o/n").join("refs/main").exists());
}

#[test]
fn a_listing_may_come_in_pages() {
    let parts = ["n-Q8_0-00001-of-00003.gguf", "n-Q8_0-00002-of-00003.gguf", "n-Q8_0-00003-of-00003.gguf"];
    let (one, two, three) = (noise(10), noise(20), noise(30));
    let hub = StandIn::with("o/n", &[(parts[0], &one), (parts[1], &two), (parts[2], &three)]);
    hub.set(json!({"page": 1}));
    let cache = Cache::new();
    done(&taper(&hub, &cache, &["pull", "o/n:Q8_0"]));
    let snapshot = cache.repository("o/n").join("snapshots").join(hub.commit("o/n"));
    let sizes = parts.map(|part| snapshot.join(part).metadata().unwrap().len());
    assert_eq!(sizes, [10, 20, 30]);
}

#[test]
fn json_says_what_is_where() {
    let (hub, cache) = (StandIn::with("o/n", &[("n-Q8_0.gguf", &noise(1000))]), Cache::new());
    let said: Value = serde_json::from_str(&done(&taper(&hub, &cache, &["pull", "o/n:Q8_0", "--json"]))).unwrap();
    let commit = hub.commit("o/n");
    let path = cache.repository("o/n").join("snapshots").join(&commit).join("n-Q8_0.gguf");
    let expected = json!({
        "name": "o/n:Q8_0",
        "revision": "main",
        "commit": commit,
        "files": [{"name": "n-Q8_0.gguf", "bytes": 1000}],
        "bytes": 1000,
        "downloaded": 1000,
        "path": path,
    });
    assert_eq!(said, expected);
}

#[test]
fn an_empty_file_is_a_file() {
    let files: [(&str, &[u8]); 3] = [("config.json", b"{}"), ("merges.txt", b""), ("model.safetensors", b"x")];
    let (hub, cache) = (StandIn::with("o/n", &files), Cache::new());
    done(&taper(&hub, &cache, &["pull", "o/n"]));
    // git hash-object -t blob /dev/null
    assert!(cache.repository("o/n").join("blobs/e69de29bb2d1d6434b8b29ae775ad8c2e48c5391").is_file());
}

#[test]
fn the_token_goes_to_the_hub_and_not_where_it_redirects_to() {
    let (hub, cache) = (StandIn::with("o/n", &[("n-Q8_0.gguf", &noise(1000))]), Cache::new());
    hub.set(json!({"access": "private", "token": "hf_secret"}));
    done(&command(&hub.url, &cache, &["pull", "o/n:Q8_0"]).env("HF_TOKEN", "hf_secret").output().unwrap());
    let log = hub.log();
    let (at_hub, at_cdn): (Vec<_>, Vec<_>) = log.iter().partition(|entry| entry["server"] == "hub");
    assert!(at_hub.iter().all(|entry| entry["authorization"] == "Bearer hf_secret"), "{at_hub:?}");
    assert!(!at_cdn.is_empty() && at_cdn.iter().all(|entry| entry["authorization"].is_null()), "{at_cdn:?}");
}

#[test]
fn without_a_terminal_progress_is_a_line_at_every_tenth() {
    let (hub, cache) = (StandIn::with("o/n", &[("n-Q8_0.gguf", &noise(1 << 20))]), Cache::new());
    let output = taper(&hub, &cache, &["pull", "o/n:Q8_0", "--jobs", "1"]);
    done(&output);
    let told = stderr(&output);
    let expected: Vec<_> = std::iter::once("downloading o/n:Q8_0: 1 file, 1.0 MiB".to_owned())
        .chain((1..=10).map(|tenth| format!("o/n:Q8_0: {tenth}0% of 1.0 MiB")))
        .collect();
    assert_eq!(told.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn run_brings_a_model_that_is_missing_and_then_needs_no_hub() {
    let bytes = fixture("tiny_gguf/llama.gguf");
    let (hub, cache) = (StandIn::with("o/n", &[("n-F32.gguf", &bytes)]), Cache::new());
    done(&taper(&hub, &cache, &["inspect", "o/n:F32"]));
    let nowhere = "http://127.0.0.1:1";
    done(&command(nowhere, &cache, &["inspect", "o/n:F32"]).output().unwrap());
}
