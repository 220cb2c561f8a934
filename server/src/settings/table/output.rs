//! Settings of what `bench`, `inspect` and others measure and show.

use super::super::types::Settings;
use super::row::{ALL, BENCH, DESCRIBE, HTTP, Kind, MEASUREMENT, OUTPUT, REPORT, SHELL, Setting, TOOLS, setting};

pub(super) static ROWS: &[Setting] = &[
    setting("n-prompt", "N,...", Kind::Integers { min: 0, set: |s, v| s.bench.n_prompt = v })
        .short('p')
        .default("512")
        .of(MEASUREMENT, BENCH)
        .help("Prompt lengths to measure; 0: none"),
    setting("n-gen", "N,...", Kind::Integers { min: 0, set: |s, v| s.bench.n_gen = v })
        .short('n')
        .default("128")
        .of(MEASUREMENT, BENCH)
        .help("Generated lengths to measure; 0: none"),
    setting("n-depth", "N,...", Kind::Integers { min: 0, set: |s, v| s.bench.n_depth = v })
        .short('d')
        .default("0")
        .of(MEASUREMENT, BENCH)
        .help("Tokens already in the cache when a measurement starts"),
    setting("streams", "N,...", Kind::Integers { min: 1, set: |s, v| s.bench.streams = v })
        .default("1")
        .of(MEASUREMENT, BENCH)
        .help("Sequences that generate at the same time; parallel is as large, unless it is given"),
    setting("repetitions", "N", Kind::Integer { min: 1, max: 1000, set: |s, v| s.bench.repetitions = v as usize })
        .short('r')
        .default("3")
        .of(MEASUREMENT, BENCH)
        .help("Measurements per row; the median is shown"),
    // --- taper inspect, taper show ---
    setting(
        "bandwidth",
        "GB/S",
        Kind::Number { min: f64::MIN_POSITIVE, max: 1e6, set: |s, v| s.describe.bandwidth = Some(v) },
    )
    .of(OUTPUT, DESCRIBE)
    .help("Memory bandwidth in 10^9 bytes a second: shows how fast decoding can be with it at most"),
    setting("tensors", "", Kind::Switch { set: |s, v| s.describe.tensors = v })
        .default("false")
        .of(OUTPUT, DESCRIBE)
        .help("List every tensor: name, shape, type, bytes"),
    setting("shell", "SHELL", Kind::Choice { values: &["bash", "zsh", "fish"], set: |s, v| s.shell = v.to_owned() })
        .positional()
        .of(OUTPUT, SHELL)
        .help("Shell that the script is for"),
    // --- output ---
    setting("json", "", Kind::Switch { set: |s, v| s.json = v })
        .default("false")
        .of(OUTPUT, REPORT)
        .help("Print JSON instead of text"),
    setting("log-level", "FILTER", Kind::Text { set: |s, v| s.log_level = v })
        .default("warn")
        .of(OUTPUT, TOOLS)
        .help("What is logged: error, warn, info, debug, trace; by module: taper_server=debug,warn"),
    setting("log-level", "FILTER", Kind::Text { set: |s, v| s.log_level = v })
        .default("info,actix_server=warn")
        .of(OUTPUT, HTTP)
        .help("What is logged; at info, one line a request"),
    // After log-level, whose value it replaces.
    setting("verbose", "", Kind::Switch { set: verbose })
        .short('v')
        .of(OUTPUT, ALL)
        .help("Short for --log-level debug"),
];

fn verbose(settings: &mut Settings, verbose: bool) {
    if verbose {
        settings.log_level = "debug".to_owned();
    }
}
