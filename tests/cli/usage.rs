//! How `taper` ends where it has nothing to run, and what it then says and where.

use crate::taper;

#[track_caller]
fn assert_ends(arguments: &[&str], code: i32, stdout_has: &str, stderr_has: &str) {
    let output = taper(arguments);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{stdout}{stderr}");
    assert!(stdout.contains(stdout_has), "{arguments:?}: {stdout}");
    assert!(stderr.contains(stderr_has), "{arguments:?}: {stderr}");
}

#[test]
fn help_goes_to_standard_output_and_succeeds() {
    assert_ends(&["run", "--help"], 0, "--ctx-size <TOKENS>", "");
    assert_ends(&["--version"], 0, concat!("taper ", env!("CARGO_PKG_VERSION")), "");
}

#[test]
fn wrong_usage_ends_with_2_and_names_the_mistake() {
    assert_ends(&[], 2, "", "Usage: taper <COMMAND>");
    assert_ends(&["run", "m.gguf", "--ctxsize", "4"], 2, "", "--ctx-size");
    assert_ends(&["run", "m.gguf", "-c", "many"], 2, "", "--ctx-size is \"many\"");
    assert_ends(&["run", "m.gguf", "--device", "rocm"], 2, "", "--device is \"rocm\"; it must be cpu");
    assert_ends(&["inspect"], 2, "", "no model was given");
}

#[test]
fn a_model_that_is_not_there_ends_with_1_and_is_named() {
    assert_ends(&["run", "-p", "hi", "no-such-model.gguf"], 1, "", "no-such-model.gguf");
}
