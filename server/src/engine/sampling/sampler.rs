//! Chooses one token from a row of logits, as the request's parameters say.
//!
//! First the constraint, biases and bans, then the request's chain of samplers (`chain.rs`), then a draw from what is left.
//! What a request does not use costs nothing: a greedy one is a single look for the largest logit.

use super::candidates;
use super::chain::{Chain, Place};
use super::params::SamplingParams;
use super::philox::random_seed;
use crate::engine::constraint::{Constraint, ConstraintError};

/// The sampler of one request. Its choices depend on the parameters, the sequence and the logits, and on nothing else.
#[derive(Debug)]
pub struct Sampler {
    params: SamplingParams,
    seed: u64,
    prompt_len: usize,
    chain: Chain,
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
        let chain = Chain::new(&params, prompt_len);
        Self { params, seed, prompt_len, chain, constraint: None }
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
    /// `banned` tokens are not chosen. The token counts as accepted: constraint and Mirostat have taken it in.
    pub fn sample(&mut self, row: &mut [f32], tokens: &[u32], banned: &[u32]) -> Result<Sample, SampleError> {
        let raw = self.params.logprobs.map(|count| (count, row.to_vec()));
        if let Some(constraint) = &mut self.constraint {
            constraint.mask(row)?;
        }
        self.bias(row, banned);
        let place = Place { seed: self.seed, index: (tokens.len() - self.prompt_len) as u64 };
        self.chain.adjust(&self.params, row, tokens);
        let max = max_of(row)?;
        let token = self.chain.choose(&self.params, row, max, tokens, place);
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

    /// Adds rather than assigns, so that a NaN remains one and is found.
    fn bias(&self, row: &mut [f32], banned: &[u32]) {
        for (id, bias) in &self.params.logit_bias {
            row[*id as usize] += bias;
        }
        for id in banned {
            row[*id as usize] += f32::NEG_INFINITY;
        }
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
