//! DRY, "don't repeat yourself": makes a token less likely the longer a repetition it would go on with.
//!
//! By p-e-w (text-generation-webui, pull request 5677, 2024), with the breakers of pi6am (koboldcpp, pull request 982) as
//! llama.cpp has them. Where the last `n` tokens occurred before, the token that followed them there loses
//! `multiplier * base ^ (n - allowed_length)` of its logit. A repetition is not looked for across a sequence breaker, such
//! as a line's end, and a breaker itself is never punished: else the form of a list or of a dialogue would be, too.

use std::collections::{BTreeMap, HashMap};

use super::params::SamplingParams;

/// Token sequences that end a repetition, by their first token: what may follow it, most often nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SequenceBreakers(BTreeMap<u32, Vec<Vec<u32>>>);

impl SequenceBreakers {
    /// The breakers that begin with the first token and go on with the others.
    pub fn new(sequences: impl IntoIterator<Item = (u32, Vec<u32>)>) -> Self {
        let mut tails: BTreeMap<u32, Vec<Vec<u32>>> = BTreeMap::new();
        for (head, tail) in sequences {
            let tails = tails.entry(head).or_default();
            if !tails.contains(&tail) {
                tails.push(tail);
            }
        }
        Self(tails)
    }

    /// Tokens behind the last breaker in `tokens`; all of them if there is none.
    fn num_tokens_behind(&self, tokens: &[u32]) -> usize {
        for (position, token) in tokens.iter().enumerate().rev() {
            let Some(tails) = self.0.get(token) else { continue };
            let rest = &tokens[position + 1..];
            let matching = tails.iter().filter(|tail| rest.starts_with(tail)).map(Vec::len);
            // The longest, where one breaker begins with another.
            if let Some(len) = matching.max() {
                return rest.len() - len;
            }
        }
        tokens.len()
    }

    fn is_breaker(&self, token: u32) -> bool {
        self.0.get(&token).is_some_and(|tails| tails.iter().any(Vec::is_empty))
    }
}

/// What DRY takes off the logits, for the sequence so far.
#[derive(Debug, Default)]
pub(super) struct Dry {
    /// Scratch space, kept from token to token.
    matches: Vec<usize>,
    amounts: HashMap<u32, f32>,
}

impl Dry {
    /// By token what its logit loses if it follows `tokens`: a function of these and the parameters alone.
    pub(super) fn amounts(&mut self, params: &SamplingParams, tokens: &[u32]) -> &HashMap<u32, f32> {
        self.amounts.clear();
        let window = usize::try_from(params.dry_penalty_last_n).unwrap_or(usize::MAX);
        let tokens = &tokens[tokens.len().saturating_sub(window)..];
        let allowed = params.dry_allowed_length;
        let limit = params.dry_sequence_breakers.num_tokens_behind(tokens);
        if tokens.len() <= allowed || limit < allowed {
            return &self.amounts;
        }
        suffix_matches(tokens, &mut self.matches);
        for (back, len) in self.matches.iter().enumerate().skip(1) {
            let len = (*len).min(limit);
            let next = tokens[tokens.len() - back];
            if len >= allowed && !params.dry_sequence_breakers.is_breaker(next) {
                let amount = amount(params, len - allowed);
                // Of several places, that of the longest match counts.
                let most = self.amounts.entry(next).or_insert(amount);
                *most = most.max(amount);
            }
        }
        &self.amounts
    }
}

/// What a repetition costs that is `excess` tokens longer than allowed; finite, however long that is.
fn amount(params: &SamplingParams, excess: usize) -> f32 {
    let amount = f64::from(params.dry_multiplier) * f64::from(params.dry_base).powf(excess as f64);
    amount.min(f64::from(f32::MAX) / 4.0) as f32
}

/// For every `back` from 1 on, how many of the last tokens equal those that end `back` tokens earlier: the Z-function of
/// the reversed sequence (Gusfield, "Algorithms on Strings, Trees and Sequences", 1997), in linear time.
fn suffix_matches(tokens: &[u32], matches: &mut Vec<usize>) {
    let count = tokens.len();
    let from_end = |index: usize| tokens[count - 1 - index];
    matches.clear();
    matches.resize(count, 0);
    // The match that reaches furthest so far: it begins at `left` and ends before `right`.
    let (mut left, mut right) = (0, 0);
    for back in 1..count {
        let known = if back < right { matches[back - left].min(right - back) } else { 0 };
        let mut len = known;
        while back + len < count && from_end(len) == from_end(back + len) {
            len += 1;
        }
        matches[back] = len;
        if back + len > right {
            (left, right) = (back, back + len);
        }
    }
}
