//! Grammars, as llguidance reads them: calls as templates write them pass, others do not, and what passes is read back.

use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};
use taper_formats::{
    Choice, Format, GrammarError, GrammarOptions, ReasoningFormat, Thoughts, Tool, all, by_name, call_grammar,
    reasoning_by_name,
};

use crate::support::{Setup, fixture, tools};

/// A vocabulary of bytes and special tokens.
struct Vocabulary {
    env: TokEnv,
    specials: Vec<&'static str>,
}

impl Vocabulary {
    /// With the format's markers as special tokens, or as text.
    fn of(format: &Format, reasoning: &ReasoningFormat, special: bool) -> Self {
        let mut specials = if special { [format.markers(), &reasoning.markers()].concat() } else { Vec::new() };
        specials.sort_unstable_by_key(|text| std::cmp::Reverse((text.len(), *text)));
        specials.dedup();
        let mut words: Vec<_> = (0..=255).map(|byte: u8| vec![byte]).collect();
        words.extend(specials.iter().chain(&["<end of text>"]).map(|text| [b"\xff", text.as_bytes()].concat()));
        let info = TokRxInfo::new(u32::try_from(words.len()).unwrap(), u32::try_from(words.len() - 1).unwrap());
        Self { env: Arc::new(ApproximateTokEnv::new(TokTrie::from(&info, &words))), specials }
    }

    fn token(&self, text: &str) -> Option<u32> {
        self.specials.iter().position(|special| *special == text).map(|at| 256 + u32::try_from(at).unwrap())
    }

    fn tokens(&self, text: &str) -> Vec<u32> {
        let (mut tokens, mut rest) = (Vec::new(), text);
        while let Some(byte) = rest.bytes().next() {
            let special = self.specials.iter().find(|special| rest.starts_with(**special));
            let special = special.filter(|_| rest.is_char_boundary(0));
            match special {
                Some(special) => {
                    tokens.extend(self.token(special));
                    rest = &rest[special.len()..];
                }
                None => {
                    let length = rest.chars().next().unwrap().len_utf8();
                    tokens.extend(rest[..length].bytes().map(u32::from));
                    assert!(length == 1 || byte >= 0x80);
                    rest = &rest[length..];
                }
            }
        }
        tokens
    }
}

/// A grammar at work.
struct Check {
    vocabulary: Vocabulary,
    grammar: String,
}

impl Check {
    fn new(format: &str, tools: &[Tool], choice: Choice, thoughts: Thoughts, special: bool) -> Self {
        Self::answering(format, tools, choice, None, thoughts, special)
    }

    fn answering(
        format: &str,
        tools: &[Tool],
        choice: Choice,
        answer: Option<&Value>,
        thoughts: Thoughts,
        special: bool,
    ) -> Self {
        let format = by_name(format).unwrap();
        let reasoning = match thoughts {
            Thoughts::None => format.reasoning(),
            Thoughts::Opened(tags) | Thoughts::MayCome(tags) | Thoughts::Before(tags) => tags,
        };
        let vocabulary = Vocabulary::of(format, reasoning, special);
        let token = |text: &str| vocabulary.token(text);
        let options = GrammarOptions { choice, parallel: true, thoughts, answer, token: &token };
        let grammar = call_grammar(format, tools, &options).unwrap();
        Self { vocabulary, grammar }
    }

    /// How many bytes or tokens of `text` pass, and whether the answer may end there.
    fn run(&self, text: &str) -> (usize, bool) {
        let factory = ParserFactory::new_simple(&self.vocabulary.env).unwrap();
        let parser = factory.create_parser(TopLevelGrammar::from_lark(self.grammar.clone()));
        let mut matcher = Matcher::new(parser);
        assert!(!matcher.is_error(), "{}\n{}", matcher.get_error().unwrap(), self.grammar);
        let tokens = self.vocabulary.tokens(text);
        let num_passed = matcher.try_consume_tokens(&tokens).unwrap();
        (num_passed, num_passed == tokens.len() && matcher.is_accepting().unwrap())
    }

    fn accepts(&self, text: &str) -> bool {
        self.run(text).1
    }
}

