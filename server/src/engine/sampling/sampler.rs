//! Chooses one token from a row of logits, as the request's parameters say.
//!
//! The order is llama.cpp's: bias, penalties, top_k, typical_p, top_p, min_p, temperature. What a request does not use
//! costs nothing: a greedy one is a single look for the largest logit.

use super::candidates::{self, Candidate};
use super::params::SamplingParams;
use super::philox::{random_seed, uniform};
use super::recent::RecentTokens;
use crate::engine::constraint::{Constraint, ConstraintError};

/// The sampler of one request. Its choices depend on the parameters, the sequence and the logits, and on nothing else.
#[derive(Debug)]
pub struct Sampler {
    params: SamplingParams,
    seed: u64,
    prompt_len: usize,
    /// What `repetition_penalty` looks at.
    recent: RecentTokens,
    /// What the frequency and presence penalties look at.
    output: RecentTokens,
    constraint: Option<Box<dyn Constraint>>,
}

/// A chosen token.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub token: u32,
    pub logprobs: Option<TokenLogprobs>,
}

/// Log probabilities under the model's own distribution: before bias, penalties, truncation and temperature.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprobs {
    /// That of the token itself.
    pub logprob: f32,
    /// The most likely tokens and theirs, most likely first.
    pub top: Vec<(u32, f32)>,
}

/// Why no token could be chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    #[error("the model's logits contain NaN or infinity; its weights or its input are damaged")]
    NotFinite,
    #[error(
        "no token is left to sample: all have been banned, by `logit_bias`, `min_tokens`, the grammar or the model itself"
    )]
    NothingLeft,
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
}

impl Sampler {
    /// A sampler for a sequence whose output begins at `prompt_len`. Expects valid parameters.
    pub fn new(params: SamplingParams, prompt_len: usize) -> Self {
        let seed = params.seed.unwrap_or_else(random_seed);
        let width = usize::try_from(params.repeat_last_n).unwrap_or(usize::MAX);
        let (recent, output) = (RecentTokens::new(0, width), RecentTokens::new(prompt_len, usize::MAX));
        Self { params, seed, prompt_len, recent, output, constraint: None }
    }

    /// The same sampler, for tokens that must follow `constraint`.
    pub fn constrained(self, constraint: Option<Box<dyn Constraint>>) -> Self {
        Self { constraint, ..self }
    }

    /// The seed in use: the request's own, or the one drawn for it.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Log probabilities of a prompt's `token`, as the logits before it give them. `[vocab_size]`
    pub fn score(&self, row: &[f32], token: u32) -> Result<TokenLogprobs, SampleError> {
        max_of(row)?;
        Ok(TokenLogprobs::new(row, token, self.params.prompt_logprobs.unwrap_or(0)))
    }

    /// Chooses the token that follows `tokens` (prompt and output). `row` is scratch space afterwards. `[vocab_size]`
    /// `banned` tokens are not chosen.
    pub fn sample(&mut self, row: &mut [f32], tokens: &[u32], banned: &[u32]) -> Result<Sample, SampleError> {
        let raw = self.params.logprobs.map(|count| (count, row.to_vec()));
        if let Some(constraint) = &mut self.constraint {
            constraint.mask(row)?;
        }
        self.adjust(row, tokens, banned);
        let max = max_of(row)?;
        let token = if self.params.temperature == 0.0 {
            row.iter().position(|logit| *logit == max).expect("max is one of the row") as u32
        } else {
            self.draw(row, max, uniform(self.seed, (tokens.len() - self.prompt_len) as u64))
        };
        if let Some(constraint) = &mut self.constraint {
            constraint.accept(token)?;
        }
        Ok(Sample { token, logprobs: raw.map(|(count, raw)| TokenLogprobs::new(&raw, token, count)) })
    }

    /// Whether the constraint allows nothing more.
    pub fn is_complete(&self) -> bool {
        self.constraint.as_ref().is_some_and(|constraint| constraint.is_complete())
    }

