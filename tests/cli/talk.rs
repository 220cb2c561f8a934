//! The commands on a tiny model: what is printed, and where.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::taper;

fn tiny(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(name)
}

pub fn stdout(arguments: &[&str]) -> String {
    let output = taper(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("taper prints UTF-8")
}

#[test]
fn one_prompt_gives_one_answer_and_the_same_again() {
    let model = tiny("tiny_gguf/llama.gguf");
    let arguments = ["run", model.to_str().unwrap(), "--raw", "-p", "ab", "-n", "5", "--temp", "0"];
    let answer = stdout(&arguments);
    assert!(answer.ends_with('\n') && answer.len() > 1, "{answer:?}");
    assert_eq!(answer, stdout(&arguments));
}

#[test]
fn a_model_without_a_chat_template_says_so() {
    let model = tiny("tiny_gguf/llama.gguf");
    let output = taper(&["run", model.to_str().unwrap(), "-p", "ab", "-n", "2"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && stderr.contains("has no chat template"), "{stderr}");
}

/// The tiny Llama: 2 layers, 4 heads and 2 KV heads of 16; f16 keys and values of both layers are 256 bytes a token.
#[test]
fn inspect_tells_sizes_that_follow_from_the_configuration() {
    let model = tiny("tiny/llama");
    let report: Value = serde_json::from_str(&stdout(&["inspect", model.to_str().unwrap(), "--json"])).unwrap();
    assert_eq!(report["family"], "Llama");
    assert_eq!((&report["layers"], &report["kv_heads"], &report["head_dim"]), (&2.into(), &2.into(), &16.into()));
    assert_eq!(report["kv_bytes_per_token"], 2 * 2 * 2 * 16 * 2);
    assert_eq!(report["fit"]["context"], 256);
}

#[test]
fn bench_reports_every_combination() {
    let model = tiny("tiny_gguf/llama.gguf");
    let arguments = ["bench", model.to_str().unwrap(), "-p", "16", "-n", "4", "--streams", "1,3", "-r", "2", "--json"];
    let report: Value = serde_json::from_str(&stdout(&arguments)).unwrap();
    let rows: Vec<String> = report["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| format!("{} x{}", row["test"].as_str().unwrap(), row["streams"]))
        .collect();
    assert_eq!(rows, ["pp16 x1", "tg4 x1", "tg4 x3"]);
    assert!(report["results"][0]["tokens_per_second"].as_array().unwrap().len() == 2, "{report}");
}

#[test]
fn a_context_that_does_not_fit_is_refused_with_the_numbers() {
    let model = tiny("tiny_gguf/llama.gguf");
    let output = taper(&["run", model.to_str().unwrap(), "-p", "a", "-c", "200", "--kv-cache-memory", "32K"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("a context of 200 tokens needs") && stderr.contains("--kv-cache-memory"), "{stderr}");
}

#[test]
fn a_context_beyond_the_models_is_refused() {
    let model = tiny("tiny_gguf/llama.gguf");
    let output = taper(&["run", model.to_str().unwrap(), "-p", "a", "-c", "100000"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("100000") && stderr.contains("256"), "{stderr}");
}