/// Templates whose white space is not that of their format.
const DIFFERENT: [(&str, &str); 3] =
    [("Reka-Edge", "two calls"), ("deepseek-ai-DeepSeek-V4", "no arguments"), ("deepseek-ai-DeepSeek-V4", "two calls")];

/// What templates write, of the given cases: file, format, text.
fn recorded(cases: &[&str]) -> Vec<(String, String, String)> {
    let directory = format!("{}/tests/fixtures/recorded", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut texts = Vec::new();
    for file in files.filter(|file| file != "tools.json") {
        let recorded = fixture(&format!("recorded/{file}"));
        for case in recorded["cases"].as_array().unwrap() {
            let name = case["case"].as_str().unwrap();
            let different = DIFFERENT.iter().any(|(of, which)| file.starts_with(of) && name == *which);
            if cases.contains(&name) && !different && case["in_thoughts"] != true {
                // The end of thoughts belongs to the prompt where the model does not think.
                let text = case["input"].as_str().unwrap().trim_end().trim_start_matches("</think>");
                let text = text.trim_start_matches('\n');
                texts.push((file.clone(), recorded["format"].as_str().unwrap().to_owned(), text.to_owned()));
            }
        }
    }
    texts
}

fn required(format: &str, special: bool) -> Check {
    let tags = by_name(format).unwrap().reasoning();
    Check::new(format, &tools(), Choice::Required, Thoughts::MayCome(tags), special)
}

fn refused(special: bool) -> Vec<String> {
    let mut refused = Vec::new();
    for (file, format, text) in recorded(&["one call", "no arguments", "two calls", "text that looks like a number"]) {
        let check = required(&format, special);
        let (num_passed, accepted) = check.run(&text);
        if !accepted {
            refused.push(format!("{file}, {format}: {num_passed} tokens of {text}\n{}", check.grammar));
        }
    }
    refused
}

#[test]
fn calls_as_templates_write_them_pass_with_markers_as_tokens() {
    let refused = refused(true);
    assert!(refused.is_empty(), "{}", refused.join("\n\n"));
}

#[test]
fn calls_as_templates_write_them_pass_with_markers_as_text() {
    let refused = refused(false);
    assert!(refused.is_empty(), "{}", refused.join("\n\n"));
}

#[test]
fn another_name_or_the_beginning_of_a_call_or_text_is_no_call() {
    for (file, format, text) in recorded(&["one call"]) {
        let check = required(&format, true);
        let half = text.char_indices().nth(text.chars().count() / 2).unwrap().0;
        for wrong in [text.replace("get_weather", "rm"), text[..half].to_owned(), "Hello".to_owned(), String::new()] {
            assert!(!check.accepts(&wrong), "{file}: {wrong}\n{}", check.grammar);
        }
    }
}

#[test]
fn another_type_is_refused() {
    for (file, format, text) in recorded(&["one call"]) {
        let (before, after) = text.rsplit_once('2').unwrap();
        let wrong = format!("{before}\"two\"{after}");
        assert!(!required(&format, true).accepts(&wrong), "{file}: {wrong}");
    }
}

#[test]
fn an_answer_may_hold_calls_or_text_where_the_choice_is_free() {
    for (file, format, text) in recorded(&["text before a call", "text", "one call"]) {
        let thoughts = Thoughts::MayCome(by_name(&format).unwrap().reasoning());
        let check = Check::new(&format, &tools(), Choice::Auto, thoughts, true);
        assert!(check.accepts(&text), "{file}: {text}\n{}", check.grammar);
        // Bare JSON that calls none of the tools is text.
        if text.contains("get_weather") && format != "llama3_json" {
            assert!(!check.accepts(&text.replace("get_weather", "rm")), "{file}: {text}\n{}", check.grammar);
        }
    }
}

#[test]
fn json_and_lists_that_are_no_calls_pass_where_calls_have_no_marker() {
    let cases = [
        ("llama3_json", "{\"name\": \"Ada\"}", "{\"name\": \"noop\", \"parameters\": {}}"),
        ("pythonic", "[noon(1), 2]", "[noop(), get_weather(city=\"Paris\")]"),
    ];
    for (format, text, call) in cases {
        let check = Check::new(format, &tools(), Choice::Auto, Thoughts::None, false);
        assert!(check.accepts(text) && check.accepts(call), "{format}\n{}", check.grammar);
        assert!(!check.accepts(&call[..call.len() - 1]), "{format}\n{}", check.grammar);
    }
}

#[test]
fn a_call_follows_thoughts_that_the_prompt_opened() {
    let think = reasoning_by_name("think").unwrap();
    let check = Check::new("hermes", &tools(), Choice::Required, Thoughts::Opened(think), false);
    let call = "<tool_call>\n{\"name\": \"noop\", \"arguments\": {}}\n</tool_call>";
    assert!(check.accepts(&format!("So <b>it</b> is.\n</think>\n\n{call}")));
    assert!(!check.accepts(call));
}

#[test]
fn a_call_passes_where_thoughts_may_have_come_before_the_grammar() {
    for (file, format, text) in recorded(&["one call"]) {
        let tags = by_name(&format).unwrap().reasoning();
        // Some templates write thoughts, if only empty ones.
        let thoughts =
            text.strip_prefix(tags.start).filter(|_| tags.is_some()).and_then(|rest| rest.split_once(tags.end));
        let text = thoughts.map_or(text.as_str(), |(_, rest)| rest.trim_start().trim_start_matches(tags.before_call));
        for choice in [Choice::Required, Choice::Auto] {
            let check = Check::new(&format, &tools(), choice, Thoughts::Before(tags), true);
            assert!(check.accepts(text), "{file}: {text}\n{}", check.grammar);
            if tags.is_some() {
                let after = format!("\n{}{text}", tags.before_call);
                assert!(check.accepts(&after), "{file}: {after}\n{}", check.grammar);
                let again = format!("{}more{}{}{text}", tags.start, tags.end, tags.before_call);
                assert!(format != "openai" || !check.accepts(&again), "{file}: {again}\n{}", check.grammar);
            }
        }
    }
}

#[test]
fn a_named_tool_is_the_only_one_and_called_once() {
    let check = Check::new("hermes", &tools(), Choice::Named("noop".to_owned()), Thoughts::None, false);
    let call = "<tool_call>\n{\"name\": \"noop\", \"arguments\": {}}\n</tool_call>";
    assert!(check.accepts(call));
    assert!(!check.accepts(&format!("{call}\n{call}")));
    assert!(!check.accepts(&call.replace("noop", "get_weather")));
}

#[test]
fn one_of_the_allowed_tools_is_called() {
    let check = Check::new("mistral", &tools(), Choice::Allowed(vec!["noop".to_owned()]), Thoughts::None, true);
    assert!(check.accepts("[TOOL_CALLS]noop[ARGS]{}"));
    assert!(!check.accepts("[TOOL_CALLS]get_weather[ARGS]{\"city\": \"a\"}"));
}

/// A tool whose schema has all that formats treat in their own ways.
fn hard_tool() -> Tool {
    let parameters = json!({
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["a b", "c\"d"]},
            "point": {"$ref": "#/$defs/point"},
            "note": {"type": ["string", "null"]},
            "any": {},
            "list": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
            "either": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]}
        },
        "required": ["kind", "list"],
        "additionalProperties": false,
        "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}}
    });
    Tool { name: "hard-tool_1".to_owned(), parameters, strict: true, ..Tool::default() }
}

