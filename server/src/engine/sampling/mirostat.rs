//! Mirostat: keeps the surprise of an answer near a target, by a threshold that follows what was chosen.
//!
//! Basu, Ramachandran, Keskar and Varshney, "Mirostat: A neural text decoding algorithm that directly controls
//! perplexity" (ICLR 2021). Version 1 estimates from the head of the distribution how many tokens have less surprise than
//! the threshold; version 2 compares each token's own. Surprise is in bits, and that of a chosen token is taken among
//! those that were kept, as llama.cpp does.

use super::candidates::{self, Candidate};
use super::params::SamplingParams;

/// The most likely tokens from which version 1 estimates the exponent of Zipf's law.
const HEAD: usize = 100;

/// The state of a request: it moves with each chosen token, so it is a function of the seed and the sequence.
#[derive(Debug)]
pub(super) struct Mirostat {
    version: u8,
    temperature: f32,
    /// The surprise that is aimed at.
    tau: f64,
    /// How fast the threshold follows.
    eta: f64,
    /// The threshold.
    mu: f64,
}

impl Mirostat {
    /// `None` for a request without it.
    pub(super) fn new(params: &SamplingParams) -> Option<Self> {
        let (tau, eta) = (f64::from(params.mirostat_tau), f64::from(params.mirostat_eta));
        let (version, temperature) = (params.mirostat, params.temperature);
        (version > 0).then_some(Self { version, temperature, tau, eta, mu: 2.0 * tau })
    }

    /// The token at `uniform` of those that the threshold keeps. The threshold takes it in.
    pub(super) fn choose(&mut self, row: &[f32], max: f32, uniform: f64) -> u32 {
        let kept = if self.version == 1 { self.zipf_head(row) } else { self.below_threshold(row, max) };
        let (token, surprise) = candidates::draw_with_surprise(&kept, self.temperature, uniform);
        self.mu -= self.eta * (surprise - self.tau);
        token
    }

    /// As many of the most likely tokens as Zipf's law gives a surprise below the threshold.
    fn zipf_head(&self, row: &[f32]) -> Vec<Candidate> {
        let mut head = candidates::top_k(row, HEAD);
        let exponent = zipf_exponent(&head, self.temperature);
        let excess = exponent - 1.0;
        let count = (excess * self.mu.exp2() / (1.0 - (row.len() as f64).powf(-excess))).powf(1.0 / exponent);
        // A cast takes what is not a number for 0, and what is too large for the largest.
        let count = (count as usize).clamp(1, row.len());
        if count > HEAD {
            return candidates::top_k(row, count);
        }
        head.truncate(count);
        head
    }

    /// The tokens whose surprise is not above the threshold; the most likely one if there is none.
    fn below_threshold(&self, row: &[f32], max: f32) -> Vec<Candidate> {
        let kept = candidates::with_surprise_at_most(row, max, self.temperature, self.mu);
        if kept.is_empty() { candidates::top_k(row, 1) } else { kept }
    }
}

/// The exponent `s` of Zipf's law, by which the `i`-th most likely token has a probability proportional to `i^-s`: a least
/// squares fit to the ratios of neighbours, most likely first.
fn zipf_exponent(head: &[Candidate], temperature: f32) -> f64 {
    let (mut products, mut squares) = (0.0, 0.0);
    for (rank, pair) in (1..).zip(head.windows(2)) {
        let of_ranks = (f64::from(rank + 1) / f64::from(rank)).ln();
        products += of_ranks * f64::from((pair[0].logit - pair[1].logit) / temperature);
        squares += of_ranks * of_ranks;
    }
    products / squares
}
