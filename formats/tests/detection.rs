//! Detection: of every chat template that llama.cpp collects, the format and the tags of thoughts.
//!
//! The fixture has what each family's models write, from their templates and model cards. MiniMax M3, Muse and
//! Functionary 3.2 write in ways that are not read; their models are asked for calls in words. The templates belong to
//! their authors and are not kept.

use std::path::PathBuf;

use taper_formats::{all, by_name, detect};

use crate::support::fixture;

/// As the server's tests find downloaded files: a missing one is a loud skip, or a failure where models are required.
fn template(file: &str) -> Option<String> {
    let directory = std::env::var_os("TAPER_LLAMA_CPP_MODELS").map(PathBuf::from);
    let path = directory.map(|directory| directory.join("templates").join(file)).filter(|path| path.exists());
    if path.is_none() {
        let missing = format!("TAPER_LLAMA_CPP_MODELS has no templates/{file}; `make test` downloads it");
        assert!(std::env::var_os("TAPER_REQUIRE_MODELS").is_none(), "{missing}");
        eprintln!("SKIPPED: {missing}");
    }
    Some(std::fs::read_to_string(path?).unwrap())
}

#[test]
fn collected_templates_are_of_their_formats() {
    let expected = fixture("templates.json");
    let mut wrong = Vec::new();
    for (file, expected) in expected.as_object().unwrap() {
        let Some(source) = template(file) else { return };
        let found = detect(&source);
        let found = format!("{}, {}", found.format.name, found.reasoning.name);
        if *expected != found {
            wrong.push(format!("{file}: {found}, expected {expected}"));
        }
    }
    assert!(wrong.is_empty() && expected.as_object().unwrap().len() >= 70, "{}", wrong.join("\n"));
}

#[test]
fn templates_whose_calls_are_not_read_are_told_from_those_that_know_none() {
    for (file, families) in [
        ("MiniMax-M3.jinja", Some("MiniMax M3")),
        ("muse-glimmer.jinja", Some("Muse")),
        ("meetkai-functionary-medium-v3.2.jinja", Some("Functionary 3.2")),
        ("google-gemma-2-2b-it.jinja", None),
        ("MiniMax-M2.jinja", None),
    ] {
        let Some(source) = template(file) else { return };
        assert_eq!(detect(&source).unread, families, "{file}");
    }
}

#[test]
fn a_template_without_signs_falls_back_to_plain() {
    let found = detect("{% for m in messages %}{{ m.content }}{% endfor %}");
    assert_eq!((found.format.name, found.reasoning.name), ("plain", "none"));
}

#[test]
fn a_format_is_found_by_its_name() {
    assert_eq!(by_name("kimi_k2").map(|format| format.name), Some("kimi_k2"));
    assert_eq!(by_name("qwen3_coder").map(|format| format.name), Some("qwen3_xml"));
    assert!(by_name("no such format").is_none());
}

#[test]
fn every_format_is_in_the_documentation() {
    let read = |file: &str| std::fs::read_to_string(format!("{}/../{file}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let (documentation, readme) = (read("docs/formats.md"), read("README.md"));
    let (_, readme) = readme.split_once("## Tool calls").expect("the README has a section of that name");
    for format in all() {
        let row = format!("| `{}` | {} |", format.name, format.families);
        assert!(documentation.contains(&row), "docs/formats.md lacks: {row}");
        assert!(readme.contains(&format!("`{}`", format.name)), "README.md lacks `{}`", format.name);
    }
}
