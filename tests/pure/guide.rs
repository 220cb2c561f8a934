//! What restricts an answer, over a real vocabulary and tokens chosen at random: thoughts first, then the grammar.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use taper_models::weights::gguf::Gguf;
use taper_server::engine::Constraint;
use taper_server::grammar::{Budget, Grammar, Grammars, Guidance, Thoughts};
use taper_server::text::{DecodeOptions, EncodeOptions, Tokenizer};
use taper_tests::fixture;

const MAX_TOKENS: usize = 400;

fn tokenizer() -> Arc<Tokenizer> {
    let gguf = Gguf::open(&fixture("tiny_gguf/llama.gguf")).unwrap();
    Arc::new(Tokenizer::from_gguf(&gguf).unwrap())
}

fn guide(tokenizer: &Arc<Tokenizer>, thoughts: Option<Thoughts>, grammar: Option<&Grammar>) -> Box<dyn Constraint> {
    let end_tokens = tokenizer.special_tokens().end_of_generation.clone();
    let grammars = Grammars::new(tokenizer, &end_tokens, tokenizer.vocab_size()).unwrap();
    let matcher = grammar.map(|grammar| grammars.matcher(grammar).unwrap());
    Guidance { thoughts, matcher }.guide(tokenizer).expect("something restricts it")
}

/// Tokens that the constraint allows.
fn allowed(guide: &mut Box<dyn Constraint>, tokenizer: &Tokenizer) -> Vec<u32> {
    let mut row = vec![0.0; tokenizer.vocab_size()];
    guide.mask(&mut row).unwrap();
    (0..).zip(&row).filter(|(_, logit)| **logit == 0.0).map(|(id, _)| id).collect()
}

/// An answer of tokens chosen by `choose`; `None` if it did not come to an end.
fn answer(
    guide: &mut Box<dyn Constraint>,
    tokenizer: &Tokenizer,
    skips_forced: bool,
    mut choose: impl FnMut(&[u32]) -> u32,
) -> Option<String> {
    let mut tokens = Vec::new();
    while tokens.len() < MAX_TOKENS {
        let allowed = allowed(guide, tokenizer);
        let token = choose(&allowed);
        assert!(allowed.contains(&token));
        if tokenizer.is_end_of_generation(token) {
            return Some(decode(tokenizer, &tokens));
        }
        guide.accept(token).unwrap();
        tokens.push(token);
        if skips_forced {
            tokens.extend(guide.forced());
        }
        if guide.is_complete() {
            return Some(decode(tokenizer, &tokens));
        }
    }
    None
}

fn decode(tokenizer: &Tokenizer, tokens: &[u32]) -> String {
    tokenizer.decode(tokens, DecodeOptions { skip_special: false, starts_text: false })
}

fn schema() -> Grammar {
    Grammar::JsonSchema(json!({
        "type": "object",
        "properties": { "a": { "type": "array", "items": { "enum": [1, "x", null, "ü"] }, "maxItems": 3 }, "b": { "type": "boolean" } },
        "required": ["a"],
        "additionalProperties": false,
    }))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_allowed_tokens_make_json_that_follows_the_schema(
        picks in prop::collection::vec(any::<prop::sample::Index>(), MAX_TOKENS),
        skips_forced in any::<bool>(),
    ) {
        let tokenizer = tokenizer();
        let mut picks = picks.into_iter();
        let text = answer(&mut guide(&tokenizer, None, Some(&schema())), &tokenizer, skips_forced, |allowed| {
            *picks.next().expect("one for each token").get(allowed)
        });
        if let Some(text) = text {
            let value: Value = serde_json::from_str(&text).map_err(|error| TestCaseError::fail(format!("{error}: {text}")))?;
            prop_assert!(value["a"].as_array().is_some_and(|items| items.len() <= 3), "{}", value);
        }
    }
}

