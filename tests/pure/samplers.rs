//! llama.cpp's further samplers and their order: against llama.cpp's own test cases, and against references written here
//! from the definitions, as plainly as they can be.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use taper_server::breakers::{BreakerBook, DEFAULT_BREAKERS, sequence_breakers};
use taper_server::engine::sampling::{
    RepetitionDetection, SamplerKind, SamplingOverrides, SamplingParams, SequenceBreakers, philox4x32_10,
};
use taper_server::text::EncodeOptions;

use crate::sampling::{assert_distribution, choose, frequencies, greedy};
use crate::tokenizer::tokenizer;

const QUARTERS: [f32; 4] = [0.1, 0.2, 0.3, 0.4];

fn params() -> SamplingParams {
    SamplingParams::default()
}

// --- DRY ---

/// What is taken off the logit of `token` after `tokens`: the logit at which a greedy choice changes from a token that
/// occurs nowhere (the last one) to this, to a ten thousandth.
fn taken_off(params: &SamplingParams, tokens: &[u32], vocab: u32, token: u32) -> f32 {
    let (mut low, mut high) = (0.0, 2000.0);
    while high - low > 1e-4 {
        let middle = (low + high) / 2.0;
        let mut logits = vec![-5000.0; vocab as usize];
        logits[vocab as usize - 1] = 0.0;
        logits[token as usize] = middle;
        let chosen = choose(SamplingParams { temperature: 0.0, ..params.clone() }, &logits, tokens, 0);
        if chosen == Ok(token) { high = middle } else { low = middle }
    }
    high
}

/// By token, what DRY takes off, where it is more than nothing.
fn punished(params: &SamplingParams, tokens: &[u32], vocab: u32) -> BTreeMap<u32, f32> {
    let amounts = (0..vocab - 1).map(|token| (token, taken_off(params, tokens, vocab, token)));
    amounts.filter(|(_, amount)| *amount > 2e-4).collect()
}

fn dry(multiplier: f32, base: f32, allowed: usize, last_n: i32, breakers: &[&[u32]]) -> SamplingParams {
    let breakers = breakers.iter().map(|tokens| (tokens[0], tokens[1..].to_vec()));
    SamplingParams {
        dry_multiplier: multiplier,
        dry_base: base,
        dry_allowed_length: allowed,
        dry_penalty_last_n: last_n,
        dry_sequence_breakers: Arc::new(SequenceBreakers::new(breakers)),
        ..params()
    }
}

#[track_caller]
fn assert_punished(params: &SamplingParams, tokens: &[u32], expected: &[(u32, f32)]) {
    let got = punished(params, tokens, 10);
    let close = got.len() == expected.len()
        && expected.iter().all(|(token, amount)| got.get(token).is_some_and(|got| (got - amount).abs() < 1e-3));
    assert!(close, "{got:?} instead of {expected:?}");
}

/// The cases of llama.cpp's `tests/test-sampling.cpp`, with what their probabilities say is taken off.
#[test]
fn dry_punishes_as_llama_cpp_does() {
    assert_punished(&dry(1.0, 1.1, 2, 4, &[]), &[0, 1], &[]);
    assert_punished(&dry(1.0, 1.1, 2, 5, &[]), &[0, 1, 2, 0, 1], &[(2, 1.0)]);
    assert_punished(&dry(1.0, 1.1, 2, 6, &[&[3]]), &[0, 1, 3, 4, 0, 1], &[]);
    assert_punished(&dry(2.0, 1.1, 2, 5, &[]), &[0, 1, 2, 0, 1], &[(2, 2.0)]);
    assert_punished(&dry(1.0, 1.1, 4, 7, &[]), &[0, 1, 2, 3, 4, 0, 1], &[]);
}

#[test]
fn dry_grows_by_its_base_with_each_token_of_a_repetition() {
    let dry = dry(0.8, 1.75, 2, -1, &[]);
    assert_punished(&dry, &[0, 1, 2, 3, 4, 9, 0, 1], &[(2, 0.8)]);
    assert_punished(&dry, &[0, 1, 2, 3, 4, 9, 0, 1, 2], &[(3, 0.8 * 1.75)]);
    assert_punished(&dry, &[0, 1, 2, 3, 4, 9, 0, 1, 2, 3], &[(4, 0.8 * 1.75 * 1.75)]);
}

