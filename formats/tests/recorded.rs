//! What chat templates write for a conversation reads as that conversation (`generate/recorded.py`), at every cut.

use serde_json::Value;

use crate::support::{Setup, fixture};

fn check(file: &str) {
    let recorded = fixture(&format!("recorded/{file}"));
    let mut setup = Setup::of(recorded["format"].as_str().unwrap());
    if let Some(template) = recorded["reasoning"].as_str() {
        setup.reasoning = taper_formats::reasoning_by_name(template).unwrap();
    }
    for case in recorded["cases"].as_array().unwrap() {
        setup.options.starts_in_reasoning = case["in_thoughts"] == true;
        let pieces = Value::from(setup.pieces(case["input"].as_str().unwrap()));
        assert_eq!(pieces, case["pieces"], "{file}, {}: {}", case["case"], case["input"].as_str().unwrap());
    }
}

#[test]
fn recorded_answers_read_as_their_conversations() {
    let directory = format!("{}/tests/fixtures/recorded", env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    files.retain(|file| file != "tools.json");
    let failures: Vec<_> = files.iter().filter(|file| std::panic::catch_unwind(|| check(file)).is_err()).collect();
    assert!(failures.is_empty(), "of {} files failed: {failures:?}", files.len());
}
