//! Stop strings: the result is that of a search in the whole text, however the text was cut.

use proptest::prelude::*;
use taper_server::text::{StopMatcher, StopStep};

/// What a stream sends, and the stop string that ended it.
fn stream(pieces: &[&str], stops: &[&str], include_stop: bool) -> (String, Option<usize>) {
    let mut matcher = StopMatcher::new(stops.iter().map(|&stop| stop.to_owned()).collect(), include_stop);
    let mut sent = String::new();
    for piece in pieces {
        match matcher.push(piece) {
            StopStep::Go(text) => sent.push_str(&text),
            StopStep::Stop { text, stop } => return (format!("{sent}{text}"), Some(stop)),
        }
    }
    sent.push_str(&matcher.finish());
    (sent, None)
}

/// The same by trying every beginning of the text, from the shortest.
pub fn naive(text: &str, stops: &[&str], include_stop: bool) -> (String, Option<usize>) {
    for end in (0..=text.len()).filter(|&end| text.is_char_boundary(end)) {
        let ending = |stop: &str| !stop.is_empty() && text[..end].ends_with(stop);
        let longest = (0..stops.len())
            .filter(|&place| ending(stops[place]))
            .max_by_key(|&place| (stops[place].len(), usize::MAX - place));
        if let Some(stop) = longest {
            let start = end - stops[stop].len();
            return (text[..if include_stop { end } else { start }].to_owned(), Some(stop));
        }
    }
    (text.to_owned(), None)
}

#[test]
fn a_stop_string_in_several_pieces_is_not_sent() {
    assert_eq!(stream(&["Hello\n", "Us", "er", ": hi"], &["\nUser:"], false), ("Hello".to_owned(), Some(0)));
}

#[test]
fn a_beginning_that_does_not_go_on_is_sent() {
    assert_eq!(stream(&["a\nUs", "ual"], &["\nUser:"], false), ("a\nUsual".to_owned(), None));
}

#[test]
fn only_the_possible_beginning_is_held_back() {
    let mut matcher = StopMatcher::new(vec!["abab!".to_owned(), "xyz".to_owned()], false);
    assert_eq!(matcher.push("..abab"), StopStep::Go("..".to_owned()));
    assert_eq!(matcher.push("a"), StopStep::Go("ab".to_owned()));
    assert_eq!(matcher.push("q"), StopStep::Go("abaq".to_owned()));
}

#[test]
fn what_was_held_back_is_sent_at_the_end() {
    assert_eq!(stream(&["one <", "|im"], &["<|im_end|>"], false), ("one <|im".to_owned(), None));
}

#[test]
fn the_stop_string_is_sent_on_request() {
    assert_eq!(stream(&["a EN", "D b"], &["END"], true), ("a END".to_owned(), Some(0)));
}

#[test]
fn the_first_to_be_complete_wins_and_of_two_the_longer() {
    assert_eq!(stream(&["xabcd"], &["abcd", "bc"], false), ("xa".to_owned(), Some(1)));
    assert_eq!(stream(&["xabc"], &["bc", "abc"], false), ("x".to_owned(), Some(1)));
}

#[test]
fn empty_stop_strings_match_nothing() {
    assert_eq!(stream(&["abc"], &[""], false), ("abc".to_owned(), None));
}

fn text() -> impl Strategy<Value = String> {
    "[ab€😀]{0,14}"
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_way_of_cutting_gives_the_result_of_a_search(
        text in text(),
        stops in prop::collection::vec("[ab€😀]{0,4}", 0..4),
        include_stop: bool,
    ) {
        let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
        let expected = naive(&text, &stops, include_stop);
        let chars: Vec<&str> = text.split("").filter(|char| !char.is_empty()).collect();
        prop_assert_eq!(&stream(&chars, &stops, include_stop), &expected, "character by character");
        for first in (0..=text.len()).filter(|&at| text.is_char_boundary(at)) {
            for second in (first..=text.len()).filter(|&at| text.is_char_boundary(at)) {
                let pieces = [&text[..first], &text[first..second], &text[second..]];
                prop_assert_eq!(&stream(&pieces, &stops, include_stop), &expected, "pieces {:?}", pieces);
            }
        }
    }

    #[test]
    fn nothing_is_held_that_cannot_begin_a_stop_string(text in text(), stop in "[ab€😀]{1,4}") {
        let mut matcher = StopMatcher::new(vec![stop.clone()], false);
        if let StopStep::Go(sent) = matcher.push(&text) {
            let held = &text[sent.len()..];
            prop_assert!(stop.starts_with(held), "{:?} is held for {:?}", held, stop);
        }
    }
}