#[test]
fn of_several_repetitions_the_longest_counts() {
    let dry = dry(1.0, 2.0, 1, -1, &[]);
    // "1" was followed by 5 after "0", and by 6 after "2"; "0 1" only by 5.
    assert_punished(&dry, &[2, 1, 6, 0, 1, 5, 0, 1], &[(5, 2.0), (6, 1.0)]);
}

#[test]
fn dry_looks_no_further_back_than_it_may() {
    let tokens = [0, 1, 2, 0, 1];
    assert_punished(&dry(1.0, 1.1, 2, 0, &[]), &tokens, &[]);
    assert_punished(&dry(1.0, 1.1, 2, 4, &[]), &tokens, &[]);
    assert_punished(&dry(1.0, 1.1, 2, -1, &[]), &tokens, &[(2, 1.0)]);
}

#[test]
fn a_breaker_of_several_tokens_ends_a_repetition_where_all_of_it_stands() {
    let repeated = [0, 1, 2, 9, 0, 1];
    assert_punished(&dry(1.0, 2.0, 2, -1, &[&[0, 1]]), &repeated, &[]);
    assert_punished(&dry(1.0, 2.0, 2, -1, &[&[0, 2]]), &repeated, &[(2, 1.0)]);
    // Its first token alone may be punished, a breaker of one token may not.
    let again = [1, 2, 0, 9, 1, 2];
    assert_punished(&dry(1.0, 2.0, 2, -1, &[&[0, 5]]), &again, &[(0, 1.0)]);
    assert_punished(&dry(1.0, 2.0, 2, -1, &[&[0]]), &again, &[]);
}

#[test]
fn a_very_long_repetition_costs_a_finite_amount() {
    let tokens = vec![3; 5000];
    let choice = choose(SamplingParams { temperature: 0.0, ..dry(1.0, 100.0, 0, -1, &[]) }, &[0.0; 4], &tokens, 0);
    assert_eq!(choice, Ok(0));
    let choice = choose(dry(100.0, 100.0, 0, -1, &[]), &[f32::NEG_INFINITY, f32::NEG_INFINITY, 5.0, 5.0], &tokens, 0);
    assert_eq!(choice, Ok(2));
}

/// By the definition: for every earlier place, the number of tokens before it that equal the last ones.
fn plain_dry(tokens: &[u32], multiplier: f32, base: f32, allowed: usize, breaker: Option<u32>) -> BTreeMap<u32, f32> {
    let end = tokens.len();
    let limit = tokens.iter().rev().position(|token| Some(*token) == breaker).unwrap_or(end);
    let mut amounts = BTreeMap::new();
    for place in 1..end {
        let same = (1..=place).take_while(|back| tokens[place - back] == tokens[end - back]).count().min(limit);
        if same >= allowed && Some(tokens[place]) != breaker {
            let amount = multiplier * base.powi((same - allowed) as i32);
            let most: &mut f32 = amounts.entry(tokens[place]).or_default();
            *most = most.max(amount);
        }
    }
    amounts
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn dry_follows_its_definition(
        tokens in prop::collection::vec(0..3u32, 0..40),
        allowed in 1..5usize,
        breaker in prop::option::of(0..3u32),
    ) {
        let breakers = breaker.map(|token| [token]);
        let list: Vec<&[u32]> = breakers.iter().map(<[u32; 1]>::as_slice).collect();
        let got = punished(&dry(0.5, 1.2, allowed, -1, &list), &tokens, 4);
        let expected = plain_dry(&tokens, 0.5, 1.2, allowed, breaker);
        prop_assert_eq!(got.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        for (token, amount) in expected {
            prop_assert!((got[&token] - amount).abs() < 1e-3 * amount.max(1.0), "{}: {} {}", token, got[&token], amount);
        }
    }

    #[test]
    fn xtc_of_probability_0_changes_no_draw(
        row in prop::collection::vec(-5.0..5.0f32, 2..50),
        threshold in 0.0..1.0f32,
        seed: u64,
    ) {
        let plain = SamplingParams { seed: Some(seed), ..params() };
        let xtc = SamplingParams { xtc_probability: 0.0, xtc_threshold: threshold, ..plain.clone() };
        prop_assert_eq!(choose(xtc, &row, &[], 0), choose(plain, &row, &[], 0));
    }

    /// All that are kept are drawn sooner or later at a high temperature, and nothing else is.
    #[test]
    fn top_n_sigma_keeps_what_is_at_most_n_deviations_below_the_largest(
        row in prop::collection::vec((-40..40i32).prop_map(|logit| logit as f32 / 8.0), 2..10),
        n in (1..30u32).prop_map(|n| n as f32 / 10.0),
    ) {
        let count = row.len() as f64;
        let mean = row.iter().map(|logit| f64::from(*logit)).sum::<f64>() / count;
        let sigma = (row.iter().map(|logit| (f64::from(*logit) - mean).powi(2)).sum::<f64>() / count).sqrt();
        let least = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max)) - f64::from(n) * sigma;
        // Rounding decides about what lies on the border.
        prop_assume!(row.iter().all(|logit| (f64::from(*logit) - least).abs() > 1e-6));
        let params = SamplingParams { top_n_sigma: n, temperature: 1000.0, ..params() };
        let expected: Vec<u32> = (0..).zip(&row).filter(|(_, logit)| f64::from(**logit) >= least).map(|(id, _)| id).collect();
        prop_assert_eq!(drawn(&params, &row, 400), expected);
    }
}