#[test]
fn every_format_has_a_grammar_that_compiles() {
    for (format, special) in all().iter().flat_map(|format| [(format, true), (format, false)]) {
        for choice in [Choice::Auto, Choice::Required] {
            let tools = [hard_tool(), tools().remove(1)];
            let check = Check::new(format.name, &tools, choice, Thoughts::MayCome(format.reasoning()), special);
            check.run("");
        }
    }
}

#[test]
fn what_passes_in_tags_is_read_back_as_the_schema_says() {
    let mut setup = Setup::of("qwen3_xml");
    setup.tools = vec![hard_tool()];
    let check = Check::new("qwen3_xml", &setup.tools, Choice::Required, Thoughts::None, false);
    let call = |kind: &str| {
        format!(
            "<tool_call>\n<function=hard-tool_1>\n<parameter=kind>\n{kind}\n</parameter>\n<parameter=note>\nnull\n\
             </parameter>\n<parameter=list>\n[[1, 2], []]\n</parameter>\n</function>\n</tool_call>"
        )
    };
    assert!(check.accepts(&call("c\"d")), "{}", check.grammar);
    assert!(!check.accepts(&call("other")));
    let arguments = json!({"kind": "c\"d", "note": null, "list": [[1, 2], []]});
    assert_eq!(setup.pieces(&call("c\"d")), [json!({"call": "hard-tool_1", "id": null, "arguments": arguments})]);
}

