//! Recorded answers at every cut: what chat templates write for a conversation reads as that conversation
//! (`generate/recorded.py`), and what model cards show and trackers report reads as written by hand.

use serde_json::Value;

use crate::support::{Setup, fixture};

/// Whether an answer reads as it should, with the difference printed.
fn reads(format: &Value, case: &Value) -> bool {
    let mut setup = Setup::of(format.as_str().unwrap());
    if let Some(tags) = case["reasoning"].as_str() {
        setup.reasoning = taper_formats::reasoning_by_name(tags).unwrap();
    }
    setup.options.starts_in_reasoning = case["in_thoughts"] == true;
    let input = case["input"].as_str().unwrap();
    let pieces = Value::from(setup.pieces(input));
    if pieces != case["pieces"] {
        println!("{format}, {}: {input}\n   got {pieces}\nwanted {}", case["case"], case["pieces"]);
    }
    pieces == case["pieces"]
}

#[test]
fn what_templates_write_reads_as_their_conversations() {
    let directory = format!("{}/tests/fixtures/recorded", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let (mut num_cases, mut num_wrong) = (0, 0);
    for file in files.filter(|file| file != "tools.json") {
        let recorded = fixture(&format!("recorded/{file}"));
        for case in recorded["cases"].as_array().unwrap() {
            num_cases += 1;
            num_wrong += usize::from(!reads(&recorded["format"], case));
        }
    }
    assert!(num_wrong == 0 && num_cases > 300, "{num_wrong} of {num_cases} differ");
}

#[test]
fn what_was_written_by_hand_reads_as_said() {
    let cases = fixture("by_hand.json");
    let num_wrong = cases.as_array().unwrap().iter().filter(|case| !reads(&case["format"], case)).count();
    assert_eq!(num_wrong, 0);
}
