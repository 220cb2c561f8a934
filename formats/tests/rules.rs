//! The rules that one must know to use the parser, each by an example.

use serde_json::{Value, json};
use taper_formats::{Piece, by_name, instructions};

use crate::support::Setup;

fn hermes(text: &str) -> Value {
    Value::from(Setup::of("hermes").pieces(text))
}

#[test]
fn a_call_of_an_unknown_tool_stays_text() {
    let text = "a\n<tool_call>\n{\"name\": \"rm\", \"arguments\": {}}\n</tool_call>";
    assert_eq!(hermes(text), json!([{"text": "a"}, {"malformed": &text[1..]}]));
}

#[test]
fn what_is_no_json_stays_text_and_the_next_call_is_read() {
    let text = "<tool_call>so it is</tool_call>\n<tool_call>{\"name\": \"noop\"}</tool_call>";
    let expected =
        json!([{"malformed": "<tool_call>so it is</tool_call>"}, {"call": "noop", "id": null, "arguments": {}}]);
    assert_eq!(hermes(text), expected);
}

#[test]
fn a_call_that_is_cut_off_keeps_its_arguments_and_has_no_end() {
    let text = r#"<tool_call>{"name": "get_weather", "arguments": {"city": "Par"#;
    assert_eq!(hermes(text), json!([{"call": "get_weather", "id": null, "partial": r#"{"city": "Par"#}]));
}

#[test]
fn a_call_that_breaks_off_before_its_name_is_text() {
    let text = r#"<tool_call>{"name": "get_w"#;
    assert_eq!(hermes(text), json!([{"malformed": text}]));
}

#[test]
fn a_rule_broken_within_arguments_leaves_the_call_open_and_the_rest_as_text() {
    let text = r#"<tool_call>{"name": "get_weather", "arguments": {"days": 1 2}}</tool_call>bye"#;
    let expected = json!([
        {"call": "get_weather", "id": null, "partial": r#"{"days": 1 "#}, {"malformed": "2}}</tool_call>"}, {"text": "bye"}
    ]);
    assert_eq!(hermes(text), expected);
}

#[test]
fn arguments_before_the_name_wait_for_it() {
    let text = r#"<tool_call>{"arguments": {"days": 1}, "name": "get_weather"}</tool_call>"#;
    assert_eq!(hermes(text), json!([{"call": "get_weather", "id": null, "arguments": {"days": 1}}]));
}

#[test]
fn arguments_within_a_string_are_unpacked() {
    let text = r#"<tool_call>{"name": "get_weather", "arguments": "{\"days\": 1}"}</tool_call>"#;
    assert_eq!(hermes(text), json!([{"call": "get_weather", "id": null, "arguments": {"days": 1}}]));
}

#[test]
fn a_list_of_calls_in_one_tag_is_read() {
    let text = r#"<tool_call>[{"name": "noop"}, {"name": "get_weather", "arguments": {"days": 1}}]</tool_call>"#;
    let expected = json!([
        {"call": "noop", "id": null, "arguments": {}}, {"call": "get_weather", "id": null, "arguments": {"days": 1}}
    ]);
    assert_eq!(hermes(text), expected);
}

#[test]
fn a_call_needs_no_closing_tag() {
    let text = r#"<tool_call>{"name": "noop", "arguments": {}}"#;
    assert_eq!(hermes(text), json!([{"call": "noop", "id": null, "arguments": {}}]));
}

#[test]
fn without_tools_calls_are_text() {
    let mut setup = Setup::of("hermes");
    setup.tools.clear();
    let text = "<tool_call>{\"name\": \"noop\"}</tool_call>";
    assert_eq!(setup.pieces(text), [json!({"text": text})]);
}

#[test]
fn thoughts_that_nobody_wants_read_stay_in_the_text_with_their_tags() {
    let mut setup = Setup::of("hermes");
    setup.options.parse_reasoning = false;
    assert_eq!(setup.pieces("<think>\na\n</think>\n\nb"), [json!({"text": "<think>\na\n</think>\n\nb"})]);
}

#[test]
fn thoughts_that_the_prompt_opened_end_at_their_tag() {
    let pieces = Setup::of("hermes").thinking().pieces("so\n</think>\n\nyes\n");
    assert_eq!(pieces, [json!({"reasoning": "so"}), json!({"text": "yes\n"})]);
}

#[test]
fn a_tag_within_the_answer_is_text() {
    let text = "Write <think> and </think>.";
    assert_eq!(hermes(text), json!([{"text": text}]));
}

#[test]
fn empty_thoughts_are_no_piece() {
    assert_eq!(hermes("<think>\n\n</think>\n\nyes"), json!([{"text": "yes"}]));
}

#[test]
fn a_second_call_has_the_next_index() {
    let setup = Setup::of("hermes");
    let call = "<tool_call>{\"name\": \"noop\"}</tool_call>\n";
    let indices: Vec<_> = setup
        .parse([call, call])
        .into_iter()
        .filter_map(|piece| match piece {
            Piece::CallBegin { index, .. } => Some(index),
            _ => None,
        })
        .collect();
    assert_eq!(indices, [0, 1]);
}

#[test]
fn a_prompt_that_ends_in_an_open_tag_starts_in_thoughts() {
    let think = by_name("hermes").unwrap().reasoning();
    let prompts = ["<|im_start|>assistant\n<think>\n", "<think>\n</think>\n", "What is <think>?\nassistant\n", ""];
    assert_eq!(prompts.map(|prompt| think.starts_in_reasoning(prompt)), [true, false, false, false]);
}

#[test]
fn an_answer_that_was_begun_within_thoughts_goes_on_there() {
    let think = by_name("hermes").unwrap().reasoning();
    assert_eq!(
        ["<think>so", "<think>so</think>", "so"].map(|partial| think.leaves_open(partial)),
        [true, false, false]
    );
}

#[test]
fn a_model_that_was_told_how_to_call_is_told_in_the_way_that_is_read() {
    let setup = Setup::of("plain");
    let instructions = instructions(&setup.tools);
    let call = &instructions[instructions.find("<tool_call>").unwrap()..];
    let call = call.replace("the function's name", "get_weather").replace("the parameter's name", "city");
    let arguments = json!({"city": "its value"});
    assert_eq!(setup.pieces(&call)[0], json!({"call": "get_weather", "id": null, "arguments": arguments}));
    assert!(instructions.contains(r#"{"name":"noop","description":"Nothing","parameters":{"#));
}

#[test]
fn text_goes_out_at_once_and_a_marker_is_held_only_while_it_may_be_one() {
    let setup = Setup::of("hermes");
    let mut parser = taper_formats::Parser::new(setup.format, setup.reasoning, &setup.tools, setup.options);
    let mut push = |text: &str| crate::support::joined(parser.push(text));
    assert_eq!(push("a<tool"), [json!({"text": "a"})]);
    assert_eq!(push("s>"), [json!({"text": "<tools>"})]);
}

#[test]
fn arguments_stream_as_they_come() {
    let setup = Setup::of("hermes");
    let mut parser = taper_formats::Parser::new(setup.format, setup.reasoning, &setup.tools, setup.options);
    parser.push(r#"<tool_call>{"name": "get_weather", "arguments": "#);
    let pieces = parser.push(r#"{"city": "Par"#);
    assert_eq!(pieces, [Piece::Arguments { index: 0, delta: r#"{"city": "Par"#.to_owned() }]);
}
