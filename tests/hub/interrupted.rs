//! Pulls that end in the middle, and the next ones.

use std::process::{Child, Command};

use serde_json::{Value, json};

use super::cache::Cache;
use super::stand_in::StandIn;
use super::{PIECE, done, failed, noise, start, taper};

const LARGE: usize = 8 * PIECE;
const BEFORE: usize = 3 * PIECE + 1000;

/// A pull over one connection that stands still after `BEFORE` bytes.
fn held(cache: &Cache) -> (StandIn, Child) {
    let hub = StandIn::with("o/n", &[("n-Q8_0.gguf", &noise(LARGE))]);
    let fourth = BEFORE - 3 * PIECE;
    hub.set(json!({"faults": [{"kind": "hold", "path": "cdn GET", "skip": 3, "after": fourth}]}));
    let child = start(&hub, cache, &["pull", "o/n:Q8_0", "--jobs", "1"]);
    hub.held();
    (hub, child)
}

fn send(signal: &str, child: &Child) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Bytes that the next pull has to bring; it ends well.
fn brought_by_the_next(hub: &StandIn, cache: &Cache) -> usize {
    cache.holds_no_model("o/n");
    hub.set(json!({}));
    let before = hub.log().len();
    done(&taper(hub, cache, &["pull", "o/n:Q8_0"]));
    let path = cache.repository("o/n").join("snapshots").join(hub.commit("o/n")).join("n-Q8_0.gguf");
    assert!(std::fs::read(path).unwrap() == noise(LARGE), "other bytes than the Hub's");
    hub.sent_after(before) as usize
}

#[test]
fn ctrl_c_ends_a_pull_and_keeps_what_has_arrived() {
    let cache = Cache::new();
    let (hub, child) = held(&cache);
    send("-INT", &child);
    let told = failed(&child.wait_with_output().unwrap(), 130);
    assert!(told.contains("interrupted; what was received is kept, and the next pull continues there"), "{told}");
    let brought = brought_by_the_next(&hub, &cache);
    // What was on its way when the signal came may be lost, whole pieces may not.
    assert!((LARGE - BEFORE..=LARGE - 3 * PIECE).contains(&brought), "{brought}");
}

#[test]
fn sigterm_is_as_ctrl_c() {
    let cache = Cache::new();
    let (hub, child) = held(&cache);
    send("-TERM", &child);
    failed(&child.wait_with_output().unwrap(), 130);
    assert!(brought_by_the_next(&hub, &cache) <= LARGE - 3 * PIECE);
}

#[test]
fn a_killed_pull_loses_no_finished_piece() {
    let cache = Cache::new();
    let (hub, mut child) = held(&cache);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(brought_by_the_next(&hub, &cache), LARGE - 3 * PIECE);
}

#[test]
fn a_pull_that_was_interrupted_is_listed_as_what_it_is_to_become() {
    let cache = Cache::new();
    let (hub, mut child) = held(&cache);
    child.kill().unwrap();
    child.wait().unwrap();
    let list: Value = serde_json::from_str(&done(&taper(&hub, &cache, &["list", "--json"]))).unwrap();
    let expected = json!({
        "name": "o/n:Q8_0", "revision": null, "refs": [], "format": "GGUF", "quantization": "Q8_0",
        "bytes": 3 * PIECE, "expected_bytes": LARGE, "used": null, "complete": false, "missing": ["n-Q8_0.gguf"],
    });
    assert_eq!(list["models"], json!([expected]));
    let told = failed(&taper(&hub, &cache, &["inspect", "o/n:Q8_0", "--offline"]), 3);
    assert!(told.contains("its download has only begun: 192.0 KiB of 512.0 KiB; nothing is downloaded"), "{told}");
    done(&taper(&hub, &cache, &["rm", "o/n:Q8_0", "--yes"]));
    assert_eq!(done(&taper(&hub, &cache, &["list", "--json"])).matches("o/n").count(), 0);
}

#[test]
fn what_is_being_downloaded_is_not_removed() {
    let cache = Cache::new();
    let (hub, mut child) = held(&cache);
    let told = failed(&taper(&hub, &cache, &["rm", "o/n", "--yes"]), 1);
    assert!(told.contains("o/n is being downloaded by another process"), "{told}");
    child.kill().unwrap();
    child.wait().unwrap();
    done(&taper(&hub, &cache, &["rm", "o/n", "--yes"]));
    assert_eq!(cache.files("o/n"), [""; 0]);
}
