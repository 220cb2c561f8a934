//! The text of an answer: whole characters, nothing from a stop string on.

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use taper_server::text::{DecodeOptions, Detokenizer, EncodeOptions, Output, StopMatcher, Tokenizer};
use taper_tests::fixture;

use crate::stop::naive;

const SHOWN: DecodeOptions = DecodeOptions { skip_special: true, starts_text: true };

/// What is sent for `text` cut into its tokens, and the stop string that ended it.
fn sent(text: &str, stops: &[&str]) -> (String, Option<usize>) {
    let tokens = TOKENIZER.encode(text, EncodeOptions { add_special: false, parse_special: false }).unwrap();
    sent_for(&tokens, stops, false)
}

static TOKENIZER: LazyLock<Arc<Tokenizer>> =
    LazyLock::new(|| Arc::new(Tokenizer::from_dir(&fixture("text/byte_level")).unwrap()));

/// What is sent for `tokens`, and the stop string that ended it.
fn sent_for(tokens: &[u32], stops: &[&str], include_stop: bool) -> (String, Option<usize>) {
    let stops = stops.iter().map(|stop| (*stop).to_owned()).collect();
    let detokenizer = Detokenizer::new(Arc::clone(&TOKENIZER), SHOWN);
    let mut output = Output::new(detokenizer, StopMatcher::new(stops, include_stop));
    let mut sent = String::new();
    for &token in tokens {
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

/// Tokens of a few bytes, so that they often make whole characters, and often not.
static FEW: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let bytes = "ab €🙂".as_bytes();
    let is_of_them = |id: &u32| {
        let token = TOKENIZER.token_bytes(*id);
        !token.is_empty() && token.iter().all(|byte| bytes.contains(byte))
    };
    (0..TOKENIZER.vocab_size() as u32).filter(is_of_them).collect()
});

/// Characters of one token and of several, or any token of the few.
fn pieces() -> impl Strategy<Value = Vec<u32>> {
    let text = |text: &str| {
        TOKENIZER.encode(text, EncodeOptions { add_special: false, parse_special: false }).expect("it is text")
    };
    let piece = prop_oneof![
        Just(text("a")),
        Just(text("b")),
        Just(text("€")),
        Just(text("🙂")),
        Just(text(" ab")),
        prop::sample::select(FEW.clone()).prop_map(|id| vec![id]),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Characters cut anywhere by tokens, stop strings cut anywhere by characters: what is sent is the whole text, cut
    /// where a search in it says.
    #[test]
    fn what_is_sent_is_the_text_of_all_tokens_up_to_the_stop_string(
        tokens in pieces(),
        places in prop::collection::vec((0..40_usize, 1..4_usize), 0..3),
        include_stop: bool,
    ) {
        let text = TOKENIZER.decode(&tokens, SHOWN);
        let part = |(start, len): &(usize, usize)| text.chars().skip(*start).take(*len).collect::<String>();
        let stops: Vec<String> = places.iter().map(part).chain(["b€!".to_owned()]).collect();
        let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
        let sent = sent_for(&tokens, &stops, include_stop);
        prop_assert_eq!(&sent, &naive(&text, &stops, include_stop), "{:?} of {:?}", stops, text);
        if !include_stop {
            prop_assert!(stops.iter().all(|stop| stop.is_empty() || !sent.0.contains(stop)));
        }
    }
}
