//! The sampler against published values and laws of probability; parameters and their layers.

use std::collections::BTreeMap;

use proptest::prelude::*;
use taper_server::engine::sampling::{
    SampleError, Sampler, SamplingOverrides, SamplingParams, TokenLogprobs, philox4x32_10,
};

/// Relative frequency of each token in `DRAWS` draws at consecutive output indices.
pub fn frequencies(params: SamplingParams, logits: &[f32]) -> BTreeMap<u32, f64> {
    const DRAWS: usize = 20_000;
    let mut sampler = Sampler::new(SamplingParams { seed: Some(42), ..params }, 0);
    let mut frequencies = BTreeMap::new();
    // The output index counts; what the tokens are does not matter without penalties.
    let tokens = vec![0; DRAWS];
    for index in 0..DRAWS {
        let sample = sampler.sample(&mut logits.to_vec(), &tokens[..index], &[]).expect("finite logits");
        *frequencies.entry(sample.token).or_insert(0.0) += 1.0 / DRAWS as f64;
    }
    frequencies
}

/// Asserts that exactly the tokens of `expected` are drawn, each with its probability.
pub fn assert_distribution(params: SamplingParams, probabilities: &[f32], expected: &[(u32, f64)]) {
    let logits: Vec<f32> = probabilities.iter().map(|p| p.ln()).collect();
    let drawn = frequencies(params, &logits);
    let ids: Vec<u32> = expected.iter().map(|(id, _)| *id).collect();
    assert_eq!(drawn.keys().copied().collect::<Vec<_>>(), ids, "{drawn:?}");
    for (id, probability) in expected {
        // Four standard deviations of a frequency over 20,000 draws are at most 0.0142.
        assert!((drawn[id] - probability).abs() < 0.0142, "token {id}: {} instead of {probability}", drawn[id]);
    }
}

pub fn choose(params: SamplingParams, logits: &[f32], tokens: &[u32], prompt_len: usize) -> Result<u32, SampleError> {
    let mut sampler = Sampler::new(params, prompt_len);
    sampler.sample(&mut logits.to_vec(), tokens, &[]).map(|sample| sample.token)
}

pub fn greedy() -> SamplingParams {
    SamplingParams { temperature: 0.0, ..SamplingParams::default() }
}

