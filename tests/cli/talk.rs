//! The commands on a tiny model: what is printed, and where.

use serde_json::Value;

use crate::{TAPER, command, stderr, taper, tiny};

pub fn stdout(arguments: &[&str]) -> String {
    let output = taper(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).expect("taper prints UTF-8")
}

#[test]
fn one_prompt_gives_one_answer_and_the_same_again() {
    let model = tiny("tiny_gguf/llama.gguf");
    let arguments = ["run", &model, "--raw", "-p", "ab", "-n", "5", "--temp", "0"];
    let answer = stdout(&arguments);
    assert!(answer.ends_with('\n') && answer.len() > 1, "{answer:?}");
    assert_eq!(answer, stdout(&arguments));
}

#[test]
fn a_model_without_a_chat_template_says_so() {
    let model = tiny("tiny_gguf/llama.gguf");
    let output = taper(&["run", &model, "-p", "ab", "-n", "2"]);
    let stderr = stderr(&output);
    assert!(output.status.success() && stderr.contains("has no chat template"), "{stderr}");
}

/// The tiny Llama: 2 layers, 4 heads and 2 KV heads of 16; f16 keys and values of both layers are 256 bytes a token.
#[test]
fn inspect_tells_sizes_that_follow_from_the_configuration() {
    let model = tiny("tiny/llama");
    let report: Value = serde_json::from_str(&stdout(&["inspect", &model, "--json"])).unwrap();
    assert_eq!(report["family"], "Llama");
    assert_eq!((&report["layers"], &report["kv_heads"], &report["head_dim"]), (&2.into(), &2.into(), &16.into()));
    assert_eq!(report["kv_bytes_per_token"], 2 * 2 * 2 * 16 * 2);
    assert_eq!(report["fit"]["context"], 256);
    let file = std::fs::metadata(tiny("tiny/llama/model.safetensors")).unwrap().len();
    assert_eq!(report["file_bytes"], file);
}

#[test]
fn inspect_words_small_numbers_well() {
    let report = stdout(&["inspect", &tiny("tiny_gguf/llama_one_kv_head-00001-of-00002.gguf")]);
    assert!(report.contains("1 KV head of") && !report.contains(" 0.0 "), "{report}");
}

#[test]
fn a_missing_tokenizer_is_named_with_the_way_to_one() {
    let directory = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(tiny(&format!("tiny/llama/{file}")), directory.path().join(file)).unwrap();
    }
    let model = directory.path().to_str().unwrap();
    let run = taper(&["run", model, "-p", "a"]);
    assert_eq!(run.status.code(), Some(5));
    assert!(stderr(&run).contains("has no tokenizer.json; it lies beside the weights"), "{}", stderr(&run));
    let report = stdout(&["inspect", model]);
    assert!(report.contains("has no tokenizer.json"), "{report}");
}

#[test]
fn bench_reports_every_combination() {
    let model = tiny("tiny_gguf/llama.gguf");
    let arguments = ["bench", &model, "-p", "16", "-n", "4", "--streams", "1,3", "-r", "2", "--json"];
    let report: Value = serde_json::from_str(&stdout(&arguments)).unwrap();
    let rows: Vec<String> = report["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| format!("{} x{}", row["test"].as_str().unwrap(), row["streams"]))
        .collect();
    assert_eq!(rows, ["pp16 x1", "tg4 x1", "tg4 x3"]);
    assert_eq!(
        (&report["results"][1]["includes_prompts"], &report["results"][2]["includes_prompts"]),
        (&false.into(), &true.into())
    );
    assert!(report["results"][0]["tokens_per_second"].as_array().unwrap().len() == 2, "{report}");
}

#[test]
fn a_context_that_does_not_fit_is_refused_with_the_numbers() {
    let model = tiny("tiny_gguf/llama.gguf");
    let output = taper(&["run", &model, "-p", "a", "-c", "200", "--kv-cache-memory", "32K"]);
    let stderr = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("a context of 200 tokens needs") && stderr.contains("--kv-cache-memory"), "{stderr}");
}

