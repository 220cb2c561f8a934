//! Where tests find what they need: files in the repository, and the real models that `make test` downloads.
//!
//! Real models are never committed. A test that needs one asks here; where it is missing the test is skipped loudly,
//! and fails instead when `TAPER_REQUIRE_MODELS` is set, as `make test` does: a tier cannot silently become empty.

use std::path::{Path, PathBuf};

/// A path below `tests/fixtures/`.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// A path below the repository's root.
pub fn repository(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// A downloaded model file (directory `TAPER_TEST_MODELS`), or `None` where downloads are not required.
pub fn test_model(file: &str) -> Option<PathBuf> {
    downloaded("TAPER_TEST_MODELS", file)
}

/// A file of llama.cpp's `models/` directory (vocabularies, golden tokenisations, chat templates; directory
/// `TAPER_LLAMA_CPP_MODELS`), or `None` where downloads are not required.
pub fn llama_cpp_model(file: &str) -> Option<PathBuf> {
    downloaded("TAPER_LLAMA_CPP_MODELS", file)
}

fn downloaded(variable: &str, file: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).map(|directory| Path::new(&directory).join(file));
    match path.filter(|path| path.exists()) {
        Some(path) => Some(path),
        None if std::env::var_os("TAPER_REQUIRE_MODELS").is_some() => {
            panic!("{variable} has no {file}; `make test` downloads it")
        }
        None => {
            eprintln!("SKIPPED: {variable} has no {file}; `make test` downloads it");
            None
        }
    }
}

pub mod engine;
pub mod sequence;
