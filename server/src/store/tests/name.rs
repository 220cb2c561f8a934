//! What may be typed, and what it means.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::name::{HubName, ModelName, NameError, without_alias};
use super::hub;

fn parts(text: &str) -> [String; 5] {
    let HubName { owner, name, revision, quant, file } =
        HubName::parse(text, Some("https://mirror.example:8443")).expect(text);
    [owner, name, revision.unwrap_or_default(), quant.unwrap_or_default(), file.unwrap_or_default()]
}

#[test]
fn every_spelling_of_a_hub_model_is_read() {
    for (text, expected) in [
        ("o/n", ["o", "n", "", "", ""]),
        ("o/n:Q4_K_M", ["o", "n", "", "Q4_K_M", ""]),
        ("o/n:bf16", ["o", "n", "", "bf16", ""]),
        ("o/n:latest", ["o", "n", "", "", ""]),
        ("o/n:a-Q8_0.gguf", ["o", "n", "", "", "a-Q8_0.gguf"]),
        ("o/n:Q8_0/a-00001-of-00002.gguf", ["o", "n", "", "", "Q8_0/a-00001-of-00002.gguf"]),
        ("o/n@v1.0", ["o", "n", "v1.0", "", ""]),
        ("o/n@refs/pr/7:IQ2_XS", ["o", "n", "refs/pr/7", "IQ2_XS", ""]),
        ("hf.co/o/n:Q8_0", ["o", "n", "", "Q8_0", ""]),
        ("huggingface.co/o/n", ["o", "n", "", "", ""]),
        ("hf://o/n@v1:Q8_0", ["o", "n", "v1", "Q8_0", ""]),
        ("https://huggingface.co/o/n", ["o", "n", "", "", ""]),
        ("https://huggingface.co/o/n/", ["o", "n", "", "", ""]),
        ("https://hf.co/o/n/tree/dev", ["o", "n", "dev", "", ""]),
        ("https://hf.co/o/n/tree/refs%2Fpr%2F7", ["o", "n", "refs/pr/7", "", ""]),
        ("https://hf.co/o/n/blob/main/a%20b.gguf", ["o", "n", "main", "", "a b.gguf"]),
        ("https://hf.co/o/n/resolve/refs/pr/7/q/a.gguf", ["o", "n", "refs/pr/7", "", "q/a.gguf"]),
        ("https://hf.co/o/n/resolve/main/a.gguf?download=true", ["o", "n", "main", "", "a.gguf"]),
        ("https://hf.co/o/n/blob/main/model.safetensors", ["o", "n", "main", "", ""]),
        ("http://mirror.example:8443/o/n", ["o", "n", "", "", ""]),
    ] {
        assert_eq!(parts(text), expected, "{text}");
    }
}

#[test]
fn what_is_no_model_is_refused_with_the_reason() {
    for (text, expected) in [
        ("llama3", "is no file or directory here, no alias of the settings file, and no name on the Hugging Face Hub"),
        ("llama3:8b", "is no file or directory here"),
        ("./a/b", "there is no file or directory \"./a/b\""),
        ("~/a", "there is no file or directory"),
        ("models/a.gguf", "there is no file or directory"),
        ("a/b/c", "there is no file or directory"),
        ("https://example.com/a.gguf", "plain addresses are not supported"),
        ("https://huggingface.co.example.com/o/n", "plain addresses are not supported"),
        ("s3://bucket/a", "plain addresses are not supported"),
        ("https://huggingface.co/datasets/o/n", "is an address of a data set"),
        ("https://hf.co/spaces/o/n", "is an address of a space"),
        ("https://hf.co/o/n/blob/main/README.md", "leads to a file that no model is read from"),
        ("https://hf.co/o/n/blob/main/../../a.gguf", "leads to a file that no model is read from"),
        ("https://hf.co/o/n/discussions/4", "an address goes on with /tree/REVISION"),
        ("https://hf.co/o", "cannot be part of a name"),
        ("a--b/n", "\"a--b\" cannot be part of a name on the Hugging Face Hub: owner and name have 1 to 96"),
        ("o/.n", "cannot be part of a name"),
        ("o/n..n", "cannot be part of a name"),
        ("o/", "cannot be part of a name"),
        ("o/n@", "a revision is a branch"),
        ("o/n@../../x", "a revision is a branch"),
        ("o/n:", "after the colon stands a quantisation"),
        ("o/n:../a.gguf", "after the colon stands a quantisation"),
        ("", "the model's name is empty"),
    ] {
        let message = HubName::parse(text, None).expect_err(text).to_string();
        assert!(message.contains(expected), "{text}: {message}");
    }
}

#[test]
fn what_exists_is_a_path_even_if_it_looks_like_a_name() {
    // Tests run in the crate's directory, which has this one.
    assert_eq!(ModelName::parse("src/store"), Ok(ModelName::Path("src/store".into())));
    assert_eq!(ModelName::parse("hf://src/store"), Ok(ModelName::Hub(hub("src/store"))));
}

#[test]
fn an_alias_stands_for_its_model_unless_a_file_has_its_name() {
    let aliases =
        BTreeMap::from([("small", "o/n:Q8_0"), ("src", "o/other")].map(|(a, m)| (a.to_owned(), m.to_owned())));
    assert_eq!(without_alias("small", &aliases), "o/n:Q8_0");
    assert_eq!(without_alias("src", &aliases), "src");
    assert_eq!(without_alias("other", &aliases), "other");
}

#[test]
fn a_second_revision_must_agree_with_the_first() {
    assert_eq!(hub("o/n:Q8_0").at("dev", "--revision"), Ok(hub("o/n@dev:Q8_0")));
    assert_eq!(hub("o/n@dev").at("dev", "--revision"), Ok(hub("o/n@dev")));
    assert!(matches!(hub("o/n@dev").at("main", "--revision"), Err(NameError::TwoRevisions { .. })));
    assert!(matches!(hub("o/n").at("../x", "--revision"), Err(NameError::Part { .. })));
}

proptest! {
    #[test]
    fn reading_never_panics(text in "\\PC*", host in "\\PC*") {
        let _ = HubName::parse(&text, Some(&host));
        let _ = HubName::parse(&format!("https://hf.co/{text}"), None);
        let _ = HubName::parse(&format!("o/n{text}"), None);
    }

    #[test]
    fn what_is_written_is_read_back(text in "[a-c.]{1,3}/[a-c.-]{1,3}(\\.gguf)?(@[a-c/]{1,4})?(:(Q4_K_M|x/[a-c ]{1,3}\\.gguf))?") {
        if let Ok(name) = HubName::parse(&format!("hf://{text}"), None) {
            prop_assert_eq!(HubName::parse(&name.to_string(), None), Ok(name));
        }
    }

    #[test]
    fn a_name_never_leads_out_of_its_directory(text in "[a-c./:@~%2FE-]{1,24}") {
        if let Ok(name) = HubName::parse(&format!("hf://o/{text}"), None) {
            let parts = [Some(name.owner), Some(name.name), name.revision, name.file];
            for part in parts.into_iter().flatten() {
                prop_assert!(!part.starts_with('/') && part.split('/').all(|part| part != ".." && part != "."), "{part}");
            }
        }
    }
}
