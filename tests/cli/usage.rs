//! How `taper` ends where it has nothing to run, and what it then says and where.

use crate::{taper, tiny};

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
    assert_ends(&["-ngl", "99"], 2, "", "-ngl stands where a command is expected; write `taper run -ngl ...`");
    assert_ends(&["run", "m.gguf", "--ctxsize", "4"], 2, "", "--ctx-size");
    assert_ends(&["run", "m.gguf", "-ngx", "99"], 2, "", "unknown option -ngx");
    assert_ends(&["run", "m.gguf", "-c", "many"], 2, "", "-c is \"many\"");
    assert_ends(&["run", "m.gguf", "-n", "0"], 2, "", "-n is \"0\"; it must be a whole number of at least 1, or -1");
    assert_ends(&["bench", "m.gguf", "-p", "0", "-n", "0"], 2, "", "there is nothing to measure");
    assert_ends(&["run", "m.gguf", "--device", "rocm"], 2, "", "--device is \"rocm\"; it must be cpu");
    assert_ends(&["inspect"], 2, "", "no model was given");
}

#[test]
fn a_model_that_is_not_there_ends_with_3_and_is_named() {
    assert_ends(&["run", "-p", "hi", "no-such-model.gguf"], 3, "", "no-such-model.gguf");
}

/// Each with one cause, which is told once.
#[test]
fn what_cannot_be_read_is_named_with_its_role() {
    let directory = tempfile::tempdir().unwrap();
    let latin1 = directory.path().join("latin1.txt");
    std::fs::write(&latin1, b"caf\xe9").unwrap();
    let latin1 = latin1.to_str().unwrap();
    let model = tiny("tiny_gguf/llama.gguf");
    for (arguments, expected) in [
        (
            ["-f", "no-such-file"],
            "the prompt file no-such-file cannot be read: No such file or directory (os error 2)\n",
        ),
        (["-f", latin1], "latin1.txt cannot be read: it is not text in UTF-8, see its byte 3\n"),
        (["-p", ""], "there is no prompt: -p is empty"),
        (["-f", "-"], "there is no prompt: standard input is empty"),
        (
            ["--chat-template-file", "none"],
            "the chat template none cannot be read: No such file or directory (os error 2)\n",
        ),
        (["--chat-template", "{% if %}"], "--chat-template: the chat template is not valid: syntax error"),
    ] {
        let prompt: &[&str] = if arguments[0].starts_with("--") { &["-p", "a"] } else { &[] };
        assert_ends(&[&["run", &model], &arguments[..], prompt].concat(), 1, "", expected);
    }
}
