//! Tokenizers against the golden tokenisations that llama.cpp ships beside its vocabulary files.
//!
//! Each `X.gguf` in its `models/` folder may have `X.gguf.inp`, texts between marker lines, and `X.gguf.out`, their
//! ids.

use std::fs;
use std::path::{Path, PathBuf};

use taper_models::weights::gguf::Gguf;
use taper_server::text::{DecodeOptions, EncodeOptions, Tokenizer, TokenizerError};
use taper_tests::llama_cpp_model;

const SEPARATOR: &str = "\n__ggml_vocab_test__\n";

fn vocabularies() -> Option<Vec<PathBuf>> {
    let dir = llama_cpp_model(".")?;
    let entries = fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "gguf"));
    paths.sort();
    assert!(!paths.is_empty(), "{} has no .gguf files", dir.display());
    Some(paths)
}

/// The golden texts and ids beside a vocabulary.
fn golden(path: &Path) -> Option<Vec<(String, Vec<u32>)>> {
    let texts = fs::read_to_string(path.with_extension("gguf.inp")).ok()?;
    let ids = fs::read_to_string(path.with_extension("gguf.out")).ok()?;
    let ids: Vec<Vec<u32>> =
        ids.lines().map(|line| line.split_whitespace().map(|id| id.parse().unwrap()).collect()).collect();
    let mut texts: Vec<&str> = texts.split(SEPARATOR).collect();
    // The file ends with a separator, after which there is nothing.
    if texts.len() == ids.len() + 1 {
        texts.pop();
    }
    assert_eq!(texts.len(), ids.len(), "{}: as many texts as lines of ids", path.display());
    Some(texts.into_iter().map(str::to_owned).zip(ids).collect())
}

/// Loads a vocabulary; `None` if it is of a kind that is refused by name.
fn load(path: &Path) -> Option<Tokenizer> {
    let gguf = Gguf::open(path).unwrap_or_else(|error| panic!("{error}"));
    match Tokenizer::from_gguf(&gguf) {
        Ok(tokenizer) => Some(tokenizer),
        Err(error @ TokenizerError::Model { .. }) => {
            eprintln!("not supported, as expected: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn golden_texts_are_tokenized_as_llama_cpp_does() {
    let Some(paths) = vocabularies() else { return };
    let mut failures = Vec::new();
    let mut num_texts = 0;
    for path in paths {
        let (Some(tokenizer), Some(cases)) = (load(&path), golden(&path)) else { continue };
        for (text, expected) in cases {
            num_texts += 1;
            let ids = tokenizer.encode(&text, EncodeOptions::default()).unwrap();
            if ids != expected {
                failures.push(format!("{}: {text:?}\n     got {ids:?}\nexpected {expected:?}", path.display()));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {num_texts} texts differ:\n{}", failures.len(), failures.join("\n"));
    assert!(num_texts >= 500, "only {num_texts} golden texts were found");
    println!("{num_texts} golden texts agree");
}

#[test]
fn decoding_golden_ids_gives_their_text_back() {
    let Some(paths) = vocabularies() else { return };
    for path in paths {
        let (Some(tokenizer), Some(cases)) = (load(&path), golden(&path)) else { continue };
        for (text, ids) in cases {
            let decoded = tokenizer.decode(&ids, DecodeOptions { skip_special: true, starts_text: true });
            assert_eq!(decoded, text, "{}: {ids:?}", path.display());
        }
    }
}
