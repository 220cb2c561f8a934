//! How the overlays are made and used: the patch, what a build says when upstream differs, the manifests, the dependency graph with
//! CUDA, and a project in another folder that has one line for it. Runs cargo; no network.

mod cuda;
mod elsewhere;
mod manifests;
mod patch;

use std::path::{Path, PathBuf};

/// The folder of the workspace.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The folder of an overlay or of what lies beside it.
fn overlay(name: &str) -> PathBuf {
    workspace().join("candle-rocm").join(name)
}
