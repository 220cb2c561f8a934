//! The format of `open-device.patch`: a unified diff without context lines, so that it holds next to nothing of upstream's,
//! and in the header of each file the SHA-256 of what it applies to, since lines that are only added check nothing by
//! themselves. Never apply it with `patch`: without context, its hunks land at the lines that they had, whatever is there now.

use crate::{Result, rust_files, said};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::fs;
use std::path::Path;

const HEADER: &str = "--- a/";
const HASH: &str = "\tsha256:";

/// Applies `patch` to the files below `folder`. Every file is checked before it is changed.
pub fn apply(patch: &str, folder: &Path) -> Result<()> {
    for part in files_of(patch) {
        let (name, hash) = header(part)?;
        let file = folder.join(name);
        let text = fs::read_to_string(&file).map_err(|error| said(&file, &error))?;
        let found = sha256(&text);
        if found != hash {
            return Err(drift(name, hash, &found));
        }
        let patched = diffy::Patch::from_str(part)
            .map_err(|error| error.to_string())
            .and_then(|patch| diffy::apply(&text, &patch).map_err(|error| error.to_string()))
            .map_err(|error| format!("the patch of {name} cannot be applied: {error}"))?;
        fs::write(&file, patched).map_err(|error| said(&file, &error))?;
    }
    Ok(())
}

/// The patch that turns the Rust files below `pristine` into those below `edited`.
pub fn make(pristine: &Path, edited: &Path) -> Result<String> {
    let mut patch = String::new();
    for file in rust_files(edited)? {
        let name = file.strip_prefix(edited).expect("a file below the folder that was listed");
        let old_file = pristine.join(name);
        let read = |file: &Path| fs::read_to_string(file).map_err(|error| said(file, &error));
        let (old, new) = (read(&old_file)?, read(&file)?);
        if old != new {
            patch += &part(&name.to_string_lossy(), &old, &new);
        }
    }
    Ok(patch)
}

/// The patch of one file.
fn part(name: &str, old: &str, new: &str) -> String {
    let mut part = format!("{HEADER}{name}{HASH}{}\n+++ b/{name}\n", sha256(old));
    let diff = diffy::DiffOptions::new().set_context_len(0).create_patch(old, new).to_string();
    // The first two lines are names that diffy makes up.
    for line in diff.lines().skip(2) {
        writeln!(part, "{line}").expect("a string takes every line");
    }
    part
}

/// What the build says when upstream is not what the patch was made for.
fn drift(name: &str, expected: &str, found: &str) -> String {
    format!(
        "src/{name} is not the file that open-device.patch was made for (SHA-256 {found}, not {expected}): either the download is \
         damaged, or the version was changed; make the patch anew as candle-rocm/candle-core/README.md tells."
    )
}

/// The part of each file, from its header on.
fn files_of(patch: &str) -> Vec<&str> {
    let mut starts: Vec<usize> = patch.match_indices(HEADER).map(|(at, _)| at).collect();
    starts.retain(|&at| at == 0 || patch.as_bytes()[at - 1] == b'\n');
    let ends = starts.iter().skip(1).copied().chain([patch.len()]);
    starts.iter().zip(ends).map(|(&start, end)| &patch[start..end]).collect()
}

/// Name and hash of the file that a part is for.
fn header(part: &str) -> Result<(&str, &str)> {
    let line = part.lines().next().unwrap_or_default();
    line.strip_prefix(HEADER)
        .and_then(|rest| rest.split_once(HASH))
        .ok_or_else(|| format!("open-device.patch: {line:?} names no file with its hash; make the patch anew"))
}

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a string takes every byte");
        hex
    })
}
