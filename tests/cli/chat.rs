//! A chat on a terminal, and what Ctrl-C does to it.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Output, Stdio};

use crate::{TAPER, command, real, stderr, tiny};

const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";

/// Plays `dialogue` (what to wait for, what to type then) with `taper run ARGUMENTS` on a terminal.
fn chat(arguments: &[&str], dialogue: &[[&str; 2]]) -> Output {
    let dialogue = serde_json::to_string(dialogue).expect("texts are JSON");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/cli/terminal.py");
    let output = command("python3").args([script, &dialogue, TAPER, "run"]).args(arguments).output().expect("python3");
    assert!(output.stderr.is_empty(), "{}\n{}", stderr(&output), String::from_utf8_lossy(&output.stdout));
    output
}

/// Goes on for some thousand tokens, all of them the same.
fn endless(model: &str) -> Vec<&str> {
    vec![model, "--ignore-eos", "--temp", "0", "--logit-bias", "260+100", "-c", "4096"]
}
const SMOLLM2: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const ENDLESS: &str = " the the the";

#[test]
fn ctrl_c_ends_the_answer_which_stays_in_the_conversation() {
    let Some(model) = real(SMOLLM2) else { return };
    let output = chat(
        &endless(&model),
        &[
            ["> ", "Hi\r"],
            [ENDLESS, "typed meanwhile"],
            [ENDLESS, CTRL_C],
            ["stopped: Ctrl-C]", ""],
            ["> ", "Hi\r"],
            [ENDLESS, CTRL_C],
            ["stopped: Ctrl-C]", ""],
            ["> ", CTRL_C],
        ],
    );
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(!text.contains("typed meanwhile"), "{text}");
    let prompts: Vec<usize> =
        text.split(" prompt tokens").filter_map(|before| before.rsplit_once('[')?.1.parse().ok()).collect();
    // The second prompt has the first one, its answer, and a turn that is as long as the first.
    assert!(matches!(prompts[..], [first, second] if second > first + 6), "{prompts:?}: {text}");
}

#[test]
fn two_ctrl_c_in_a_row_leave() {
    let Some(model) = real(SMOLLM2) else { return };
    let twice = format!("{CTRL_C}{CTRL_C}");
    let output = chat(&endless(&model), &[["> ", "Hi\r"], [ENDLESS, &twice]]);
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn ctrl_c_ends_a_program_that_answers_once() {
    let Some(model) = real(SMOLLM2) else { return };
    let mut child =
        command(TAPER).arg("run").args(endless(&model)).args(["-p", "Hi"]).stdout(Stdio::piped()).spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 8]).expect("an answer has begun");
    let pid = child.id().to_string();
    assert!(command("kill").args(["-INT", &pid]).status().expect("kill").success());
    // Which shells report as 130.
    assert_eq!(child.wait().unwrap().signal(), Some(2));
}

#[test]
fn a_full_conversation_says_so_and_can_be_forgotten() {
    let output = chat(
        &[&tiny("tiny_gguf/llama.gguf"), "--ignore-eos", "-c", "48"],
        &[
            ["> ", "ab\r"],
            ["stopped: the context of 48 tokens is full]", ""],
            ["> ", "ab\r"],
            ["error: the conversation is full: with this message it has ", ""],
            ["and the context holds 48", ""],
            ["/clear forgets it, or start again with a larger context: -c 256 at most", ""],
            ["> ", "/clear\r"],
            ["the conversation is forgotten", ""],
            ["> ", "ab\r"],
            ["stopped: the context of 48 tokens is full]", ""],
            ["> ", CTRL_D],
        ],
    );
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
}
