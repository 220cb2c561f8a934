//! Chat templates against Jinja2 set up as transformers does (fixture made by `generate/text.py`), and their limits.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use taper_server::text::{ChatInput, ChatTemplate, TemplateError, TemplateLimits, TemplateSources};

use super::tokenizer::tokenizer;

fn template_with(source: &str, limits: TemplateLimits) -> ChatTemplate {
    let sources = TemplateSources::from_text(source.to_owned(), &tokenizer("spm"));
    ChatTemplate::new(&sources, limits).unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn render_with(template: &ChatTemplate, messages: &Value) -> Result<String, TemplateError> {
    let kwargs = Map::new();
    let messages = messages.as_array().unwrap();
    template.render(&ChatInput { messages, tools: None, add_generation_prompt: true, kwargs: &kwargs })
}

fn render(source: &str) -> Result<String, TemplateError> {
    render_with(&template_with(source, TemplateLimits::default()), &json!([{"role": "user", "content": "Hi"}]))
}

#[test]
fn templates_render_as_jinja2_renders_them() {
    let path = taper_tests::fixture("text/templates.json");
    let cases: Vec<Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut failures = Vec::new();
    for case in &cases {
        let template = template_with(case["template"].as_str().unwrap(), TemplateLimits::default());
        let result = template.render(&ChatInput {
            messages: case["messages"].as_array().unwrap(),
            tools: Some(&case["tools"]).filter(|tools| !tools.is_null()),
            add_generation_prompt: case["add_generation_prompt"].as_bool().unwrap(),
            kwargs: case["kwargs"].as_object().unwrap(),
        });
        let agrees = match &result {
            Ok(output) => case["output"] == **output,
            Err(TemplateError::Raised(message)) => case["raises"] == **message,
            Err(TemplateError::Failed(_)) => case["fails"] == true,
            Err(_) => false,
        };
        if !agrees {
            failures.push(format!("{}: got {result:?}, expected {}{}", case["name"], case["output"], case["raises"]));
        }
    }
    assert!(failures.is_empty(), "{} of {} differ:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

#[test]
fn the_current_year_is_written_by_strftime() {
    let year: u32 = render("{{ strftime_now('%Y') }}").unwrap().parse().unwrap();
    assert!((2025..2200).contains(&year), "{year}");
    assert!(render("{{ strftime_now('%!') }}").is_err());
}

#[test]
fn an_endless_template_runs_out_of_steps() {
    let source = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
    let result = render_with(&template_with(source, TemplateLimits { steps: 5000, output_bytes: 100 }), &json!([]));
    assert!(matches!(result, Err(TemplateError::TooManySteps { limit: 5000 })), "{result:?}");
}

#[test]
fn output_beyond_the_limit_is_refused() {
    let template = template_with("{{ messages[0].content }}", TemplateLimits { steps: 5000, output_bytes: 100 });
    let content = |len| json!([{"role": "user", "content": "x".repeat(len)}]);
    assert_eq!(render_with(&template, &content(100)).unwrap().len(), 100);
    let result = render_with(&template, &content(101));
    assert!(matches!(result, Err(TemplateError::TooLong { limit: 100 })), "{result:?}");
}

#[test]
fn values_nested_without_end_are_refused() {
    let source = "{% set ns = namespace(x=[]) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}{% endfor %}";
    for print in ["{{ ns.x }}", "{{ ns.x | tojson }}"] {
        let result = render(&format!("{source}{print}"));
        assert!(matches!(&result, Err(TemplateError::Failed(message)) if message.contains("128")), "{result:?}");
    }
}

#[test]
fn freeing_values_nested_without_end_does_not_end_the_process() {
    let nest = format!("{}ns.x{}", "[".repeat(60), "]".repeat(60));
    let step = format!("{{% for i in range(10000) %}}{{% set ns.x = {nest} %}}{{% endfor %}}");
    let result = render(&format!("{{% set ns = namespace(x=[]) %}}{{% for j in range(100) %}}{step}{{% endfor %}}"));
    assert!(matches!(result, Err(TemplateError::TooManySteps { .. })), "{result:?}");
}

#[test]
fn a_panic_of_the_engine_is_an_error_or_has_been_mended_there() {
    let result = render("{% for m in [][::-1] %}{% endfor %}");
    assert!(
        matches!(&result, Err(TemplateError::Failed(_))) || result.as_deref().is_ok_and(str::is_empty),
        "{result:?}"
    );
}

#[test]
fn a_template_reads_no_files() {
    let result = render("{% include '/etc/hostname' %}");
    assert!(matches!(result, Err(TemplateError::Failed(_))), "{result:?}");
}

#[test]
fn a_broken_template_is_refused_when_loaded() {
    let sources = TemplateSources::from_text("{% if %}".to_owned(), &tokenizer("spm"));
    let error = ChatTemplate::new(&sources, TemplateLimits::default()).unwrap_err();
    assert!(matches!(&error, TemplateError::Syntax(why) if why.contains("line 1")), "{error}");
}

#[test]
fn without_a_template_conversations_are_plain_lines() {
    let template = ChatTemplate::new(&TemplateSources::default(), TemplateLimits::default()).unwrap();
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hi "}, {"type": "text", "text": "there"}]},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Why?"},
    ]);
    let prompt = render_with(&template, &messages).unwrap();
    assert_eq!(prompt, "Be brief.\n\nUser: Hi there\nAssistant: Hello.\nUser: Why?\nAssistant:");
    assert!(template.is_fallback());
    assert_eq!(template.stop_strings(), ["\nUser:"]);
}

