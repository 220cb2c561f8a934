//! Two pulls at once.

use std::io::{BufRead, BufReader};

use serde_json::json;

use super::cache::Cache;
use super::stand_in::StandIn;
use super::{PIECE, done, noise, start};

#[test]
fn the_second_waits_for_the_first_and_finds_all_there() {
    let bytes = noise(4 * PIECE);
    let (hub, cache) = (StandIn::with("o/n", &[("n-Q8_0.gguf", &bytes)]), Cache::new());
    hub.spoil(json!({"kind": "hold", "after": 1000}));
    let first = start(&hub, &cache, &["pull", "o/n:Q8_0"]);
    hub.held();
    let mut second = start(&hub, &cache, &["pull", "o/n:Q8_0"]);
    let mut told = BufReader::new(second.stderr.take().unwrap()).lines().map(Result::unwrap);
    let waits = "n-Q8_0.gguf is being downloaded by another process; waiting";
    assert!(told.any(|line| line == waits), "it did not say that it waits");
    hub.release();
    done(&first.wait_with_output().unwrap());
    drop(told);
    done(&second.wait_with_output().unwrap());
    assert_eq!(hub.sent_after(0), bytes.len() as u64, "each byte was sent once");
    let path = cache.repository("o/n").join("snapshots").join(hub.commit("o/n")).join("n-Q8_0.gguf");
    assert!(std::fs::read(path).unwrap() == bytes, "other bytes than the Hub's");
}
