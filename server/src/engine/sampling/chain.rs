//! The samplers of one request in their order, and the choice among what they leave.
//!
//! Samplers without effect at the request's parameters are left out once, when the chain is made. Penalties and DRY look
//! at few tokens, so those that stand first change the row in place; from the first sampler that looks at all tokens on,
//! there is a list of candidates. llama.cpp's order has this shape: penalties, DRY, top_n_sigma, top_k, typical_p, top_p,
//! min_p, XTC, temperature.
//!
//! At temperature 0 the penalties and DRY that come before it are applied, and the largest logit wins: samplers that cut
//! have no say. Mirostat takes the place of the chain, as in llama.cpp.

use std::collections::HashMap;

use super::candidates::{self, Candidate};
use super::dry::Dry;
use super::mirostat::Mirostat;
use super::order::SamplerKind;
use super::params::SamplingParams;
use super::philox::{Purpose, uniform};
use super::recent::RecentTokens;

/// What a token's random numbers depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) seed: u64,
    /// Of the token in the output.
    pub(super) index: u64,
}

impl Place {
    fn uniform(self, purpose: Purpose) -> f64 {
        uniform(self.seed, self.index, purpose)
    }
}

/// A request's samplers and their states. What they do is a function of parameters, seed and sequence.
#[derive(Debug)]
pub(super) struct Chain {
    /// Change the row in place.
    on_row: Vec<SamplerKind>,
    /// Work on a list of candidates.
    on_candidates: Vec<SamplerKind>,
    choice: Choice,
    /// What `repetition_penalty` looks at.
    recent: RecentTokens,
    /// What the frequency and presence penalties look at.
    output: RecentTokens,
    dry: Dry,
}

/// How a token is chosen in the end.
#[derive(Debug)]
enum Choice {
    /// The largest logit, the lowest id among equals.
    Greedy,
    /// Drawn at this temperature.
    Draw {
        temperature: f32,
    },
    Mirostat(Mirostat),
}

impl Chain {
    /// The chain of a sequence whose output begins at `prompt_len`. Expects valid parameters.
    pub(super) fn new(params: &SamplingParams, prompt_len: usize) -> Self {
        let (steps, choice) = plan(params);
        let num_on_row = steps.iter().take_while(|kind| is_sparse(**kind)).count();
        let (on_row, on_candidates) = steps.split_at(num_on_row);
        let width = usize::try_from(params.repeat_last_n).unwrap_or(usize::MAX);
        Self {
            on_row: on_row.to_vec(),
            on_candidates: on_candidates.to_vec(),
            choice,
            recent: RecentTokens::new(0, width),
            output: RecentTokens::new(prompt_len, usize::MAX),
            dry: Dry::default(),
        }
    }

    /// Applies what comes first and changes few logits. `[vocab_size]`
    pub(super) fn adjust(&mut self, params: &SamplingParams, row: &mut [f32], tokens: &[u32]) {
        for index in 0..self.on_row.len() {
            self.penalise(self.on_row[index], params, &mut Logits::Row(row), tokens);
        }
    }

    /// Applies the rest to an adjusted row whose largest logit is `max`, and chooses. `row` is scratch space afterwards.
    pub(super) fn choose(
        &mut self,
        params: &SamplingParams,
        row: &mut [f32],
        max: f32,
        tokens: &[u32],
        place: Place,
    ) -> u32 {
        let temperature = match &mut self.choice {
            Choice::Greedy => return row.iter().position(|logit| *logit == max).expect("max is one of the row") as u32,
            Choice::Mirostat(mirostat) => return mirostat.choose(row, max, place.uniform(Purpose::Token)),
            Choice::Draw { temperature } => *temperature,
        };
        let uniform = place.uniform(Purpose::Token);
        let Some(first) = self.on_candidates.first() else {
            return candidates::draw_from_row(row, max, temperature, uniform);
        };
        // What these keep can be found without a list of all tokens.
        let (mut candidates, done) = match first {
            SamplerKind::TopK => (candidates::top_k(row, params.top_k), 1),
            SamplerKind::TopP => (candidates::nucleus(row, max, params.top_p, params.min_keep), 1),
            _ => (candidates::all(row), 0),
        };
        for index in done..self.on_candidates.len() {
            self.apply(self.on_candidates[index], params, &mut candidates, tokens, place);
        }
        candidates::draw(&candidates, temperature, uniform)
    }

    /// At least one candidate is left.
    fn apply(
        &mut self,
        kind: SamplerKind,
        params: &SamplingParams,
        candidates: &mut Vec<Candidate>,
        tokens: &[u32],
        place: Place,
    ) {
        match kind {
            SamplerKind::Penalties | SamplerKind::Dry => {
                self.penalise(kind, params, &mut Logits::Candidates(candidates), tokens);
            }
            SamplerKind::TopNSigma => candidates::top_n_sigma(candidates, params.top_n_sigma),
            SamplerKind::TopK => candidates::keep_top_k(candidates, params.top_k),
            SamplerKind::TypicalP => candidates::typical_p(candidates, params.typical_p, params.min_keep),
            SamplerKind::TopP => candidates::top_p(candidates, params.top_p, params.min_keep),
            SamplerKind::MinP => candidates::min_p(candidates, params.min_p, params.min_keep),
            SamplerKind::Xtc => {
                if place.uniform(Purpose::Xtc) <= f64::from(params.xtc_probability) {
                    candidates::exclude_top_choices(candidates, params.xtc_threshold, params.min_keep);
                }
            }
            SamplerKind::Temperature => candidates::scale(candidates, temperature(params, candidates)),
        }
    }

