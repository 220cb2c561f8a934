//! The manifests of the overlays against those of the published crates: the same features and dependencies, but for what is named
//! here. An upgrade that forgets one fails.

use crate::overlay;
use candle_overlay_build::upstream;
use std::path::Path;
use toml::{Table, Value};

fn manifest(folder: &Path) -> Table {
    std::fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap()
}

fn both(name: &str) -> (Table, Table) {
    (manifest(&overlay(name)), manifest(&upstream::folder(name, "0.11.1").unwrap()))
}

/// `"1"` and `{ version = "1" }` are the same, and a feature listed twice counts once.
fn plain(dependency: &Value) -> Value {
    let mut table = match dependency {
        Value::String(version) => Table::from_iter([("version".to_owned(), Value::from(version.clone()))]),
        other => other.as_table().unwrap().clone(),
    };
    if let Some(features) = table.get_mut("features").and_then(Value::as_array_mut) {
        features.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
        features.dedup();
    }
    Value::Table(table)
}

fn dependencies(manifest: &Table) -> Vec<(String, Value)> {
    manifest["dependencies"].as_table().unwrap().iter().map(|(name, value)| (name.clone(), plain(value))).collect()
}

#[test]
fn features_are_upstreams() {
    for name in ["candle-core", "candle-nn"] {
        let (ours, theirs) = both(name);
        assert_eq!(ours["features"], theirs["features"], "{name}");
        assert_eq!(ours["package"]["version"], theirs["package"]["version"], "{name}");
        assert_eq!(ours.get("target"), theirs.get("target"), "{name}");
    }
}

#[test]
fn dependencies_are_upstreams_but_for_the_loading_of_cuda_and_warnings() {
    let (ours, theirs) = both("candle-core");
    let mut expected = dependencies(&theirs);
    for (name, value) in &mut expected {
        if name == "cudarc" {
            let features = value["features"].as_array_mut().unwrap();
            let linking = features.iter_mut().find(|feature| feature.as_str() == Some("dynamic-linking")).unwrap();
            *linking = Value::from("dynamic-loading");
            *value = plain(value);
        }
    }
    let found: Vec<_> = dependencies(&ours).into_iter().filter(|(name, _)| name != "tracing").collect();
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    let mut found = found;
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(found, expected);
}

#[test]
fn dependencies_of_candle_nn_are_upstreams() {
    let (ours, theirs) = both("candle-nn");
    let sorted = |manifest: &Table| {
        let mut all = dependencies(manifest);
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    };
    assert_eq!(sorted(&ours), sorted(&theirs));
}