    /// Tokens that the constraint leaves no choice about, taken in as if they had been sampled. None for a request that
    /// wants log probabilities, since only the model knows them.
    pub fn forced(&mut self) -> Vec<u32> {
        let constraint = self.constraint.as_mut().filter(|_| self.params.logprobs.is_none());
        constraint.map(|constraint| constraint.forced()).unwrap_or_default()
    }

    /// Applies bias, bans and penalties. Adds rather than assigns, so that a NaN remains one and is found.
    fn adjust(&mut self, row: &mut [f32], tokens: &[u32], banned: &[u32]) {
        for (id, bias) in &self.params.logit_bias {
            row[*id as usize] += bias;
        }
        for id in banned {
            row[*id as usize] += f32::NEG_INFINITY;
        }
        let repetition = self.params.repetition_penalty;
        if repetition != 1.0 {
            for id in self.recent.advance(tokens).keys() {
                let logit = &mut row[*id as usize];
                *logit = if *logit > 0.0 { *logit / repetition } else { *logit * repetition };
            }
        }
        let (frequency, presence) = (self.params.frequency_penalty, self.params.presence_penalty);
        if frequency != 0.0 || presence != 0.0 {
            for (id, count) in self.output.advance(tokens) {
                row[*id as usize] -= *count as f32 * frequency + presence;
            }
        }
    }

    fn draw(&self, row: &mut [f32], max: f32, uniform: f64) -> u32 {
        let SamplingParams { temperature, top_k, top_p, min_p, typical_p, .. } = self.params;
        if top_k == 0 && typical_p == 1.0 && top_p == 1.0 && min_p == 0.0 {
            return candidates::draw_from_row(row, max, temperature, uniform);
        }
        let mut candidates: Vec<Candidate> = if top_k > 0 {
            candidates::top_k(row, top_k)
        } else if typical_p == 1.0 && top_p < 1.0 {
            candidates::nucleus(row, max, top_p)
        } else {
            candidates::all(row)
        };
        if typical_p < 1.0 {
            candidates::typical_p(&mut candidates, typical_p);
        }
        // `nucleus` has done this already where it is the first rule to apply.
        if top_p < 1.0 && (top_k > 0 || typical_p < 1.0) {
            candidates::top_p(&mut candidates, top_p);
        }
        if min_p > 0.0 {
            candidates::min_p(&mut candidates, min_p);
        }
        candidates::draw(&candidates, temperature, uniform)
    }
}

impl TokenLogprobs {
    fn new(row: &[f32], token: u32, count: usize) -> Self {
        let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = row.iter().map(|logit| f64::from((logit - max).exp())).sum();
        let logprob = |logit: f32| (f64::from(logit - max) - sum.ln()) as f32;
        let top = if count == 0 { Vec::new() } else { candidates::top_k(row, count) };
        Self {
            logprob: logprob(row[token as usize]),
            top: top.into_iter().map(|candidate| (candidate.id, logprob(candidate.logit))).collect(),
        }
    }
}

/// The largest logit. Negative infinity is a logit like any other (an impossible token); NaN and infinity are errors.
fn max_of(row: &[f32]) -> Result<f32, SampleError> {
    // Independent lanes, which the compiler keeps in vector registers: one running maximum would be a chain of waits.
    let mut lanes = [(f32::NEG_INFINITY, true); 16];
    let (chunks, rest) = row.as_chunks::<16>();
    for chunk in chunks.iter().map(<[f32; 16]>::as_slice).chain([rest]) {
        for ((max, finite), logit) in lanes.iter_mut().zip(chunk) {
            *max = if *logit > *max { *logit } else { *max };
            // False for NaN as well.
            *finite &= *logit < f32::INFINITY;
        }
    }
    if !lanes.iter().all(|(_, finite)| *finite) {
        return Err(SampleError::NotFinite);
    }
    let max = lanes.iter().map(|(max, _)| *max).fold(f32::NEG_INFINITY, f32::max);
    if max == f32::NEG_INFINITY { Err(SampleError::NothingLeft) } else { Ok(max) }
}
