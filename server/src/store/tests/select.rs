//! Which files of a repository are the model.

use super::super::select::{Kind, SelectError, select};
use super::{hub, listing};

fn chosen(name: &str, files: &[&str]) -> Vec<String> {
    select(&hub(name), &listing(files)).expect(name).files.into_iter().map(|file| file.name).collect()
}

fn refused(name: &str, files: &[&str]) -> String {
    select(&hub(name), &listing(files)).expect_err(name).to_string()
}

const QUANTS: &[&str] = &[
    "README.md",
    "config.json",
    "imatrix-n.gguf",
    "mmproj-n-BF16.gguf",
    "mtp-n-Q4_K_M.gguf",
    "n-Q4_K_M.gguf",
    "n-Q4_K_S.gguf",
    "n-Q8_0.gguf",
    "n-UD-Q4_K_M.gguf",
    "BF16/n-BF16-00001-of-00002.gguf",
    "BF16/n-BF16-00002-of-00002.gguf",
];

#[test]
fn a_quantisation_is_found_in_any_case_and_whole() {
    for (name, expected) in [
        ("o/n:Q8_0", &["n-Q8_0.gguf"][..]),
        ("o/n:q4_k_s", &["n-Q4_K_S.gguf"]),
        ("o/n:Q4_K_M", &["n-Q4_K_M.gguf"]),
        ("o/n:UD-Q4_K_M", &["n-UD-Q4_K_M.gguf"]),
        ("o/n:bf16", &["BF16/n-BF16-00001-of-00002.gguf", "BF16/n-BF16-00002-of-00002.gguf"]),
    ] {
        assert_eq!(chosen(name, QUANTS), expected, "{name}");
    }
}

#[test]
fn without_a_quantisation_the_usual_one_is_taken_and_named() {
    assert_eq!(chosen("o/n", QUANTS), ["n-Q4_K_M.gguf"]);
    let choice = select(&hub("o/n"), &listing(QUANTS)).unwrap().choice.unwrap();
    assert!(choice.starts_with("taking Q4_K_M of o/n; there are also Q8_0 (1.0 MiB)"), "{choice}");
    assert_eq!(chosen("o/n", &["n-Q8_0.gguf", "n-Q4_0.gguf"]), ["n-Q4_0.gguf"]);
    assert_eq!(chosen("o/n", &["n-Q6_K.gguf"]), ["n-Q6_K.gguf"]);
}

#[test]
fn a_file_may_be_named_also_one_we_would_not_choose() {
    assert_eq!(chosen("o/n:n-Q8_0.gguf", QUANTS), ["n-Q8_0.gguf"]);
    assert_eq!(chosen("o/n:BF16/n-BF16-00002-of-00002.gguf", QUANTS).len(), 2);
    assert_eq!(chosen("o/n:mmproj-n-BF16.gguf", QUANTS), ["mmproj-n-BF16.gguf"]);
}

#[test]
fn an_unknown_quantisation_is_told_with_those_there_are() {
    let message = refused("o/n:Q4_K", &["n-Q4_K_M.gguf", "n-Q8_0.gguf"]);
    assert_eq!(message, "o/n has no \"Q4_K\"; there are Q8_0 (1.0 MiB), Q4_K_M (1.0 MiB)");
    let message = refused("o/n:Q8_0", &["config.json", "model.safetensors"]);
    assert_eq!(message, "o/n has no .gguf files, and so no \"Q8_0\"; leave :Q8_0 off for its safetensors");
}

#[test]
fn missing_parts_are_named() {
    let message = refused("o/n", &["n-00001-of-00003.gguf", "n-00003-of-00003.gguf"]);
    assert_eq!(message, "o/n is incomplete, these parts are missing: n-00002-of-00003.gguf");
    let message = refused("o/n", &["config.json", "model-00002-of-00002.safetensors"]);
    assert_eq!(message, "o/n is incomplete, these parts are missing: model-00001-of-00002.safetensors");
}

#[test]
fn safetensors_come_with_what_they_need_and_nothing_else() {
    let files = [
        ".gitattributes",
        "README.md",
        "additional_chat_templates/tool_use.jinja",
        "chat_template.jinja",
        "config.json",
        "consolidated.safetensors",
        "flax_model.msgpack",
        "generation_config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "onnx/model.onnx",
        "original/consolidated.00.pth",
        "pytorch_model.bin",
        "tf_model.h5",
        "tokenizer.json",
        "tokenizer_config.json",
    ];
    let expected = [
        "additional_chat_templates/tool_use.jinja",
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "model.safetensors.index.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
    ];
    assert_eq!(chosen("o/n", &files), expected);
}

#[test]
fn safetensors_win_over_gguf_unless_a_quantisation_is_named() {
    let files = ["config.json", "model.safetensors", "n-Q8_0.gguf"];
    assert_eq!(select(&hub("o/n"), &listing(&files)).unwrap().kind, Kind::Safetensors);
    assert_eq!(chosen("o/n:Q8_0", &files), ["n-Q8_0.gguf"]);
}

#[test]
fn pickles_are_refused_with_the_reason() {
    let error = select(&hub("o/n"), &listing(&["config.json", "pytorch_model.bin"])).unwrap_err();
    assert!(matches!(&error, SelectError::Pickles { file, .. } if file == "pytorch_model.bin"));
    assert!(error.to_string().contains("they can run code"), "{error}");
}

#[test]
fn names_that_lead_elsewhere_are_not_chosen() {
    assert_eq!(
        refused("o/n", &["../n-Q8_0.gguf", "/n-Q4_0.gguf"]),
        SelectError::NoModel { id: "o/n".into() }.to_string()
    );
}
