//! The text of an answer: whole characters, nothing from a stop string on.

use std::sync::Arc;

use taper_server::text::{DecodeOptions, Detokenizer, EncodeOptions, Output, StopMatcher, Tokenizer};
use taper_tests::fixture;

/// What is sent for `text` cut into its tokens, and the stop string that ended it.
fn sent(text: &str, stops: &[&str]) -> (String, Option<usize>) {
    let tokenizer = Arc::new(Tokenizer::from_dir(&fixture("text/byte_level")).unwrap());
    let tokens = tokenizer.encode(text, EncodeOptions { add_special: false, parse_special: false }).unwrap();
    let options = DecodeOptions { skip_special: true, starts_text: true };
    let stops = stops.iter().map(|stop| (*stop).to_owned()).collect();
    let mut output = Output::new(Detokenizer::new(tokenizer, options), StopMatcher::new(stops, false));
    let mut sent = String::new();
    for token in tokens {
        let step = output.push(token);
        sent += &step.text;
        if step.stopped_by.is_some() {
            return (sent, step.stopped_by);
        }
    }
    let step = output.finish();
    (sent + &step.text, step.stopped_by)
}

#[test]
fn without_a_stop_string_all_text_is_sent() {
    assert_eq!(sent("Grüße, 世界 🙂!", &[]), ("Grüße, 世界 🙂!".into(), None));
}

#[test]
fn text_ends_before_the_stop_string_that_comes_first() {
    assert_eq!(sent("one two three", &["three", " two"]), ("one".into(), Some(1)));
}

#[test]
fn what_only_began_as_a_stop_string_is_sent_in_the_end() {
    assert_eq!(sent("to be or not to b", &["to be!"]), ("to be or not to b".into(), None));
}
