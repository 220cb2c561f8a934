//! What a model costs while it runs: nothing exists twice and nothing is expanded.

use serde_json::Value;

use crate::real;
use crate::talk::stdout;

/// Gemma's file has 253 MB, most of it an embedding table that is also the output. With its vocabulary of 262,144
/// tokens, widened or doubled it would take more than 500 MB.
#[test]
fn gemma3_runs_in_less_than_500_mb() {
    let Some(path) = real("gemma-3-270m-q4_k_m.gguf") else { return };
    let report = stdout(&["bench", &path, "-p", "64", "-n", "8", "-r", "1", "--json"]);
    let report: Value = serde_json::from_str(&report).expect("bench prints JSON");
    let peak = report["peak_rss_bytes"].as_u64().expect("Linux tells");
    assert!(peak < 500_000_000, "{peak} bytes");
}