#[test]
fn the_grammar_begins_after_the_thoughts() {
    let tokenizer = tokenizer();
    let thoughts = Thoughts { start: None, ends: vec!["</think>".to_owned()], budget: None };
    let mut guide = guide(&tokenizer, Some(thoughts), Some(&Grammar::Choice(vec!["yes".to_owned()])));
    let text = "no, not yet</think>";
    for token in tokenizer.encode(text, EncodeOptions { add_special: false, parse_special: false }).unwrap() {
        let allowed = allowed(&mut guide, &tokenizer);
        assert!(allowed.contains(&token), "thoughts are free");
        assert!(!allowed.iter().any(|id| tokenizer.is_end_of_generation(*id)), "the answer is still to come");
        guide.accept(token).unwrap();
    }
    let rest = answer(&mut guide, &tokenizer, true, |allowed| allowed[0]);
    assert_eq!(rest.as_deref(), Some("yes"));
}

/// As where a tag is no token of its own, or harmony's channels are several.
#[test]
fn thoughts_may_begin_with_a_text_of_several_tokens_or_the_answer_may_begin_alike() {
    let tokenizer = tokenizer();
    let options = EncodeOptions { add_special: false, parse_special: false };
    let thoughts = Thoughts { start: Some("<think>".to_owned()), ends: vec!["</think>".to_owned()], budget: None };
    let grammar = Grammar::Choice(vec!["<tag>".to_owned(), "yes".to_owned()]);
    for (text, rest) in [("<think>hm</think>", "yes"), ("<", "tag>"), ("", "yes")] {
        let mut guide = guide(&tokenizer, Some(thoughts.clone()), Some(&grammar));
        for token in tokenizer.encode(text, options).unwrap() {
            assert!(allowed(&mut guide, &tokenizer).contains(&token), "{text}");
            guide.accept(token).unwrap();
        }
        for token in tokenizer.encode(rest, options).unwrap() {
            assert!(allowed(&mut guide, &tokenizer).contains(&token), "{text}{rest}");
            guide.accept(token).unwrap();
        }
        assert!(guide.is_complete(), "{text}{rest}");
    }
    let mut guide = guide(&tokenizer, Some(thoughts), Some(&grammar));
    let no = tokenizer.encode("no", options).unwrap()[0];
    assert!(!allowed(&mut guide, &tokenizer).contains(&no));
}

#[test]
fn a_form_begins_behind_any_of_the_ends() {
    let tokenizer = tokenizer();
    let options = EncodeOptions { add_special: false, parse_special: false };
    let ends = vec!["final:".to_owned(), "final json:".to_owned()];
    for end in &ends {
        let thoughts = Thoughts { start: None, ends: ends.clone(), budget: None };
        let mut guide = guide(&tokenizer, Some(thoughts), Some(&Grammar::Choice(vec!["yes".to_owned()])));
        for token in tokenizer.encode(&format!("thoughts {end}"), options).unwrap() {
            guide.accept(token).unwrap();
        }
        assert_eq!(answer(&mut guide, &tokenizer, true, |allowed| allowed[0]).as_deref(), Some("yes"), "{end}");
    }
}

#[test]
fn thoughts_over_their_budget_are_closed() {
    let tokenizer = tokenizer();
    let options = EncodeOptions { add_special: false, parse_special: false };
    let close = tokenizer.encode("</think>", options).unwrap();
    let budget = Some(Budget { tokens: 3, close: close.clone() });
    let thoughts = Thoughts { start: None, ends: vec!["</think>".to_owned()], budget };
    let thought = tokenizer.encode("a", options).unwrap()[0];
    for skips_forced in [true, false] {
        let mut guide = guide(&tokenizer, Some(thoughts.clone()), None);
        for _ in 0..3 {
            guide.accept(thought).unwrap();
        }
        if skips_forced {
            assert_eq!(guide.forced(), close);
        } else {
            for token in &close {
                assert_eq!(allowed(&mut guide, &tokenizer), [*token]);
                guide.accept(*token).unwrap();
            }
        }
        assert_eq!(allowed(&mut guide, &tokenizer).len(), tokenizer.vocab_size(), "the answer is free");
    }
}