/// The tokens that `count` draws give.
fn drawn(params: &SamplingParams, logits: &[f32], count: u64) -> Vec<u32> {
    let draw = |seed| choose(SamplingParams { seed: Some(seed), ..params.clone() }, logits, &[], 0).expect("finite");
    (0..count).map(draw).collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

#[test]
fn a_breaker_is_every_token_that_has_it() {
    let tokenizer = tokenizer("byte_level");
    for text in DEFAULT_BREAKERS {
        let found = sequence_breakers(&[text.to_owned()], &tokenizer).expect("encodable");
        let with = (0..tokenizer.vocab_size() as u32)
            .filter(|id| String::from_utf8_lossy(tokenizer.token_bytes(*id)).contains(text))
            .map(|id| (id, Vec::new()));
        let with: Vec<_> = with.collect();
        assert!(!with.is_empty(), "{text:?} has a token");
        assert_eq!(found, SequenceBreakers::new(with), "{text:?}");
    }
}

#[test]
fn a_breaker_over_several_tokens_begins_in_every_token_that_ends_with_its_beginning() {
    let tokenizer = tokenizer("byte_level");
    let text = "!?";
    let plain = EncodeOptions { add_special: false, parse_special: false };
    let rest = tokenizer.encode("?", plain).expect("encodable");
    let whole = tokenizer.encode(text, plain).expect("encodable");
    let mut expected = vec![(whole[0], whole[1..].to_vec())];
    for id in 0..tokenizer.vocab_size() as u32 {
        match tokenizer.token_bytes(id) {
            bytes if bytes.windows(2).any(|part| part == b"!?") => expected.push((id, Vec::new())),
            bytes if bytes.ends_with(b"!") => expected.push((id, rest.clone())),
            _ => {}
        }
    }
    assert!(expected.len() > 1, "a token ends with the beginning");
    assert_eq!(sequence_breakers(&[text.to_owned()], &tokenizer).expect("encodable"), SequenceBreakers::new(expected));
}

#[test]
fn the_book_of_breakers_looks_each_list_up_once() {
    let book = BreakerBook::new(tokenizer("byte_level"), vec![":".to_owned()]);
    let default = book.tokens(None).expect("encodable");
    assert!(Arc::ptr_eq(&default, &book.tokens(Some(&[":".to_owned()])).expect("encodable")));
    assert_ne!(default, book.tokens(Some(&[])).expect("encodable"), "no breakers are not the default ones");
}

// --- XTC, top_n_sigma, dynamic temperature ---

/// The cases of llama.cpp's `tests/test-sampling.cpp`, which turns the probability to 0.99.
#[test]
fn xtc_drops_the_top_choices_but_the_least_likely() {
    let xtc = |xtc_threshold| SamplingParams { xtc_probability: 1.0, xtc_threshold, ..params() };
    let probabilities = [0.4, 0.3, 0.2, 0.1];
    assert_distribution(xtc(0.09), &probabilities, &[(3, 1.0)]);
    assert_distribution(xtc(0.19), &probabilities, &[(2, 2.0 / 3.0), (3, 1.0 / 3.0)]);
    assert_distribution(xtc(0.29), &probabilities, &[(1, 0.5), (2, 1.0 / 3.0), (3, 1.0 / 6.0)]);
    assert_distribution(xtc(0.39), &probabilities, &[(0, 0.4), (1, 0.3), (2, 0.2), (3, 0.1)]);
    assert_distribution(xtc(0.51), &[0.9, 0.1], &[(0, 0.9), (1, 0.1)]);
}

/// Half of the tokens are drawn without their top choice: that is right only if the two draws do not depend on each other.
#[test]
fn xtc_is_used_as_often_as_its_probability_says() {
    let params = SamplingParams { xtc_probability: 0.5, xtc_threshold: 0.29, ..params() };
    let expected = [(0, 0.2), (1, 0.4), (2, 0.1 + 1.0 / 6.0), (3, 0.05 + 1.0 / 12.0)];
    assert_distribution(params, &[0.4, 0.3, 0.2, 0.1], &expected);
}

#[test]
fn xtc_of_a_token_depends_on_seed_and_output_index_alone() {
    let params = SamplingParams { xtc_probability: 0.5, xtc_threshold: 0.05, seed: Some(9), ..params() };
    let logits: Vec<f32> = (0..20).map(|id| (id as f32).sin()).collect();
    for index in 0..50 {
        let first = choose(params.clone(), &logits, &vec![0; 3 + index], 3);
        assert_eq!(choose(params.clone(), &logits, &vec![1; 8 + index], 8), first, "index {index}");
    }
}

/// The cases of llama.cpp's `tests/test-sampling.cpp`.
#[test]
fn top_n_sigma_is_llama_cpps() {
    let top_n_sigma = |top_n_sigma| SamplingParams { top_n_sigma, ..params() };
    assert_distribution(top_n_sigma(1.0), &QUARTERS, &[(2, 0.428571), (3, 0.571429)]);
    let all = [(0, 0.1), (1, 0.2), (2, 0.3), (3, 0.4)];
    for n in [-1.0, 0.0, 3.0] {
        assert_distribution(top_n_sigma(n), &QUARTERS, &all);
    }
}

/// The entropy of 0.1, 0.2, 0.3, 0.4 is 0.923220 of that of four equal shares.
#[test]
fn dynamic_temperature_follows_the_entropy() {
    let dynamic = |temperature, dynatemp_range, dynatemp_exponent| SamplingParams {
        temperature,
        dynatemp_range,
        dynatemp_exponent,
        ..params()
    };
    // 0.923220^8 = 0.527754 of the way from 0 to 1.
    let cold = [(0, 0.037644), (1, 0.139985), (2, 0.301813), (3, 0.520558)];
    assert_distribution(dynamic(0.5, 0.5, 8.0), &QUARTERS, &cold);
    // An exponent of 0 goes all the way, to 2.
    let roots = QUARTERS.map(|p| f64::from(p).sqrt());
    let sum: f64 = roots.iter().sum();
    let hot: Vec<_> = (0..).zip(roots.map(|root| root / sum)).collect();
    assert_distribution(dynamic(1.0, 1.0, 0.0), &QUARTERS, &hot);
    // The least temperature is not below 0, and at 0 there is no choice.
    assert_distribution(dynamic(0.5, 5.0, 10.0), &[0.000001, 0.999999], &[(1, 1.0)]);
}

#[test]
fn temperature_0_takes_the_largest_logit_whatever_else_is_asked_for() {
    let others = SamplingParams {
        dynatemp_range: 1.0,
        xtc_probability: 1.0,
        xtc_threshold: 0.0,
        typical_p: 0.1,
        top_n_sigma: 0.1,
        mirostat: 2,
        ..greedy()
    };
    assert_eq!(choose(others, &[0.5, 3.0, 2.9], &[], 0), Ok(1));
}

// --- Mirostat ---

/// The `index`-th uniform number of a seed, as the sampler draws it for tokens.
fn uniform(seed: u64, index: u64) -> f64 {
    let [low, high, ..] = philox4x32_10([index as u32, (index >> 32) as u32, 0, 0], [seed as u32, (seed >> 32) as u32]);
    ((u64::from(high) << 32 | u64::from(low)) >> 11) as f64 / 2f64.powi(53)
}

/// Tokens and their surprise by the paper's algorithms 1 and 2, from probabilities in falling order.
fn plain_mirostat(version: u8, tau: f64, eta: f64, probabilities: &[f64], seed: u64, count: u64) -> Vec<(u32, f64)> {
    let mut mu = 2.0 * tau;
    let step = |index| {
        let kept = if version == 2 {
            probabilities.iter().take_while(|p| -p.log2() <= mu).count().max(1)
        } else {
            let pairs =
                || (1..100).map(|i| (((i + 1) as f64 / i as f64).ln(), (probabilities[i - 1] / probabilities[i]).ln()));
            let s = pairs().map(|(t, b)| t * b).sum::<f64>() / pairs().map(|(t, _)| t * t).sum::<f64>();
            let excess = s - 1.0;
            let k = (excess * mu.exp2() / (1.0 - (probabilities.len() as f64).powf(-excess))).powf(1.0 / s);
            (k as usize).clamp(1, probabilities.len())
        };
        let mass: f64 = probabilities[..kept].iter().sum();
        let mut rest = uniform(seed, index) * mass;
        let place = probabilities[..kept].iter().position(|p| {
            rest -= p;
            rest < 0.0
        });
        let token = place.unwrap_or(kept - 1);
        let surprise = -(probabilities[token] / mass).log2();
        mu -= eta * (surprise - tau);
        (token as u32, surprise)
    };
    (0..count).map(step).collect()
}

/// Zipf's law over 2,000 tokens, which has an entropy of about 8 bits.
fn zipf() -> Vec<f64> {
    let weights: Vec<f64> = (1..=2000).map(|rank| f64::from(rank).powf(-1.1)).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

#[test]
fn mirostat_follows_the_paper_and_comes_to_its_target() {
    let probabilities = zipf();
    let logits: Vec<f32> = probabilities.iter().map(|p| p.ln() as f32).collect();
    for (version, tau) in [(1, 3.0), (1, 5.0), (2, 3.0), (2, 5.0)] {
        let params = SamplingParams { mirostat: version, mirostat_tau: tau, seed: Some(5), ..params() };
        let mut sampler = taper_server::engine::sampling::Sampler::new(params, 0);
        let mut tokens = Vec::new();
        for _ in 0..1500 {
            tokens.push(sampler.sample(&mut logits.clone(), &tokens, &[]).expect("finite").token);
        }
        let plain = plain_mirostat(version, f64::from(tau), 0.1_f32.into(), &probabilities, 5, 1500);
        let expected: Vec<u32> = plain.iter().map(|(token, _)| *token).collect();
        // A token whose probability rounding moves across the threshold would change all that follow.
        assert_eq!(tokens, expected, "version {version}, tau {tau}");
        let mean = plain[500..].iter().map(|(_, surprise)| surprise).sum::<f64>() / 1000.0;
        assert!((mean - f64::from(tau)).abs() < 0.1, "version {version}: {mean} bits instead of {tau}");
    }
}

#[test]
fn mirostat_replaces_all_samplers_but_the_temperature() {
    let mirostat = |version| SamplingParams {
        mirostat: version,
        top_k: 1,
        repetition_penalty: 100.0,
        samplers: vec![SamplerKind::TopK],
        temperature: 0.5,
        ..params()
    };
    // 10 bits let all four pass at first; the probabilities are those of temperature 0.5.
    let squares = [1.0 / 30.0, 4.0 / 30.0, 9.0 / 30.0, 16.0 / 30.0];
    let logits = QUARTERS.map(f32::ln);
    let first = |seed| choose(SamplingParams { seed: Some(seed), ..mirostat(2) }, &logits, &[0, 3], 2).expect("finite");
    let mut counts = [0.0_f64; 4];
    (0..4000).for_each(|seed| counts[first(seed) as usize] += 1.0 / 4000.0);
    for (count, expected) in counts.iter().zip(squares) {
        assert!((count - expected).abs() < 0.032, "{counts:?} instead of {squares:?}");
    }
    assert!(drawn(&mirostat(1), &logits, 100).len() > 1);
}

#[test]
fn mirostat_of_a_target_of_no_surprise_is_greedy() {
    let params = SamplingParams { mirostat: 2, mirostat_tau: 0.0, ..params() };
    assert_eq!(frequencies(params, &QUARTERS).keys().collect::<Vec<_>>(), [&3]);
}

// --- the order ---

fn in_order(samplers: &[SamplerKind], other: SamplingParams) -> SamplingParams {
    SamplingParams { samplers: samplers.to_vec(), ..other }
}

#[test]
fn samplers_are_applied_in_the_order_asked_for() {
    use SamplerKind::{Temperature, TopK, TopP};
    let cut = SamplingParams { top_k: 3, top_p: 0.75, ..params() };
    // Of the three most likely two hold 0.75; of all tokens it takes three.
    assert_distribution(in_order(&[TopK, TopP], cut.clone()), &QUARTERS, &[(2, 0.428571), (3, 0.571429)]);
    let three = [(1, 0.222222), (2, 0.333333), (3, 0.444444)];
    assert_distribution(in_order(&[TopP, TopK], cut), &QUARTERS, &three);
    let cold = SamplingParams { temperature: 0.5, top_p: 0.8, ..params() };
    // At temperature 0.5 two tokens hold 0.8, at 1 it takes three.
    assert_distribution(in_order(&[Temperature, TopP], cold.clone()), &QUARTERS, &[(2, 0.36), (3, 0.64)]);
    let squares = [(1, 4.0 / 29.0), (2, 9.0 / 29.0), (3, 16.0 / 29.0)];
    assert_distribution(in_order(&[TopP, Temperature], cold), &QUARTERS, &squares);
}

#[test]
fn penalties_count_where_they_stand() {
    use SamplerKind::{Penalties, Temperature, TopK};
    let penalised = SamplingParams { top_k: 1, repetition_penalty: 2.0, ..params() };
    let choice = |order: &[SamplerKind]| choose(in_order(order, penalised.clone()), &[3.0, 2.0, 1.0], &[0], 0);
    assert_eq!(choice(&[Penalties, TopK]), Ok(1), "3.0 becomes 1.5 before the most likely is kept");
    assert_eq!(choice(&[TopK, Penalties]), Ok(0), "it is kept before");
    // As one of several candidates: 4.0 becomes -96.0.
    let penalised = SamplingParams { presence_penalty: 2.0, frequency_penalty: 2.0, top_k: 2, ..params() };
    let order = in_order(&[TopK, Penalties], penalised);
    let tokens = vec![0; 49];
    assert_eq!(choose(order, &[4.0, 3.0, 2.0], &tokens, 0), Ok(1));
    let greedy = SamplingParams { repetition_penalty: 2.0, ..greedy() };
    let choice = |order: &[SamplerKind]| choose(in_order(order, greedy.clone()), &[3.0, 2.0, 1.0], &[0], 0);
    assert_eq!(choice(&[Penalties, Temperature]), Ok(1));
    assert_eq!(choice(&[Temperature, Penalties]), Ok(0), "at temperature 0 one token is left");
}

#[test]
fn a_sampler_that_is_not_there_is_not_used_and_one_that_is_there_twice_is_used_twice() {
    use SamplerKind::Temperature;
    let cold = SamplingParams { temperature: 0.5, top_k: 1, ..params() };
    assert_distribution(in_order(&[], cold.clone()), &QUARTERS, &[(0, 0.1), (1, 0.2), (2, 0.3), (3, 0.4)]);
    let fourth_powers = [(0, 1.0 / 354.0), (1, 16.0 / 354.0), (2, 81.0 / 354.0), (3, 256.0 / 354.0)];
    assert_distribution(in_order(&[Temperature, Temperature], cold), &QUARTERS, &fourth_powers);
}

#[test]
fn samplers_have_llama_cpps_names_and_letters() {
    let default = SamplerKind::default_order();
    assert_eq!(SamplerKind::from_letters("edskypmxt"), Ok(default.clone()));
    let names = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature";
    assert_eq!(SamplerKind::from_names(names.split(';')), Ok(default.clone()));
    assert_eq!(default.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(";"), names);
    let others = ["top-k", "nucleus", "typical", "temp"];
    assert_eq!(SamplerKind::from_names(others), SamplerKind::from_letters("kpyt"));
    let refused = SamplerKind::from_names(["top_k", "tfs_z"]).map_err(|error| error.to_string());
    assert!(refused.is_err_and(|message| message.contains("\"tfs_z\"") && message.contains("top_n_sigma")));
    let refused = SamplerKind::from_letters("kz").map_err(|error| error.to_string());
    assert!(refused.is_err_and(|message| message.contains("'z'") && message.contains("edskypmxt")));
    assert!(SamplerKind::from_letters(&"k".repeat(33)).is_err());
}

#[test]
fn every_override_reaches_its_parameter() {
    let all = SamplingParams {
        dynatemp_range: 0.25,
        dynatemp_exponent: 2.0,
        top_n_sigma: 1.5,
        xtc_probability: 0.5,
        xtc_threshold: 0.2,
        mirostat: 2,
        mirostat_tau: 4.0,
        mirostat_eta: 0.2,
        dry_multiplier: 0.8,
        dry_base: 1.5,
        dry_allowed_length: 3,
        dry_penalty_last_n: -1,
        dry_sequence_breakers: Arc::new(SequenceBreakers::new([(1, vec![2])])),
        samplers: vec![SamplerKind::TopK],
        repetition_detection: RepetitionDetection { max_pattern_size: 8, min_pattern_size: 2, min_count: 3 },
        ..params()
    };
    let overrides = SamplingOverrides {
        dynatemp_range: Some(all.dynatemp_range),
        dynatemp_exponent: Some(all.dynatemp_exponent),
        top_n_sigma: Some(all.top_n_sigma),
        xtc_probability: Some(all.xtc_probability),
        xtc_threshold: Some(all.xtc_threshold),
        mirostat: Some(all.mirostat),
        mirostat_tau: Some(all.mirostat_tau),
        mirostat_eta: Some(all.mirostat_eta),
        dry_multiplier: Some(all.dry_multiplier),
        dry_base: Some(all.dry_base),
        dry_allowed_length: Some(all.dry_allowed_length),
        dry_penalty_last_n: Some(all.dry_penalty_last_n),
        dry_sequence_breakers: Some(all.dry_sequence_breakers.clone()),
        samplers: Some(all.samplers.clone()),
        repetition_detection: Some(all.repetition_detection),
        ..SamplingOverrides::default()
    };
    assert_eq!(SamplingOverrides::resolve(std::slice::from_ref(&overrides)), all);
    let merged = SamplingOverrides::merge(&[overrides.clone(), SamplingOverrides::default()]);
    assert_eq!(merged, overrides);
}

#[test]
fn samplers_outside_their_range_are_named() {
    let detection = |max_pattern_size, min_pattern_size, min_count| SamplingParams {
        repetition_detection: RepetitionDetection { max_pattern_size, min_pattern_size, min_count },
        ..params()
    };
    let cases = [
        (SamplingParams { dynatemp_range: -0.5, ..params() }, "`dynatemp_range` is -0.5; it must be from 0 to 10"),
        (SamplingParams { dynatemp_exponent: 11.0, ..params() }, "`dynatemp_exponent` is 11; it must be from 0 to 10"),
        (SamplingParams { top_n_sigma: f32::NAN, ..params() }, "`top_n_sigma` is NaN; it must be from -1 to 100"),
        (SamplingParams { xtc_probability: 1.5, ..params() }, "`xtc_probability` is 1.5; it must be from 0 to 1"),
        (SamplingParams { xtc_threshold: -0.1, ..params() }, "`xtc_threshold` is -0.1; it must be from 0 to 1"),
        (SamplingParams { mirostat: 3, ..params() }, "`mirostat` is 3; it must be 0, 1 or 2"),
        (SamplingParams { mirostat_tau: -1.0, ..params() }, "`mirostat_tau` is -1; it must be from 0 to 100"),
        (SamplingParams { mirostat_eta: 1.5, ..params() }, "`mirostat_eta` is 1.5; it must be from 0 to 1"),
        (SamplingParams { dry_multiplier: -1.0, ..params() }, "`dry_multiplier` is -1; it must be from 0 to 100"),
        (SamplingParams { dry_base: 0.5, ..params() }, "`dry_base` is 0.5; it must be from 1 to 100"),
        (SamplingParams { dry_penalty_last_n: -2, ..params() }, "`dry_penalty_last_n` is -2; it must be at least -1"),
        (detection(5000, 1, 3), "`repetition_detection.max_pattern_size` is 5000; it must be at most 4096"),
        (
            detection(8, 9, 3),
            "`repetition_detection.min_pattern_size` is 9; it must be at most `max_pattern_size`, which is 8",
        ),
        (detection(8, 0, 1), "`repetition_detection.min_count` is 1; it must be at least 2"),
    ];
    for (params, message) in cases {
        assert_eq!(params.validate(10).map_err(|error| error.to_string()), Err(message.to_string()));
    }
    assert_eq!(detection(0, 7, 0).validate(10), Ok(()), "nothing is detected");
}
