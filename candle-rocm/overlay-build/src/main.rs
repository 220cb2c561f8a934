//! Turns a patch into a tree to edit, and back:
//!
//! ```text
//! cargo run -p candle-overlay-build -- plain candle-core DIR    # upstream's sources, in the new folder DIR
//! cargo run -p candle-overlay-build -- open  candle-core DIR    # the same, patched
//! cargo run -p candle-overlay-build -- close candle-core DIR    # open-device.patch, made from what is in DIR
//! ```

use candle_overlay_build::{Overlay, Result, copy_tree, patch, upstream};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["plain", name, folder] => plain(name, Path::new(folder)),
        ["open", name, folder] => open(name, Path::new(folder)),
        ["close", name, folder] => close(name, Path::new(folder)),
        _ => Err("usage: candle-overlay-build (plain|open|close) (candle-core|candle-nn) FOLDER".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn plain(name: &str, folder: &Path) -> Result<()> {
    must_be_new(folder)?;
    copy_tree(&pristine(&overlay(name)?)?, folder)
}

fn open(name: &str, folder: &Path) -> Result<()> {
    must_be_new(folder)?;
    overlay(name)?.write_patched(folder)
}

/// `write_patched` empties the folder that it is given.
fn must_be_new(folder: &Path) -> Result<()> {
    match folder.exists() {
        true => Err(format!("{} exists: name a new folder", folder.display())),
        false => Ok(()),
    }
}

fn close(name: &str, folder: &Path) -> Result<()> {
    let overlay = overlay(name)?;
    let text = patch::make(&pristine(&overlay)?, folder)?;
    let file = overlay.patch_file();
    fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
}

fn pristine(overlay: &Overlay) -> Result<PathBuf> {
    Ok(upstream::folder(&overlay.name, &overlay.version)?.join("src"))
}

/// The overlay of that name beside this crate, with the version that its manifest states.
fn overlay(name: &str) -> Result<Overlay> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(name);
    let manifest = folder.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).map_err(|error| format!("{}: {error}", manifest.display()))?;
    let version = text.lines().find_map(|line| line.strip_prefix("version = ")).unwrap_or_default().trim_matches('"');
    Ok(Overlay { name: name.to_owned(), version: version.to_owned(), folder, replacements: &[] })
}
