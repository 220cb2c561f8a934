//! Turns a patch into a tree to edit, and back:
//!
//! ```text
//! cargo run -p candle-overlay-build -- open  candle-core DIR    # upstream's sources, patched, in the new folder DIR
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
        ["open", name, folder] => open(name, Path::new(folder)),
        ["close", name, folder] => close(name, Path::new(folder)),
        _ => Err("usage: candle-overlay-build (open|close) (candle-core|candle-nn) FOLDER".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Where the patch does not apply, because upstream has moved, its sources are left as they are beside the message.
fn open(name: &str, folder: &Path) -> Result<()> {
    if folder.exists() {
        return Err(format!("{} exists: name a new folder", folder.display()));
    }
    let overlay = overlay(name)?;
    overlay.write_patched(folder).inspect_err(|_| {
        if let Ok(pristine) = pristine(&overlay) {
            let _ = copy_tree(&pristine, folder);
            eprintln!("{}: upstream's sources, without the patch; apply it with: patch -p1", folder.display());
        }
    })
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