#[test]
fn the_template_for_tools_is_used_when_tools_are_given() {
    let templates =
        [("default", "plain"), ("tool_use", "tools")].map(|(name, text)| (name.to_owned(), text.to_owned()));
    let sources = TemplateSources { templates: BTreeMap::from(templates), ..TemplateSources::default() };
    let template = ChatTemplate::new(&sources, TemplateLimits::default()).unwrap();
    let render = |tools: Option<Value>| {
        let (tools, kwargs) = (tools.as_ref(), Map::new());
        template.render(&ChatInput { messages: &[], tools, add_generation_prompt: true, kwargs: &kwargs }).unwrap()
    };
    assert_eq!(render(None), "plain");
    assert_eq!(render(Some(json!([]))), "plain");
    assert_eq!(render(Some(json!([{"type": "function"}]))), "tools");
}

/// What is found in a directory with these files.
fn found_in(files: &[(&str, &str)]) -> TemplateSources {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(dir.path().join(name), content).unwrap();
    }
    TemplateSources::from_dir(dir.path(), &tokenizer("byte_level")).unwrap()
}

#[test]
fn the_template_file_comes_before_those_in_json() {
    let config = r#"{"chat_template": "from config"}"#;
    let sources = found_in(&[("tokenizer_config.json", config), ("chat_template.jinja", "from file")]);
    assert_eq!(sources.templates["default"], "from file");
    assert_eq!(found_in(&[("tokenizer_config.json", config)]).templates["default"], "from config");
    let sources = found_in(&[("tokenizer_config.json", config), ("chat_template.json", r#"{"chat_template": "own"}"#)]);
    assert_eq!(sources.templates["default"], "own");
    assert!(found_in(&[]).templates.is_empty());
}

#[test]
fn named_templates_are_found() {
    let config = r#"{"chat_template": [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]}"#;
    let sources = found_in(&[("tokenizer_config.json", config)]);
    assert_eq!((sources.templates["default"].as_str(), sources.templates["tool_use"].as_str()), ("a", "b"));
}

#[test]
fn special_tokens_are_known_to_templates() {
    let sources =
        found_in(&[("tokenizer_config.json", r#"{"unk_token": "<unk>", "pad_token": {"content": "<pad>"}}"#)]);
    let token =
        |name: &str| sources.special_tokens.iter().find(|(key, _)| key == name).map(|(_, token)| token.as_str());
    assert_eq!((token("bos_token"), token("eos_token")), (Some("<s>"), Some("</s>")));
    assert_eq!((token("unk_token"), token("pad_token")), (Some("<unk>"), Some("<pad>")));
}
