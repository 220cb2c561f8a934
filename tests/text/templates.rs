//! The chat templates that llama.cpp collects against Jinja2 set up as transformers does.
//!
//! The fixture (made by `generate/llama_cpp_templates.py`) has our conversations, and of each output its length and
//! hash.

use std::collections::BTreeMap;

use serde_json::Value;
use taper_server::text::{ChatInput, ChatTemplate, TemplateError, TemplateLimits, TemplateSources};
use taper_tests::{fixture, llama_cpp_model};

/// Where we mean to differ.
const DIVERGENT: [(&str, &str); 1] = [
    // Jinja2 escapes `<` and `\"` where plain text is added to text marked `safe`. Prompts are not HTML.
    ("meetkai-functionary-medium-v3.1.jinja", "tool"),
];

/// As in the generating script.
fn digest(text: &str) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{} {:016x}", text.len(), text.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

fn load(source: &str) -> Result<ChatTemplate, TemplateError> {
    let token = |name: &str, token: &str| (name.to_owned(), token.to_owned());
    let sources = TemplateSources {
        templates: BTreeMap::from([("default".to_owned(), source.to_owned())]),
        special_tokens: vec![token("bos_token", "<BOS>"), token("eos_token", "<EOS>")],
    };
    ChatTemplate::new(&sources, TemplateLimits::default())
}

fn render(template: &ChatTemplate, case: &Value) -> Result<String, TemplateError> {
    template.render(&ChatInput {
        messages: case["messages"].as_array().unwrap(),
        tools: Some(&case["tools"]).filter(|tools| !tools.is_null()),
        add_generation_prompt: case["add_generation_prompt"].as_bool().unwrap(),
        kwargs: case["kwargs"].as_object().unwrap(),
    })
}

/// Whether a rendering is what Jinja2 made of it. Where Jinja2 failed on a value's type we may be more lenient.
fn agrees(result: &Result<String, TemplateError>, expected: &Value) -> bool {
    match result {
        _ if expected["fails"] == true => !matches!(result, Err(TemplateError::Raised(_))),
        Ok(output) => *expected == digest(output),
        Err(TemplateError::Raised(message)) => expected["raises"] == digest(message),
        Err(_) => false,
    }
}

#[test]
fn collected_templates_render_as_jinja2_renders_them() {
    let recorded: Value =
        serde_json::from_slice(&std::fs::read(fixture("text/llama_cpp_templates.json")).unwrap()).unwrap();
    let mut failures = Vec::new();
    let (mut num_templates, mut num_equal) = (0, 0);
    for (file, outcomes) in recorded["outcomes"].as_object().unwrap() {
        let Some(path) = llama_cpp_model(&format!("templates/{file}")) else { return };
        num_templates += 1;
        let template = load(&std::fs::read_to_string(&path).unwrap()).unwrap_or_else(|error| panic!("{file}: {error}"));
        for (name, expected) in outcomes.as_object().unwrap() {
            if DIVERGENT.iter().any(|(divergent, case)| file == divergent && name.contains(case)) {
                continue;
            }
            let result = render(&template, &recorded["cases"][name]);
            if agrees(&result, expected) {
                num_equal += usize::from(result.is_ok());
            } else {
                failures.push(format!("{file}, {name}: got {result:.400?}, expected {expected}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
    assert!(num_templates >= 70 && num_equal >= 1000, "only {num_templates} templates, {num_equal} equal outputs");
}