#[test]
fn what_passes_in_python_is_read_back_as_the_schema_says() {
    let mut setup = Setup::of("pythonic");
    setup.tools = vec![hard_tool()];
    let check = Check::new("pythonic", &setup.tools, Choice::Required, Thoughts::None, false);
    let call = r#"[hard-tool_1(kind="a b", any={'k': [1.5, None, True]}, list=[[1], []])]"#;
    assert!(check.accepts(call), "{:?}\n{}", check.run(call), check.grammar);
    assert!(!check.accepts("[hard-tool_1(kind=\"a b\")]"));
    let arguments = json!({"kind": "a b", "any": {"k": [1.5, null, true]}, "list": [[1], []]});
    assert_eq!(setup.pieces(call), [json!({"call": "hard-tool_1", "id": null, "arguments": arguments})]);
}

#[test]
fn an_answer_in_json_may_stand_in_place_of_a_call() {
    let properties = json!({ "city": { "enum": ["Seoul"] }, "degrees": { "type": "integer" } });
    let schema =
        json!({ "type": "object", "properties": properties, "required": ["city"], "additionalProperties": false });
    let (mut num_calls, mut refused) = (0, std::collections::BTreeSet::new());
    for (file, format, text) in recorded(&["one call", "two calls"]) {
        let tags = by_name(&format).unwrap().reasoning();
        let token = |_: &str| None;
        let options = GrammarOptions {
            choice: Choice::Auto,
            parallel: true,
            thoughts: Thoughts::None,
            answer: Some(&schema),
            token: &token,
        };
        if call_grammar(by_name(&format).unwrap(), &tools(), &options) == Err(GrammarError::Answer) {
            refused.insert(format);
            continue;
        }
        let check = Check::answering(&format, &tools(), Choice::Auto, Some(&schema), Thoughts::MayCome(tags), true);
        let channel = if format == "openai" { "<|channel|>final<|message|>" } else { "" };
        let accepts = |answer: &str| check.accepts(&format!("{channel}{answer}"));
        assert!(accepts(r#"{"city": "Seoul", "degrees": 21}"#), "{format}\n{}", check.grammar);
        for wrong in ["It is 21 degrees.", r#"{"city": "Busan"}"#, r#"{"degrees": 21}"#] {
            assert!(!accepts(wrong), "{format}: {wrong}");
        }
        assert!(check.accepts(&text), "{file}: {text}\n{}", check.grammar);
        num_calls += 1;
    }
    assert!(!refused.contains("openai") && refused.contains("llama3_json"), "{refused:?}");
    assert!(num_calls > 30, "{num_calls}, refused: {refused:?}");
}

fn error(tools: &[Tool], choice: Choice) -> GrammarError {
    let options = GrammarOptions { choice, parallel: true, thoughts: Thoughts::None, answer: None, token: &|_| None };
    call_grammar(by_name("hermes").unwrap(), tools, &options).unwrap_err()
}

#[test]
fn a_grammar_without_a_tool_to_call_says_which() {
    assert_eq!(error(&[], Choice::Required), GrammarError::NoTools);
    assert_eq!(error(&tools(), Choice::Named("rm".to_owned())), GrammarError::UnknownTool("rm".to_owned()));
}

#[test]
fn a_name_or_a_schema_that_no_call_can_have_is_refused() {
    let named = |name: &str| Tool { name: name.to_owned(), ..Tool::default() };
    assert_eq!(error(&[named("a\"b")], Choice::Required), GrammarError::Name("a\"b".to_owned()));
    let list = Tool { parameters: json!({"type": "array"}), ..named("a") };
    assert_eq!(error(&[list], Choice::Required), GrammarError::Parameters("a".to_owned()));
}