#[test]
fn an_equal_grammar_starts_from_its_beginning() {
    let tokenizer = tokenizer();
    let end_tokens = tokenizer.special_tokens().end_of_generation.clone();
    let grammars = Grammars::new(&tokenizer, &end_tokens, tokenizer.vocab_size()).unwrap();
    let grammar = Grammar::Regex("ab".to_owned());
    for _ in 0..3 {
        let guidance = Guidance { matcher: Some(grammars.matcher(&grammar).unwrap()), ..Guidance::default() };
        let mut guide = guidance.guide(&tokenizer).unwrap();
        assert_eq!(answer(&mut guide, &tokenizer, true, |allowed| allowed[0]).as_deref(), Some("ab"));
    }
}

#[test]
fn a_grammar_of_more_than_a_mebibyte_is_refused_before_it_is_read() {
    let grammars = Grammars::new(&tokenizer(), &[2], 1000).unwrap();
    let error = grammars.matcher(&Grammar::Lark("x".repeat((1 << 20) + 1))).err().expect("too large");
    assert_eq!(error.to_string(), "it has 1048577 bytes; at most 1048576 are taken");
}

/// A model that opens its thoughts itself may do so, or answer at once. The start is one token, as with real models.
#[test]
fn thoughts_may_come_before_the_grammar_or_not() {
    let tokenizer = tokenizer();
    let start = (0..tokenizer.vocab_size() as u32).find(|id| tokenizer.token_bytes(*id) == b"q").expect("a letter");
    let thoughts = || Thoughts { start: Some("q".to_owned()), ends: vec!["</think>".to_owned()], budget: None };
    let options = EncodeOptions { add_special: false, parse_special: false };
    let grammar = Grammar::Choice(vec!["yes".to_owned()]);

    let mut guided = guide(&tokenizer, Some(thoughts()), Some(&grammar));
    let at_once = answer(&mut guided, &tokenizer, true, |allowed| {
        // Of the tokens that may come first, one that begins the answer.
        *allowed.iter().find(|id| tokenizer.token_bytes(**id).starts_with(b"y")).unwrap_or(&allowed[0])
    });
    assert_eq!(at_once.as_deref(), Some("yes"));

    let mut guided = guide(&tokenizer, Some(thoughts()), Some(&grammar));
    for token in [vec![start], tokenizer.encode("no</think>", options).unwrap()].concat() {
        assert!(allowed(&mut guided, &tokenizer).contains(&token));
        guided.accept(token).unwrap();
    }
    assert_eq!(answer(&mut guided, &tokenizer, true, |allowed| allowed[0]).as_deref(), Some("yes"));
}

#[test]
fn a_budget_of_nothing_closes_thoughts_at_once() {
    let tokenizer = tokenizer();
    let options = EncodeOptions { add_special: false, parse_special: false };
    let encode = |text| tokenizer.encode(text, options).unwrap();
    for start in [None, Some("<think>")] {
        let budget = Some(Budget { tokens: 0, close: encode("</think>") });
        let thoughts = Thoughts { start: start.map(str::to_owned), ends: vec!["</think>".to_owned()], budget };
        let mut guide = guide(&tokenizer, Some(thoughts), None);
        for token in encode(start.unwrap_or_default()) {
            guide.accept(token).unwrap();
        }
        assert_eq!(guide.forced(), encode("</think>"), "{start:?}");
    }
}

/// What only looks like the start of thoughts belongs to the grammar.
#[test]
fn an_answer_may_begin_like_thoughts() {
    let tokenizer = tokenizer();
    let thoughts = Thoughts { start: Some("<think>".to_owned()), ends: vec!["</think>".to_owned()], budget: None };
    let grammar = Grammar::Choice(vec!["<th>".to_owned()]);
    let mut guide = guide(&tokenizer, Some(thoughts), Some(&grammar));
    let mut rest: &[u8] = b"<th>";
    let text = answer(&mut guide, &tokenizer, false, |allowed| {
        let fits = |id: &&u32| {
            let bytes = tokenizer.token_bytes(**id);
            !bytes.is_empty() && rest.starts_with(bytes)
        };
        let token = allowed.iter().find(fits).copied().unwrap_or(allowed[0]);
        rest = rest.strip_prefix(tokenizer.token_bytes(token)).unwrap_or_default();
        token
    });
    assert_eq!(text.as_deref(), Some("<th>"));
}
