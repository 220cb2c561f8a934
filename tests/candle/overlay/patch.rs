//! The patch files: that they are whole, what they hold, and what is said when a file of upstream's is another.

use crate::overlay;
use candle_overlay_build::{copy_tree, patch, upstream};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const CRATES: [&str; 2] = ["candle-core", "candle-nn"];

fn pristine(name: &str) -> PathBuf {
    upstream::folder(name, "0.11.1").unwrap().join("src")
}

fn text_of(name: &str) -> String {
    fs::read_to_string(overlay(name).join("open-device.patch")).unwrap()
}

#[test]
fn a_patch_made_from_what_it_makes_is_the_same() {
    for name in CRATES {
        let folder = tempfile::tempdir().unwrap();
        copy_tree(&pristine(name), folder.path()).unwrap();
        patch::apply(&text_of(name), folder.path()).unwrap();
        assert!(patch::make(&pristine(name), folder.path()).unwrap() == text_of(name), "{name}: make it anew");
    }
}

#[test]
fn a_file_that_is_another_is_refused_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    copy_tree(&pristine("candle-core"), folder.path()).unwrap();
    let name = "device.rs";
    let changed = fs::read_to_string(folder.path().join(name)).unwrap() + "\n";
    fs::write(folder.path().join(name), &changed).unwrap();
    let error = patch::apply(&text_of("candle-core"), folder.path()).unwrap_err();
    assert!(
        error.starts_with("src/device.rs is not the file that open-device.patch was made for (SHA-256 "),
        "{error}"
    );
    assert!(error.ends_with("make the patch anew as candle-rocm/candle-core/README.md tells."), "{error}");
    assert_eq!(fs::read_to_string(folder.path().join(name)).unwrap(), changed);
}

#[test]
fn an_altered_hash_is_refused_too() {
    let folder = tempfile::tempdir().unwrap();
    copy_tree(&pristine("candle-nn"), folder.path()).unwrap();
    let (head, hash) = text_of("candle-nn").split_once("sha256:").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let altered = if hash.starts_with('0') { "1" } else { "0" };
    let error = patch::apply(&format!("{head}sha256:{altered}{}", &hash[1..]), folder.path()).unwrap_err();
    assert!(error.contains("src/ops.rs is not the file"), "{error}");
}

/// What README.md says of the next release: three-way merges, on sources that have shifted and gained a line in an enum that the patch
/// adds to as well.
#[test]
fn the_patch_moves_to_sources_that_have_shifted() {
    let upstream_moves = |text: &str| {
        "// A line that is new.\n".repeat(40)
            + &text.replace("pub enum Device {\n", "pub enum Device {\n    // Another.\n")
    };
    for name in CRATES {
        let folder = tempfile::tempdir().unwrap();
        let [old, ours, new] = ["old", "ours", "new"].map(|tree| folder.path().join(tree));
        for tree in [&old, &ours, &new] {
            copy_tree(&pristine(name), tree).unwrap();
        }
        patch::apply(&text_of(name), &ours).unwrap();
        let text = text_of(name);
        for file in text.lines().filter_map(|line| line.strip_prefix("+++ b/")) {
            let moved = upstream_moves(&fs::read_to_string(new.join(file)).unwrap());
            fs::write(new.join(file), moved).unwrap();
            let merge =
                Command::new("git").arg("merge-file").args([&new, &old, &ours].map(|tree| tree.join(file))).status();
            assert!(merge.unwrap().success(), "{file}");
            let wanted = upstream_moves(&fs::read_to_string(ours.join(file)).unwrap());
            assert!(fs::read_to_string(new.join(file)).unwrap() == wanted, "{file}");
        }
    }
}

/// Without context, and so with next to nothing of upstream's.
#[test]
fn the_patches_hold_few_lines_of_upstreams() {
    let lines_of = |start: char| {
        CRATES
            .iter()
            .flat_map(|name| text_of(name).lines().map(str::to_owned).collect::<Vec<_>>())
            .filter(|line| line.starts_with(start))
            .count()
    };
    assert_eq!(lines_of(' '), 0);
    // Removed lines, and one header for each file.
    assert!(lines_of('-') < 20, "{}", lines_of('-'));
}

#[test]
fn the_patches_name_no_vendor() {
    for name in CRATES {
        let text = text_of(name).to_lowercase();
        for vendor in ["rocm", "amd", "nvidia", "intel", "apple", "vulkan", "taper"] {
            assert!(!text.contains(vendor), "{name}: {vendor}");
        }
    }
}

#[test]
fn an_unknown_version_is_named() {
    let error = upstream::folder("candle-core", "0.0.1").unwrap_err();
    assert!(error.starts_with("candle-core 0.0.1 is not in "), "{error}");
}
