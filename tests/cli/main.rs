//! Tier `cli`: the binary as a user meets it.

mod memory;
mod talk;
mod usage;

use std::process::{Command, Output};

/// Runs `taper` without the caller's settings and without a terminal.
fn taper(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_taper"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TAPER_")) {
        command.env_remove(name);
    }
    command.args(arguments).output().expect("taper was built for this test")
}
