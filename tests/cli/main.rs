//! Tier `cli`: the binary as a user meets it.

mod chat;
mod hostile;
mod memory;
mod store;
mod talk;
mod usage;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const TAPER: &str = env!("CARGO_BIN_EXE_taper");

/// A command without the caller's settings.
fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    let is_setting =
        |name: &str| ["TAPER_", "HF_", "HUGGINGFACE_", "TRANSFORMERS_"].iter().any(|tool| name.starts_with(tool));
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_setting(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command
}

/// Runs `taper` without the caller's settings and without a terminal.
fn taper(arguments: &[&str]) -> Output {
    command(TAPER).args(arguments).output().expect("taper was built for this test")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A file or directory of the fixtures.
fn tiny(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(name);
    path.to_str().expect("a UTF-8 path").to_owned()
}

/// A downloaded model. `None`, loudly, where there is none and none is required.
fn real(file: &str) -> Option<String> {
    let directory = std::env::var_os("TAPER_TEST_MODELS").map(PathBuf::from);
    if let Some(path) = directory.map(|directory| directory.join(file)).filter(|path| path.exists()) {
        return Some(path.to_str().expect("a UTF-8 path").to_owned());
    }
    let message = format!("TAPER_TEST_MODELS has no {file}; `make test` downloads it");
    assert!(std::env::var_os("TAPER_REQUIRE_MODELS").is_none(), "{message}");
    eprintln!("SKIPPED: {message}");
    None
}
