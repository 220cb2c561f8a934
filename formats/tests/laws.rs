//! Laws that hold for any text, in every format.

use proptest::prelude::*;
use serde_json::{Value, json};
use taper_formats::{Options, Parser, Piece, all};

use crate::support::{Setup, fixture, joined};

/// A word that no syntax has.
const WITNESS: &str = "zebra";

/// Bits of answers of all formats.
fn bits(with_thoughts: bool) -> Vec<String> {
    let mut bits: Vec<String> = all().iter().flat_map(|format| format.markers()).map(ToString::to_string).collect();
    if with_thoughts {
        bits.extend(all().iter().flat_map(|format| format.reasoning().markers()).map(ToString::to_string));
    }
    bits.push(WITNESS.to_owned());
    let syntax = "{|}|[|]|(|)|\"|'|,|:|=|;|\\|\n| |name|arguments|get_weather|noop|city|days|Paris|12|true|None|é🦀|<|>|/|\\u|\
        {\"name\": \"noop\", \"arguments\": {}}|{\"name\": \"get_weather\", \"parameters\": {\"city\": \"|<function=noop>|\
        <function=get_weather>|<parameter=city>|</parameter>|</function>|<arg_value>|[ARGS]{|call:noop{}|functions.noop:0|\
        to=functions.noop|```json\n|<invoke name=\"noop\">|<parameter name=\"days\">|</invoke>|[noop()|analysis|commentary";
    bits.extend(syntax.split('|').map(str::to_owned));
    bits.sort();
    bits.dedup();
    bits
}

fn answers(with_thoughts: bool) -> impl Strategy<Value = (String, Vec<usize>, bool)> {
    let text = prop::collection::vec(prop::sample::select(bits(with_thoughts)), 0..24).prop_map(|bits| bits.concat());
    let cuts = prop::collection::vec(any::<usize>(), 0..6);
    (text, cuts, any::<bool>())
}

fn parts<'a>(text: &'a str, cuts: &[usize]) -> Vec<&'a str> {
    let places: Vec<_> = text.char_indices().map(|(at, _)| at).collect();
    let mut ends: Vec<_> = cuts.iter().filter_map(|cut| places.get(cut % places.len().max(1)).copied()).collect();
    ends.extend([0, text.len()]);
    ends.sort_unstable();
    ends.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn cuts_change_nothing_and_whole_calls_hold_json((text, cuts, in_thoughts) in answers(true)) {
        for format in all() {
            let mut setup = Setup::of(format.name);
            setup.options.starts_in_reasoning = in_thoughts;
            // `joined` reads the arguments of every call that ended.
            prop_assert_eq!(joined(setup.parse(parts(&text, &cuts))), joined(setup.parse([text.as_str()])), "{}", format.name);
        }
    }

    #[test]
    fn every_recorded_answer_cut_off_anywhere_is_read_without_a_call_too_many(cut in any::<prop::sample::Index>()) {
        for case in fixture("by_hand.json").as_array().unwrap() {
            let text = case["input"].as_str().unwrap();
            let places: Vec<_> = text.char_indices().map(|(at, _)| at).collect();
            let num_calls = |pieces: &[Value]| pieces.iter().filter(|piece| piece.get("call").is_some()).count();
            let setup = Setup::of(case["format"].as_str().unwrap());
            let whole = num_calls(&joined(setup.parse([text])));
            prop_assert!(num_calls(&joined(setup.parse([&text[..*cut.get(&places)]]))) <= whole);
        }
    }

    #[test]
    fn without_a_call_no_word_is_lost((text, cuts, _) in answers(false)) {
        // Headers of harmony are markup.
        for format in all().iter().filter(|format| format.name != "openai") {
            let pieces = joined(Setup::of(format.name).parse(parts(&text, &cuts)));
            if pieces.iter().all(|piece| piece.get("call").is_none()) {
                let values = pieces.iter().flat_map(|piece| piece.as_object().unwrap().values());
                let kept: String = values.filter_map(Value::as_str).collect();
                prop_assert_eq!(kept.matches(WITNESS).count(), text.matches(WITNESS).count(), "{}: {}", format.name, kept);
            }
        }
    }

    #[test]
    fn text_without_markers_is_text(text in "[a-z0-9 .,é🦀\n\t-]{1,60}") {
        for format in all() {
            let pieces = joined(Setup::of(format.name).parse([text.as_str()]));
            prop_assert_eq!(pieces, vec![json!({"text": text})], "{}", format.name);
        }
    }
}

/// Characters that keep machines busy.
const REPEATED: [&str; 7] = ["<", "a", "\n", "[{\"name\":", "{", "\\\"", "<|"];

fn feed_repeatedly(format: &str, repeated: &str, num_bytes: usize) {
    let setup = Setup::of(format);
    let mut parser = Parser::new(setup.format, setup.reasoning, &setup.tools, Options::default());
    parser.push(setup.format.markers().first().unwrap_or(&""));
    for _ in 0..num_bytes / repeated.len() {
        parser.push(repeated);
    }
    parser.finish();
}

/// Anything quadratic would take hours.
#[test]
fn a_megabyte_is_read_in_linear_time() {
    for (format, repeated) in ["hermes", "kimi_k2", "qwen3_xml", "pythonic", "openai"].into_iter().zip(REPEATED) {
        feed_repeatedly(format, repeated, 1 << 20);
    }
}

#[test]
fn no_format_is_slow_with_any_character() {
    for format in all() {
        REPEATED.iter().for_each(|repeated| feed_repeatedly(format.name, repeated, 1 << 13));
    }
}

#[test]
fn a_megabyte_of_arguments_streams_and_nothing_piles_up() {
    let setup = Setup::of("hermes");
    let mut parser = Parser::new(setup.format, setup.reasoning, &setup.tools, Options::default());
    parser.push("<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"");
    for _ in 0..1 << 20 {
        assert_eq!(parser.push("x"), [Piece::Arguments { index: 0, delta: "x".to_owned() }]);
    }
}
