//! For the build scripts of the overlays beside this crate: takes a crate of Candle as cargo downloaded it, checks that it is
//! the one that our patch was made for, applies the patch, and leaves the result in `OUT_DIR`, where `lib.rs` includes it.
//! Knows nothing of what the patches say. `src/main.rs` is the way back, from an edited tree to a patch.

mod files;
pub mod patch;
pub mod upstream;

use std::path::{Path, PathBuf};
use std::{env, fs};

pub use files::{copy_tree, rust_files};

/// Why an overlay cannot be made, in a sentence for whoever reads the end of a failed build.
pub type Result<T> = std::result::Result<T, String>;

/// A crate of Candle that a crate of ours, of the same name and version, stands in for.
pub struct Overlay {
    /// The name of both crates, as in `candle-core`.
    pub name: String,
    /// The version of both crates.
    pub version: String,
    /// The folder of our crate, which holds `open-device.patch`.
    pub folder: PathBuf,
    /// Texts to replace in every file, for what an included file may not say. Kept out of the patch, which would grow by
    /// some hundred lines.
    pub replacements: &'static [(&'static str, &'static str)],
}

impl Overlay {
    /// The overlay whose build script is running.
    pub fn of_build_script(replacements: &'static [(&'static str, &'static str)]) -> Result<Self> {
        Ok(Self {
            name: variable("CARGO_PKG_NAME")?,
            version: variable("CARGO_PKG_VERSION")?,
            folder: variable("CARGO_MANIFEST_DIR")?.into(),
            replacements,
        })
    }

    /// The patch file of this overlay.
    pub fn patch_file(&self) -> PathBuf {
        self.folder.join("open-device.patch")
    }

    /// Writes the patched sources of the crate to the folder `target`, which is emptied first.
    pub fn write_patched(&self, target: &Path) -> Result<()> {
        let source = upstream::folder(&self.name, &self.version)?.join("src");
        if target.exists() {
            fs::remove_dir_all(target).map_err(|error| said(target, &error))?;
        }
        copy_tree(&source, target)?;
        let patch_file = self.patch_file();
        let text = fs::read_to_string(&patch_file).map_err(|error| said(&patch_file, &error))?;
        patch::apply(&text, target).map_err(|error| format!("{} {}: {error}", self.name, self.version))
    }

    /// The same, made ready to be included by a `lib.rs`.
    fn write_includable(&self, target: &Path) -> Result<()> {
        self.write_patched(target)?;
        for file in rust_files(target)? {
            let text = fs::read_to_string(&file).map_err(|error| said(&file, &error))?;
            let mut changed = text.clone();
            for (from, to) in self.replacements {
                changed = changed.replace(from, to);
            }
            if file == target.join("lib.rs") {
                changed = without_inner_docs(&changed);
            }
            if changed != text {
                fs::write(&file, changed).map_err(|error| said(&file, &error))?;
            }
        }
        Ok(())
    }
}

/// The whole of a build script: patched sources in `OUT_DIR/upstream`, or a sentence on the standard error and exit code 1.
pub fn run(replacements: &'static [(&'static str, &'static str)]) {
    let made = Overlay::of_build_script(replacements).and_then(|overlay| {
        println!("cargo::rerun-if-changed={}", overlay.patch_file().display());
        println!("cargo::rerun-if-env-changed={}", upstream::source_variable(&overlay.name));
        overlay.write_includable(&Path::new(&variable("OUT_DIR")?).join("upstream"))
    });
    if let Err(error) = made {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

/// Inner doc comments may not stand in an included file.
fn without_inner_docs(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with("//!")).map(|line| format!("{line}\n")).collect()
}

fn variable(name: &str) -> Result<String> {
    env::var(name).map_err(|_| format!("{name} is not set: this runs in a build script, where cargo sets it"))
}

/// An error of the file system, with the path that it is about.
pub(crate) fn said(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}
