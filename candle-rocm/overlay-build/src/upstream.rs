//! Where cargo keeps a crate of Candle as it was published. Cargo is asked for it on behalf of the helper package in
//! `../upstream`, and has checked the download against that package's lock file.

use crate::Result;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The variable that names an unpacked copy of a crate, for builds where cargo cannot be asked.
pub fn source_variable(name: &str) -> String {
    format!("{}_SOURCE", name.to_uppercase().replace('-', "_"))
}

/// The folder of the published crate, the one with `Cargo.toml` in it.
pub fn folder(name: &str, version: &str) -> Result<PathBuf> {
    let variable_name = source_variable(name);
    if let Some(folder) = env::var_os(&variable_name).map(PathBuf::from) {
        return unpacked(folder, &variable_name, name, version);
    }
    let metadata = metadata().map_err(|error| {
        format!(
            "{name} {version} as it was published cannot be had from cargo. With a network, build again; without one, fetch it first \
             (cargo fetch --manifest-path {}) or set {variable_name} to an unpacked copy. Cargo says:\n{error}",
            helper_manifest().display(),
        )
    })?;
    published(&metadata, name, version).ok_or_else(|| {
        format!(
            "{name} {version} is not in {}: its version and the overlay's must be the same",
            helper_manifest().display()
        )
    })
}

/// What a variable names, if there is a crate in it.
fn unpacked(folder: PathBuf, variable_name: &str, name: &str, version: &str) -> Result<PathBuf> {
    match folder.join("src").join("lib.rs").is_file() {
        true => Ok(folder),
        false => Err(format!(
            "{variable_name} is {}, which has no src/lib.rs: set it to an unpacked copy of {name} {version}, or unset it",
            folder.display()
        )),
    }
}

/// The manifest of the package on whose behalf cargo is asked.
pub fn helper_manifest() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("upstream").join("Cargo.toml")
}

/// What `cargo metadata` prints for the helper package.
///
/// Cargo reads its settings (mirrors, vendored sources) from the folder it runs in and those above: the helper's own folder when
/// the overlay is patched in by path, `OUT_DIR` when it is patched in from git, whose checkout lies elsewhere. What is here
/// already is preferred to the network, which may be slow to fail.
fn metadata() -> std::result::Result<serde_json::Value, String> {
    let manifest = helper_manifest();
    let beside = manifest.parent().expect("a manifest lies in a folder").to_path_buf();
    let mut folders = vec![beside];
    folders.extend(env::var_os("OUT_DIR").map(PathBuf::from));
    let mut said = String::new();
    for offline in [true, false] {
        for folder in &folders {
            let output = ask(&manifest, folder, offline)?;
            if output.status.success() {
                return serde_json::from_slice(&output.stdout).map_err(|error| error.to_string());
            }
            said = String::from_utf8_lossy(&output.stderr).into_owned();
        }
    }
    Err(said)
}

fn ask(manifest: &Path, folder: &Path, offline: bool) -> std::result::Result<Output, String> {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(&cargo);
    command.args(["metadata", "--format-version=1", "--locked", "--manifest-path"]).arg(manifest);
    command.args(offline.then_some("--offline")).current_dir(folder);
    command.output().map_err(|error| format!("{cargo}: {error}"))
}

/// The folder of a package that came from a registry.
fn published(metadata: &serde_json::Value, name: &str, version: &str) -> Option<PathBuf> {
    // Not from git or a path, which cargo checks against no hash.
    let from_registry = |package: &serde_json::Value| {
        package["source"]
            .as_str()
            .is_some_and(|source| source.starts_with("registry+") || source.starts_with("sparse+"))
    };
    let package = metadata["packages"]
        .as_array()?
        .iter()
        .find(|package| package["name"] == name && package["version"] == version && from_registry(package))?;
    Some(Path::new(package["manifest_path"].as_str()?).parent()?.to_path_buf())
}