    fn penalise(&mut self, kind: SamplerKind, params: &SamplingParams, logits: &mut Logits, tokens: &[u32]) {
        if kind == SamplerKind::Dry {
            return logits.change(self.dry.amounts(params, tokens), |logit, amount| logit - amount);
        }
        let repetition = params.repetition_penalty;
        if repetition != 1.0 {
            logits.change(self.recent.advance(tokens), |logit, _| {
                if logit > 0.0 { logit / repetition } else { logit * repetition }
            });
        }
        let (frequency, presence) = (params.frequency_penalty, params.presence_penalty);
        if frequency != 0.0 || presence != 0.0 {
            logits.change(self.output.advance(tokens), |logit, count| logit - (*count as f32 * frequency + presence));
        }
    }
}

/// The samplers that have an effect, in order, without what is part of the choice.
fn plan(params: &SamplingParams) -> (Vec<SamplerKind>, Choice) {
    let mut steps = params.samplers.clone();
    let temperature = steps.iter().position(|kind| *kind == SamplerKind::Temperature);
    // Mirostat has its temperature wherever the chain has it, or does not.
    let temperature = temperature.or((params.mirostat > 0).then_some(steps.len()));
    if let Some(position) = temperature.filter(|_| params.temperature == 0.0) {
        steps.truncate(position);
        steps.retain(|kind| is_sparse(*kind) && has_effect(*kind, params));
        return (steps, Choice::Greedy);
    }
    if params.temperature > 0.0
        && let Some(mirostat) = Mirostat::new(params)
    {
        return (Vec::new(), Choice::Mirostat(mirostat));
    }
    steps.retain(|kind| has_effect(*kind, params));
    // A fixed temperature at the end is applied as the weights are computed.
    let is_last = steps.last() == Some(&SamplerKind::Temperature) && params.dynatemp_range == 0.0;
    if is_last {
        steps.pop();
    }
    (steps, Choice::Draw { temperature: if is_last { params.temperature } else { 1.0 } })
}

/// Whether a sampler changes the logits of some tokens only.
fn is_sparse(kind: SamplerKind) -> bool {
    matches!(kind, SamplerKind::Penalties | SamplerKind::Dry)
}

/// Whether a sampler changes anything at these parameters.
fn has_effect(kind: SamplerKind, params: &SamplingParams) -> bool {
    match kind {
        SamplerKind::Penalties => {
            params.repetition_penalty != 1.0 || params.frequency_penalty != 0.0 || params.presence_penalty != 0.0
        }
        SamplerKind::Dry => params.dry_multiplier > 0.0 && params.dry_penalty_last_n != 0,
        SamplerKind::TopNSigma => params.top_n_sigma > 0.0,
        SamplerKind::TopK => params.top_k > 0,
        SamplerKind::TypicalP => params.typical_p < 1.0,
        SamplerKind::TopP => params.top_p < 1.0,
        SamplerKind::MinP => params.min_p > 0.0,
        SamplerKind::Xtc => params.xtc_probability > 0.0 && params.xtc_threshold <= 0.5,
        SamplerKind::Temperature => params.temperature != 1.0 || params.dynatemp_range > 0.0,
    }
}

/// The temperature for these candidates.
fn temperature(params: &SamplingParams, candidates: &[Candidate]) -> f32 {
    let SamplingParams { temperature, dynatemp_range, dynatemp_exponent, .. } = *params;
    if dynatemp_range == 0.0 {
        return temperature;
    }
    let (low, high) = ((temperature - dynatemp_range).max(0.0), temperature + dynatemp_range);
    // A single candidate has no entropy, and no temperature changes that it is chosen.
    let entropy = candidates::normalised_entropy(candidates).unwrap_or_default();
    low + (high - low) * entropy.powf(f64::from(dynatemp_exponent)) as f32
}

/// Logits of all tokens, by id, or of those that are left.
enum Logits<'a> {
    Row(&'a mut [f32]),
    Candidates(&'a mut [Candidate]),
}

impl Logits<'_> {
    /// Changes the logits of the tokens in `of`.
    fn change<T>(&mut self, of: &HashMap<u32, T>, change: impl Fn(f32, &T) -> f32) {
        match self {
            Self::Row(row) => {
                for (id, value) in of {
                    row[*id as usize] = change(row[*id as usize], value);
                }
            }
            Self::Candidates(candidates) => {
                for candidate in candidates.iter_mut() {
                    if let Some(value) = of.get(&candidate.id) {
                        candidate.logit = change(candidate.logit, value);
                    }
                }
            }
        }
    }
}