#[test]
fn a_context_beyond_the_models_is_refused() {
    let model = tiny("tiny_gguf/llama.gguf");
    let output = taper(&["run", &model, "-p", "a", "-c", "100000"]);
    let stderr = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("100000") && stderr.contains("256"), "{stderr}");
}

#[test]
fn a_shorter_context_is_told_with_what_limits_it() {
    let output = taper(&["run", &tiny("tiny_gguf/llama.gguf"), "-p", "a", "-n", "1", "--kv-cache-memory", "32K"]);
    let first = stderr(&output).lines().next().unwrap_or_default().to_owned();
    // Plain words: no time, no module, no colours.
    assert!(first.starts_with("warning: the context is ") && first.contains("--kv-cache-memory"), "{first:?}");
}

#[test]
fn an_answer_that_was_cut_says_by_what() {
    let model = tiny("tiny_gguf/llama.gguf");
    let run = |limit: [&str; 2]| {
        let output = taper(&[&["run", &model, "--raw", "-p", "ab", "--ignore-eos"][..], &limit[..]].concat());
        stderr(&output).lines().last().unwrap_or_default().to_owned()
    };
    assert_eq!(run(["-n", "5"]), "[stopped: -n 5 reached]");
    assert_eq!(run(["--max-tokens", "5"]), "[stopped: --max-tokens 5 reached]");
    assert_eq!(run(["-c", "32"]), "[stopped: the context of 32 tokens is full]");
}

#[test]
fn what_the_engine_refuses_is_named_as_it_was_typed() {
    let output = taper(&["run", &tiny("tiny_gguf/llama.gguf"), "-p", "a", "-n", "2", "--min-tokens", "5"]);
    assert_eq!(stderr(&output), "error: --min-tokens is 5; it must be at most -n\n");
    let output = taper(&["run", &tiny("tiny_gguf/llama.gguf"), "-p", &"ab ".repeat(100), "--raw", "-c", "32"]);
    let stderr = stderr(&output);
    assert!(stderr.contains("the prompt is too long") && stderr.contains("-c 256 at most"), "{stderr}");
}

#[test]
fn llama_cpp_options_that_are_not_needed_are_read_over_with_a_warning() {
    let model = tiny("tiny_gguf/llama.gguf");
    let output = taper(&["run", "-m", &model, "-ngl", "99", "-fa", "on", "--mlock", "--raw", "-p", "ab", "-n", "1"]);
    assert!(output.status.success(), "{}", stderr(&output));
    for flag in ["-ngl", "-fa", "--mlock"] {
        assert!(stderr(&output).contains(&format!("warning: {flag} of llama.cpp is not needed here: ")), "{flag}");
    }
}

#[test]
fn more_threads_than_cpus_get_a_warning() {
    let output = taper(&["run", &tiny("tiny_gguf/llama.gguf"), "--raw", "-p", "ab", "-n", "1", "-t", "1000"]);
    assert!(stderr(&output).starts_with("warning: -t 1000 is more than the "), "{}", stderr(&output));
}

#[test]
fn bench_reports_the_threads_that_compute() {
    let arguments = ["bench", &tiny("tiny_gguf/llama.gguf"), "-p", "4", "-n", "0", "-r", "1", "--json"];
    let output = command(TAPER).args(arguments).env("RAYON_NUM_THREADS", "1").output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["threads"], 1);
}

#[test]
fn standard_input_that_nobody_reads_gets_a_warning() {
    let some_text = std::fs::File::open(tiny("tiny/llama/config.json")).unwrap();
    let arguments = ["run", &tiny("tiny_gguf/llama.gguf"), "--raw", "-p", "ab", "-n", "1"];
    let output = command(TAPER).args(arguments).stdin(some_text).output().unwrap();
    assert!(stderr(&output).contains("standard input is not read, since -p gives the prompt"), "{}", stderr(&output));
}