/// The known-answer vectors that Random123, the authors' library, ships for philox4x32-10.
#[test]
fn philox_gives_the_published_vectors() {
    let vectors = [
        ([0; 4], [0; 2], [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]),
        ([u32::MAX; 4], [u32::MAX; 2], [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]),
        (
            [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
            [0xa4093822, 0x299f31d0],
            [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
        ),
    ];
    for (counter, key, expected) in vectors {
        assert_eq!(philox4x32_10(counter, key), expected, "counter {counter:x?}, key {key:x?}");
    }
}

#[test]
fn default_parameters_draw_from_the_models_distribution() {
    let expected = [(0, 0.1), (1, 0.2), (2, 0.3), (3, 0.4)];
    assert_distribution(SamplingParams::default(), &[0.1, 0.2, 0.3, 0.4], &expected);
}

#[test]
fn temperature_raises_probabilities_to_its_inverse() {
    let params = SamplingParams { temperature: 0.5, ..SamplingParams::default() };
    let expected = [(0, 1.0 / 30.0), (1, 4.0 / 30.0), (2, 9.0 / 30.0), (3, 16.0 / 30.0)];
    assert_distribution(params, &[0.1, 0.2, 0.3, 0.4], &expected);
}

/// The cases of the next four tests are those of llama.cpp's `tests/test-sampling.cpp`.
#[test]
fn top_k_keeps_the_most_likely_tokens() {
    let top_k = |top_k| SamplingParams { top_k, ..SamplingParams::default() };
    assert_distribution(top_k(1), &[0.1, 0.2, 0.3, 0.4], &[(3, 1.0)]);
    assert_distribution(top_k(3), &[0.1, 0.2, 0.3, 0.4], &[(1, 0.222222), (2, 0.333333), (3, 0.444444)]);
    assert_distribution(top_k(4), &[0.1, 0.2, 0.3, 0.4], &[(0, 0.1), (1, 0.2), (2, 0.3), (3, 0.4)]);
}

#[test]
fn top_p_keeps_the_smallest_head_that_holds_it() {
    let top_p = |top_p| SamplingParams { top_p, ..SamplingParams::default() };
    assert_distribution(top_p(0.1), &[0.1, 0.2, 0.3, 0.4], &[(3, 1.0)]);
    assert_distribution(top_p(0.69), &[0.1, 0.2, 0.3, 0.4], &[(2, 0.428571), (3, 0.571429)]);
    assert_distribution(top_p(0.8), &[0.1, 0.2, 0.3, 0.4], &[(1, 0.222222), (2, 0.333333), (3, 0.444444)]);
}

#[test]
fn min_p_keeps_what_is_likely_relative_to_the_most_likely() {
    let min_p = |min_p| SamplingParams { min_p, ..SamplingParams::default() };
    assert_distribution(min_p(0.24), &[0.1, 0.2, 0.3, 0.4], &[(0, 0.1), (1, 0.2), (2, 0.3), (3, 0.4)]);
    assert_distribution(min_p(0.26), &[0.1, 0.2, 0.3, 0.4], &[(1, 0.222222), (2, 0.333333), (3, 0.444444)]);
    assert_distribution(min_p(0.51), &[0.1, 0.2, 0.3, 0.4], &[(2, 0.428571), (3, 0.571429)]);
    assert_distribution(min_p(0.76), &[0.1, 0.2, 0.3, 0.4], &[(3, 1.0)]);
    assert_distribution(min_p(1.0), &[0.1, 0.2, 0.3, 0.4], &[(3, 1.0)]);
}

#[test]
fn min_keep_keeps_candidates_that_a_sampler_would_drop() {
    let base = || SamplingParams { min_keep: 2, ..SamplingParams::default() };
    let two = [(2, 0.428571), (3, 0.571429)];
    for params in [
        SamplingParams { min_p: 1.0, ..base() },
        SamplingParams { top_p: 0.1, ..base() },
        // Behind another sampler, where there is a list already.
        SamplingParams { top_k: 3, top_p: 0.1, ..base() },
    ] {
        assert_distribution(params, &[0.1, 0.2, 0.3, 0.4], &two);
    }
    let typical_p = SamplingParams { typical_p: 0.5, ..base() };
    assert_distribution(typical_p, &[0.97, 0.01, 0.01, 0.01], &[(0, 0.989796), (1, 0.010204)]);
    // XTC would leave one.
    let xtc = SamplingParams { xtc_probability: 1.0, xtc_threshold: 0.05, ..base() };
    assert_distribution(xtc, &[0.1, 0.2, 0.3, 0.4], &[(0, 0.1), (1, 0.2), (2, 0.3), (3, 0.4)]);
}

#[test]
fn typical_p_keeps_the_tokens_of_expected_surprise() {
    let typical_p = SamplingParams { typical_p: 0.5, ..SamplingParams::default() };
    assert_distribution(typical_p.clone(), &[0.97, 0.01, 0.01, 0.01], &[(0, 1.0)]);
    let expected = [(1, 0.333333), (2, 0.333333), (3, 0.333333)];
    assert_distribution(typical_p, &[0.4, 0.2, 0.2, 0.2], &expected);
}

/// llama.cpp's order: top_k comes first, so top_p is a share of what top_k has left.
#[test]
fn top_p_counts_the_probability_that_top_k_has_left() {
    let params = SamplingParams { top_k: 2, top_p: 0.5, ..SamplingParams::default() };
    assert_distribution(params, &[0.1, 0.2, 0.3, 0.4], &[(3, 1.0)]);
}

/// llama.cpp's order: temperature comes last, so it does not change what top_p keeps.
#[test]
fn temperature_does_not_change_what_top_p_keeps() {
    let params = SamplingParams { temperature: 100.0, top_p: 0.6, ..SamplingParams::default() };
    assert_distribution(params, &[0.1, 0.2, 0.3, 0.4], &[(2, 0.499), (3, 0.501)]);
}

#[test]
fn greedy_takes_the_lowest_id_among_equals() {
    let mut logits = vec![0.0; 100];
    (logits[37], logits[71]) = (2.0, 2.0);
    assert_eq!(choose(greedy(), &logits, &[], 0), Ok(37));
}

#[test]
fn repetition_penalty_divides_positive_and_multiplies_negative_logits() {
    let params = SamplingParams { repetition_penalty: 2.0, ..greedy() };
    assert_eq!(choose(params.clone(), &[3.0, 1.4, 1.6], &[0], 1), Ok(2), "3.0 becomes 1.5");
    assert_eq!(choose(params, &[-1.0, -1.9, -2.1], &[0], 1), Ok(1), "-1.0 becomes -2.0");
}

#[test]
fn repeat_last_n_bounds_what_is_penalised() {
    let penalised = |repeat_last_n| SamplingParams { repetition_penalty: 10.0, repeat_last_n, ..greedy() };
    let (logits, tokens) = ([3.0, 2.0, 1.0], [0, 1, 1]);
    assert_eq!(choose(penalised(0), &logits, &tokens, 3), Ok(0), "no token is penalised");
    assert_eq!(choose(penalised(2), &logits, &tokens, 3), Ok(0), "only token 1 is among the last two");
    assert_eq!(choose(penalised(3), &logits, &tokens, 3), Ok(2), "both are among the last three");
    assert_eq!(choose(penalised(-1), &logits, &tokens, 3), Ok(2), "both are in the whole sequence");
}

#[test]
fn the_penalised_window_slides_with_the_output() {
    let params = SamplingParams { repetition_penalty: 10.0, repeat_last_n: 2, ..greedy() };
    let mut sampler = Sampler::new(params, 1);
    let mut tokens = vec![0];
    for _ in 0..4 {
        tokens.push(sampler.sample(&mut [4.0, 3.0, 2.0], &tokens, &[]).expect("finite").token);
    }
    assert_eq!(tokens, [0, 1, 2, 0, 1], "the best token that is not among the last two");
}

#[test]
fn frequency_penalty_counts_occurrences_in_the_output() {
    let params = SamplingParams { frequency_penalty: 1.0, ..greedy() };
    assert_eq!(choose(params.clone(), &[3.0, 1.5], &[0, 0, 0], 3), Ok(0), "the prompt does not count");
    assert_eq!(choose(params.clone(), &[3.0, 1.5], &[0], 0), Ok(0), "3.0 becomes 2.0");
    assert_eq!(choose(params, &[3.0, 1.5], &[0, 0], 0), Ok(1), "3.0 becomes 1.0");
}

#[test]
fn presence_penalty_applies_once() {
    let params = SamplingParams { presence_penalty: 1.0, ..greedy() };
    assert_eq!(choose(params, &[3.0, 1.5], &[0, 0, 0], 0), Ok(0), "3.0 becomes 2.0");
}

#[test]
fn logit_bias_moves_and_bans_tokens() {
    let bias = |logit_bias| SamplingParams { logit_bias, ..greedy() };
    assert_eq!(choose(bias(vec![(1, 5.0)]), &[3.0, 0.0, 1.0], &[], 0), Ok(1));
    assert_eq!(choose(bias(vec![(0, f32::NEG_INFINITY)]), &[3.0, 0.0, 1.0], &[], 0), Ok(2));
}

#[test]
fn banned_tokens_are_not_chosen() {
    let sample = Sampler::new(greedy(), 0).sample(&mut [3.0, 2.0, 1.0], &[], &[0, 1]);
    assert_eq!(sample.map(|sample| sample.token), Ok(2));
}

#[test]
fn logits_that_are_not_finite_are_an_error() {
    for temperature in [0.0, 1.0] {
        for bad in [f32::NAN, f32::INFINITY] {
            for index in [0, 20, 99] {
                let mut logits = vec![0.5; 100];
                logits[index] = bad;
                let params = SamplingParams { temperature, logit_bias: vec![(20, f32::NEG_INFINITY)], ..greedy() };
                let result = choose(params, &logits, &[], 0);
                assert_eq!(result, Err(SampleError::NotFinite), "{bad} at {index}, temperature {temperature}");
            }
        }
    }
}

#[test]
fn banning_every_token_is_an_error() {
    for temperature in [0.0, 1.0] {
        let logit_bias = (0..5).map(|id| (id, f32::NEG_INFINITY)).collect();
        let params = SamplingParams { temperature, logit_bias, ..greedy() };
        assert_eq!(choose(params, &[1.0; 5], &[], 0), Err(SampleError::NothingLeft));
    }
}

#[test]
fn impossible_tokens_are_never_drawn() {
    let params = SamplingParams { temperature: 50.0, ..SamplingParams::default() };
    let top_p = SamplingParams { top_p: 0.999, ..params.clone() };
    let logits = [f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY];
    assert_eq!(frequencies(params, &logits).keys().collect::<Vec<_>>(), [&1]);
    assert_eq!(frequencies(top_p, &logits).keys().collect::<Vec<_>>(), [&1]);
}

#[test]
fn a_draw_depends_on_seed_and_output_index_alone() {
    let logits: Vec<f32> = (0..50).map(|id| (id as f32).sin()).collect();
    let params = SamplingParams { seed: Some(7), ..SamplingParams::default() };
    // One sampler draws twenty tokens; for each, a fresh one with another prompt length draws at the same index.
    let mut sampler = Sampler::new(params.clone(), 3);
    for index in 0..20 {
        let drawn = sampler.sample(&mut logits.clone(), &vec![0; 3 + index], &[]).map(|sample| sample.token);
        assert_eq!(choose(params.clone(), &logits, &vec![0; 11 + index], 11), drawn, "index {index}");
    }
}

#[test]
fn a_drawn_seed_repeats_the_draws() {
    let logits = vec![0.0; 1000];
    let draws = |params: SamplingParams| {
        let mut sampler = Sampler::new(params, 0);
        let sample = |index| sampler.sample(&mut logits.clone(), &vec![0; index], &[]).expect("finite").token;
        let tokens: Vec<u32> = (0..10).map(sample).collect();
        (sampler.seed(), tokens)
    };
    let (seed, tokens) = draws(SamplingParams::default());
    assert_eq!(draws(SamplingParams { seed: Some(seed), ..SamplingParams::default() }), (seed, tokens.clone()));
    assert_ne!(draws(SamplingParams::default()).1, tokens, "another request draws another seed");
}

#[test]
fn log_probabilities_are_the_models_own() {
    let params = SamplingParams { logprobs: Some(2), logit_bias: vec![(0, 100.0)], ..greedy() };
    let mut logits = [0.1f32, 0.2, 0.3, 0.4].map(|p| p.ln() + 3.0);
    let sample = Sampler::new(params, 0).sample(&mut logits, &[], &[]).expect("finite");
    let TokenLogprobs { logprob, top } = sample.logprobs.expect("asked for");
    assert_eq!(sample.token, 0, "the bias decides");
    let close = |value: f32, probability: f32| (value - probability.ln()).abs() < 1e-5;
    assert!(close(logprob, 0.1), "{logprob}, without the bias");
    assert_eq!(top.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [3, 2]);
    assert!(close(top[0].1, 0.4) && close(top[1].1, 0.3), "{top:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Candidates are found by partial selection; the plain way is to sort the whole row.
    #[test]
    fn top_logprobs_are_the_head_of_the_sorted_row(
        row in prop::collection::vec((-20..20i32).prop_map(|logit| logit as f32 / 4.0), 1..600),
        count in 1..40usize,
    ) {
        let count = count.min(row.len());
        let params = SamplingParams { logprobs: Some(count), ..greedy() };
        let sample = Sampler::new(params, 0).sample(&mut row.clone(), &[], &[]).expect("finite");
        let mut ids: Vec<u32> = (0..row.len() as u32).collect();
        ids.sort_by(|a, b| row[*b as usize].total_cmp(&row[*a as usize]).then(a.cmp(b)));
        let top: Vec<u32> = sample.logprobs.expect("asked for").top.iter().map(|(id, _)| *id).collect();
        prop_assert_eq!(&top, &ids[..count]);
        prop_assert_eq!(sample.token, ids[0]);
    }
}

/// Smallest and largest token drawn from 2,000 tokens with logits of -id/1000: close to an exponential distribution cut
/// off at x = 2, so the sets follow from its integrals. They are far larger than what the sampler sorts at first.
fn drawn_range(params: SamplingParams) -> (u32, u32) {
    let logits: Vec<f32> = (0..2000).map(|id| -(id as f32) / 1000.0).collect();
    let draw = |index| {
        choose(SamplingParams { seed: Some(42), ..params.clone() }, &logits, &vec![0; index], 0).expect("finite")
    };
    let drawn: Vec<u32> = (0..2000).map(draw).collect();
    (*drawn.iter().min().expect("drawn"), *drawn.iter().max().expect("drawn"))
}

#[test]
fn a_flat_nucleus_is_complete() {
    // 1 - exp(-x) = 0.5 (1 - exp(-2)) at x = 0.566.
    let (first, last) = drawn_range(SamplingParams { top_p: 0.5, ..SamplingParams::default() });
    assert!(first == 0 && (560..=567).contains(&last), "tokens {first} to {last}");
}

#[test]
fn a_flat_typical_set_is_complete() {
    // The mean of x is 0.687, and half of the probability lies within 0.417 of it.
    let (first, last) = drawn_range(SamplingParams { typical_p: 0.5, ..SamplingParams::default() });
    assert!((268..=276).contains(&first) && (1096..=1106).contains(&last), "tokens {first} to {last}");
}

#[test]
fn parameters_outside_their_range_are_named() {
    let default = SamplingParams::default;
    let cases = [
        (SamplingParams { temperature: -0.1, ..default() }, "`temperature` is -0.1; it must be finite and at least 0"),
        (
            SamplingParams { temperature: f32::NAN, ..default() },
            "`temperature` is NaN; it must be finite and at least 0",
        ),
        (SamplingParams { top_p: 0.0, ..default() }, "`top_p` is 0; it must be above 0 and at most 1"),
        (SamplingParams { top_p: 1.5, ..default() }, "`top_p` is 1.5; it must be above 0 and at most 1"),
        (SamplingParams { typical_p: f32::NAN, ..default() }, "`typical_p` is NaN; it must be above 0 and at most 1"),
        (SamplingParams { min_p: 1.1, ..default() }, "`min_p` is 1.1; it must be from 0 to 1"),
        (
            SamplingParams { repetition_penalty: 0.0, ..default() },
            "`repetition_penalty` is 0; it must be from 0.01 to 100",
        ),
        (SamplingParams { frequency_penalty: 3.0, ..default() }, "`frequency_penalty` is 3; it must be from -2 to 2"),
        (SamplingParams { presence_penalty: -3.0, ..default() }, "`presence_penalty` is -3; it must be from -2 to 2"),
        (SamplingParams { repeat_last_n: -2, ..default() }, "`repeat_last_n` is -2; it must be at least -1"),
        (SamplingParams { max_tokens: Some(0), ..default() }, "`max_tokens` is 0; it must be at least 1"),
        (
            SamplingParams { max_tokens: Some(3), min_tokens: 4, ..default() },
            "`min_tokens` is 4; it must be at most `max_tokens`",
        ),
        (
            SamplingParams { logit_bias: vec![(10, 1.0)], ..default() },
            "`logit_bias` is 10; it must be below the vocabulary size 10",
        ),
        (
            SamplingParams { logit_bias: vec![(1, f32::INFINITY)], ..default() },
            "`logit_bias` is inf; it must be from -100 to 100, or -infinity to ban the token",
        ),
        (
            SamplingParams { stop_token_ids: vec![11], ..default() },
            "`stop_token_ids` is 11; it must be below the vocabulary size 10",
        ),
        (
            SamplingParams { logprobs: Some(11), ..default() },
            "`logprobs` is 11; it must be at most the vocabulary size 10",
        ),
    ];
    for (params, message) in cases {
        assert_eq!(params.validate(10).map_err(|error| error.to_string()), Err(message.to_string()));
    }
    assert_eq!(default().validate(10), Ok(()));
}

#[test]
fn later_layers_override_earlier_ones_field_by_field() {
    let generation_config = SamplingOverrides { temperature: Some(0.6), top_k: Some(20), ..Default::default() };
    let command_line = SamplingOverrides { top_k: Some(40), max_tokens: Some(100), ..Default::default() };
    let request = SamplingOverrides { temperature: Some(0.0), seed: Some(3), ..Default::default() };
    let params = SamplingOverrides::resolve(&[generation_config, command_line, request]);
    let expected = SamplingParams {
        temperature: 0.0,
        top_k: 40,
        max_tokens: Some(100),
        seed: Some(3),
        ..SamplingParams::default()
    };
    assert_eq!(params, expected);
}
