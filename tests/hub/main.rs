//! Tier `hub`: `taper pull` against a stand-in for the Hugging Face Hub, and what is in the cache afterwards.

#![expect(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod broken;
mod cache;
mod interrupted;
mod refused;
mod stand_in;
mod together;
mod whole;

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use cache::Cache;
use stand_in::StandIn;

const TAPER: &str = env!("CARGO_BIN_EXE_taper");
/// Bytes that one request asks for in these tests.
const PIECE: usize = 64 * 1024;

/// `taper`, without the caller's settings, between this Hub and this cache.
fn command(hub: &str, cache: &Cache, arguments: &[&str]) -> Command {
    let mut command = Command::new(TAPER);
    let foreign = |name: &str| {
        name.starts_with("TAPER_") || name.starts_with("HF_") || name.to_ascii_lowercase().ends_with("_proxy")
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| foreign(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command
        .args(arguments)
        .env("HF_ENDPOINT", hub)
        .env("HF_HOME", cache.home())
        .env("TAPER_HUB_RETRY_MS", "1")
        .env("TAPER_HUB_PIECE_BYTES", PIECE.to_string())
        .stdin(Stdio::null());
    command
}

/// Runs it to its end.
fn taper(hub: &StandIn, cache: &Cache, arguments: &[&str]) -> Output {
    command(&hub.url, cache, arguments).output().expect("taper was built for this test")
}

/// Starts it; what it writes is kept for the end.
fn start(hub: &StandIn, cache: &Cache, arguments: &[&str]) -> Child {
    let mut command = command(&hub.url, cache, arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("taper was built for this test")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// It did what it was asked to; its standard output.
#[track_caller]
fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}: {}", output.status, stderr(output));
    stdout(output)
}

/// It ended with this code; its standard error.
#[track_caller]
fn failed(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{}{}", stdout(output), stderr(output));
    stderr(output)
}

/// A file of the fixtures.
fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Bytes that do not repeat, so that a piece in another's place is noticed.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}
