//! Servers and networks that fail: what is repeated, what is given up, and that nothing half-written is ever used.

use serde_json::json;

use super::cache::Cache;
use super::stand_in::StandIn;
use super::{PIECE, command, done, failed, noise, stderr, taper};

const FOREVER: u32 = 1_000_000;
const LARGE: usize = 8 * PIECE + 1000;

fn hub(bytes: &[u8]) -> StandIn {
    StandIn::with("o/n", &[("n-Q8_0.gguf", bytes)])
}

#[track_caller]
fn is_whole(hub: &StandIn, cache: &Cache, bytes: &[u8]) {
    let snapshot = cache.repository("o/n").join("snapshots").join(hub.commit("o/n"));
    assert!(std::fs::read(snapshot.join("n-Q8_0.gguf")).unwrap() == bytes, "other bytes than the Hub's");
    assert_eq!(cache.files("o/n").len(), 3, "{:?}", cache.files("o/n"));
}

#[test]
fn a_body_that_ends_early_is_continued_where_it_ended() {
    let bytes = noise(LARGE);
    let (hub, cache) = (hub(&bytes), Cache::new());
    hub.spoil(json!({"kind": "truncate", "after": 20_000, "times": 5}));
    done(&taper(&hub, &cache, &["pull", "o/n:Q8_0"]));
    is_whole(&hub, &cache, &bytes);
    assert_eq!(hub.sent_after(0), LARGE as u64);
}

#[test]
fn a_reset_connection_is_made_anew() {
    let bytes = noise(LARGE);
    let (hub, cache) = (hub(&bytes), Cache::new());
    hub.spoil(json!({"kind": "reset", "after": 20_000, "times": 5}));
    done(&taper(&hub, &cache, &["pull", "o/n:Q8_0"]));
    is_whole(&hub, &cache, &bytes);
}

#[test]
fn a_server_that_knows_no_ranges_sends_the_whole_file() {
    let bytes = noise(LARGE);
    let (hub, cache) = (hub(&bytes), Cache::new());
    hub.spoil(json!({"kind": "ignore_range", "times": FOREVER}));
    done(&taper(&hub, &cache, &["pull", "o/n:Q8_0"]));
    is_whole(&hub, &cache, &bytes);
}

#[test]
fn a_silent_connection_is_given_up_and_made_anew() {
    let bytes = noise(LARGE);
    let (hub, cache) = (hub(&bytes), Cache::new());
    hub.spoil(json!({"kind": "hold", "after": 20_000}));
    let output = command(&hub.url, &cache, &["pull", "o/n:Q8_0"]).env("HF_HUB_DOWNLOAD_TIMEOUT", "0.3").output();
    let output = output.unwrap();
    done(&output);
    is_whole(&hub, &cache, &bytes);
    let said = stderr(&output);
    assert!(said.contains("n-Q8_0.gguf: the server was silent for 0.3 s; asking again"), "{said}");
}

#[test]
fn passing_errors_of_the_server_pass() {
    let bytes = noise(LARGE);
    for status in [500, 502, 503, 429] {
        let (hub, cache) = (hub(&bytes), Cache::new());
        let fault = |path| json!({"kind": "status", "status": status, "path": path, "times": 2, "retry_after": 0});
        hub.set(json!({"faults": [fault("hub GET /api"), fault("hub HEAD"), fault("cdn GET")]}));
        done(&taper(&hub, &cache, &["pull", "o/n:Q8_0"]));
        is_whole(&hub, &cache, &bytes);
    }
}

#[test]
fn what_arrived_before_a_failure_is_not_asked_for_again() {
    let bytes = noise(LARGE);
    let (hub, cache) = (hub(&bytes), Cache::new());
    hub.set(json!({"faults": [
        {"kind": "truncate", "path": "cdn GET", "after": 20_000, "times": 1},
        {"kind": "truncate", "path": "cdn GET", "after": 0, "times": FOREVER},
    ]}));
    let told = failed(&taper(&hub, &cache, &["pull", "o/n:Q8_0"]), 4);
    assert!(told.contains("error: n-Q8_0.gguf did not arrive whole: "), "{told}");
    assert!(told.contains("What was received is kept, and the next pull continues there"), "{told}");
    cache.holds_no_model("o/n");
    hub.set(json!({}));
    let before = hub.log().len();
    done(&taper(&hub, &cache, &["pull", "o/n:Q8_0"]));
    is_whole(&hub, &cache, &bytes);
    assert_eq!(hub.sent_after(before), (LARGE - 20_000) as u64);
}

#[test]
fn other_bytes_than_the_hubs_are_deleted() {
    let bytes = noise(LARGE);
    let (hub, cache) = (hub(&bytes), Cache::new());
    hub.spoil(json!({"kind": "corrupt"}));
    let told = failed(&taper(&hub, &cache, &["pull", "o/n:Q8_0"]), 4);
    assert!(told.contains("error: n-Q8_0.gguf arrived damaged: its SHA-256 is "), "{told}");
    assert_eq!(cache.files("o/n"), [""; 0]);
    done(&taper(&hub, &cache, &["pull", "o/n:Q8_0"]));
    is_whole(&hub, &cache, &bytes);
}

#[test]
fn small_files_are_checked_too() {
    let files: [(&str, &[u8]); 2] = [("config.json", b"{}"), ("model.safetensors", b"x")];
    let (hub, cache) = (StandIn::with("o/n", &files), Cache::new());
    hub.set(json!({"faults": [{"kind": "corrupt", "path": "/config.json", "times": 1}]}));
    let told = failed(&taper(&hub, &cache, &["pull", "o/n"]), 4);
    assert!(told.contains("config.json arrived damaged: its git SHA-1 is "), "{told}");
    let usable: Vec<_> = cache.files("o/n").into_iter().filter(|file| !file.starts_with("blobs/")).collect();
    assert_eq!(usable, [""; 0]);
}

#[test]
fn the_file_that_another_tool_has_begun_is_left_alone() {
    let bytes = noise(LARGE);
    let (hub, cache) = (hub(&bytes), Cache::new());
    let sha256 = hub.listing("o/n")[0]["lfs"]["oid"].as_str().unwrap().to_owned();
    let theirs = cache.repository("o/n").join("blobs").join(format!("{sha256}.incomplete"));
    std::fs::create_dir_all(theirs.parent().unwrap()).unwrap();
    std::fs::write(&theirs, "begun").unwrap();
    done(&taper(&hub, &cache, &["pull", "o/n:Q8_0"]));
    assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "begun");
}
