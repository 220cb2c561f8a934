//! What a model costs while it runs: nothing exists twice and nothing is expanded.

use std::path::Path;

use serde_json::Value;

use crate::talk::stdout;

/// Gemma's file has 253 MB, most of it an embedding table that is also the output. With its vocabulary of 262,144
/// tokens, widened or doubled it would take more than 500 MB.
#[test]
fn gemma3_runs_in_less_than_500_mb() {
    let directory = std::env::var_os("TAPER_TEST_MODELS");
    let path =
        directory.map(|directory| Path::new(&directory).join("gemma-3-270m-q4_k_m.gguf")).filter(|path| path.exists());
    let Some(path) = path else {
        assert!(
            std::env::var_os("TAPER_REQUIRE_MODELS").is_none(),
            "TAPER_TEST_MODELS has no Gemma; `make test` downloads it"
        );
        eprintln!("SKIPPED: TAPER_TEST_MODELS has no Gemma; `make test` downloads it");
        return;
    };
    let report = stdout(&["bench", path.to_str().expect("a UTF-8 path"), "-p", "64", "-n", "8", "-r", "1", "--json"]);
    let report: Value = serde_json::from_str(&report).expect("bench prints JSON");
    let peak = report["peak_rss_bytes"].as_u64().expect("Linux tells");
    assert!(peak < 500_000_000, "{peak} bytes");
}
