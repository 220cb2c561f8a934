//! Templates and tokenizers that loop, expand or contradict themselves: an error, in bounded memory.

use serde_json::{Map, Value, json};
use taper_server::text::{ChatInput, ChatTemplate, TemplateError, TemplateLimits, TemplateSources};

use super::tokenizer::tokenizer;

fn render(source: &str) -> Result<String, TemplateError> {
    let sources = TemplateSources::from_text(source.to_owned(), &tokenizer("spm"));
    let template = ChatTemplate::new(&sources, TemplateLimits::default())?;
    let (messages, kwargs) = ([json!({ "role": "user", "content": "Hi" })], Map::<String, Value>::new());
    template.render(&ChatInput { messages: &messages, tools: None, add_generation_prompt: true, kwargs: &kwargs })
}

/// Each would take more memory than there is, or more time than there will be.
#[test]
fn a_value_that_grows_without_end_is_refused() {
    for source in [
        "{{ 'a' * 10**9 }}",
        "{{ 'a' * 10**18 }}",
        "{{ ('a' * 10**7 ~ 'b') * 100 }}",
        "{% set ns = namespace(x='a') %}{% for i in range(100) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% set ns = namespace(x='a') %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x ~ '' }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson }}",
        "{% set ns = namespace(x='a') %}{% for i in range(100) %}{% set ns.x = ns.x.replace('a', 'aa') %}{% endfor %}",
        "{% set ns = namespace(x='a') %}{% for i in range(100) %}{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}",
        "{% set ns = namespace(x='a') %}{% for i in range(100) %}{% set ns.x = [ns.x, ns.x] | join %}{% endfor %}",
        "{% macro f(x, n) %}{{ f(x ~ x, n - 1) if n else x }}{% endmacro %}{{ f('a', 60) }}",
        "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}\
         {% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
        "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(99) %}{% set ns.x = dict(a=ns.x, b=ns.x) %}\
         {% set ns.y = dict(a=ns.y, b=ns.y) %}{% endfor %}{{ ns.x == ns.y }}",
        "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x | zip(ns.x) | list %}\
         {% set ns.y = ns.y | zip(ns.y) | list %}{% endfor %}{{ ns.x == ns.y }}",
        "{{ ([0] * 10**12) | list }}",
        "{{ ([0] * 10**18) | join(',') }}",
        "{{ 'a' | indent(10**15) }}",
        "{{ '%1000000000d' | format(1) }}",
    ] {
        let result = render(source);
        assert!(matches!(result, Err(TemplateError::Failed(_))), "{source}: {:?}", result.map(|text| text.len()));
    }
}

#[test]
fn a_template_without_end_is_refused_when_loaded() {
    let chain = format!("{{{{ 'a'{} }}}}", " ~ 'a'".repeat(200_000));
    let branches = format!("{{% if a %}}{}{{% endif %}}", "{% elif a %}".repeat(100_000));
    for source in [chain, branches, "{{ ".to_owned() + &"[".repeat(100_000)] {
        let result = render(&source);
        assert!(matches!(result, Err(TemplateError::Syntax(_))), "{:?}", result.map(|text| text.len()));
    }
}

#[test]
fn bounded_operators_do_what_the_engines_own_do() {
    for (source, expected) in [
        ("{{ (1 + 2 * 3) ~ 'x' }}", "7x"),
        ("{{ ('a' ~ 1 ~ [2]) * 2 }}", "a1[2]a1[2]"),
        ("{{ ([1] + [2, 3]) | join('-') }}", "1-2-3"),
        ("{{ 'ab' + 'cd' }}{{ 1.5 + 1 }}", "abcd2.5"),
        ("{{ missing ~ 'x' }}", "x"),
    ] {
        assert_eq!(render(source).unwrap(), expected, "{source}");
    }
    assert!(
        matches!(render("{{ 'a' + 1 }}"), Err(TemplateError::Failed(why)) if why.contains("unsupported types string and number"))
    );
}
