//! The tokens that can still be sampled, and the rules that drop some of them.
//!
//! A vocabulary has up to 262,144 entries and a request mostly wants a few dozen of them, so nothing here sorts more
//! than it keeps. Order is by logit, the lower id first among equals: the result never depends on how it was found.
//! `least` candidates are kept in any case, if there are so many.

use std::cmp::Ordering;

/// How many candidates are sorted at first, and by what factor that grows while they hold too little probability.
const FIRST_HEAD: usize = 128;
const HEAD_GROWTH: usize = 8;

/// A token and its logit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub(super) id: u32,
    pub(super) logit: f32,
}

/// Most likely first.
fn by_logit(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.total_cmp(&a.logit).then(a.id.cmp(&b.id))
}

/// All tokens that are not impossible, by id.
pub(super) fn all(row: &[f32]) -> Vec<Candidate> {
    let candidates = (0..).zip(row).map(|(id, logit)| Candidate { id, logit: *logit });
    candidates.filter(|candidate| candidate.logit > f32::NEG_INFINITY).collect()
}

/// The `k` most likely tokens, most likely first; fewer if the rest are impossible. `k` is at least 1.
///
/// One pass over the row: it collects what beats the k-th best so far, and cuts the collection back when it has doubled.
pub(super) fn top_k(row: &[f32], k: usize) -> Vec<Candidate> {
    let k = k.min(row.len());
    let mut best = Vec::with_capacity(2 * k);
    let mut threshold = f32::NEG_INFINITY;
    for (id, logit) in (0..).zip(row) {
        if *logit > threshold {
            best.push(Candidate { id, logit: *logit });
            if best.len() == 2 * k {
                let (_, kth, _) = best.select_nth_unstable_by(k - 1, by_logit);
                threshold = kth.logit;
                best.truncate(k);
            }
        }
    }
    best.sort_unstable_by(by_logit);
    best.truncate(k);
    best
}

/// The most likely tokens of `row` that together hold `p` of its probability, most likely first. Looks at growing heads
/// of the row, because a model is mostly sure enough that a short one will do.
pub(super) fn nucleus(row: &[f32], max: f32, p: f32, least: usize) -> Vec<Candidate> {
    let mass: f64 = row.iter().map(|logit| weight(*logit, max, 1.0)).sum();
    let mut head = FIRST_HEAD.max(least);
    loop {
        let mut candidates = top_k(row, head);
        let reached = prefix_holding(&candidates, max, f64::from(p) * mass);
        if reached.is_some() || head >= row.len() {
            candidates.truncate(reached.unwrap_or(candidates.len()).max(least));
            return candidates;
        }
        head *= HEAD_GROWTH;
    }
}

/// Keeps the most likely of `candidates` that together hold `p` of their probability.
pub(super) fn top_p(candidates: &mut Vec<Candidate>, p: f32, least: usize) {
    let max = max_logit(candidates);
    let mass = mass(candidates, max);
    keep_mass(candidates, by_logit, max, f64::from(p) * mass, least);
}

/// Keeps the candidates whose surprise is closest to the expected surprise and that together hold `p` of the probability.
pub(super) fn typical_p(candidates: &mut Vec<Candidate>, p: f32, least: usize) {
    let max = max_logit(candidates);
    let mass = mass(candidates, max);
    let surprise = |logit: f32| mass.ln() - f64::from(logit - max);
    let entropy: f64 =
        candidates.iter().map(|candidate| weight(candidate.logit, max, 1.0) / mass * surprise(candidate.logit)).sum();
    let distance = |candidate: &Candidate| (surprise(candidate.logit) - entropy).abs();
    let by_distance = |a: &Candidate, b: &Candidate| distance(a).total_cmp(&distance(b)).then(a.id.cmp(&b.id));
    keep_mass(candidates, by_distance, max, f64::from(p) * mass, least);
}

/// Keeps the candidates at least `p` times as likely as the most likely one.
pub(super) fn min_p(candidates: &mut Vec<Candidate>, p: f32, least: usize) {
    let threshold = max_logit(candidates) + p.ln();
    let is_kept = |candidate: &Candidate| candidate.logit >= threshold;
    if candidates.iter().filter(|candidate| is_kept(candidate)).count() < least {
        return keep_top_k(candidates, least);
    }
    candidates.retain(is_kept);
}

/// Keeps the `k` most likely of `candidates`.
pub(super) fn keep_top_k(candidates: &mut Vec<Candidate>, k: usize) {
    if k < candidates.len() {
        candidates.select_nth_unstable_by(k, by_logit);
        candidates.truncate(k);
    }
}

/// Keeps the candidates whose logit is at most `n` standard deviations of all of them below the largest.
pub(super) fn top_n_sigma(candidates: &mut Vec<Candidate>, n: f32) {
    let count = candidates.len() as f64;
    let logits = || candidates.iter().map(|candidate| f64::from(candidate.logit));
    let mean = logits().sum::<f64>() / count;
    let variance = logits().map(|logit| (logit - mean).powi(2)).sum::<f64>() / count;
    let threshold = f64::from(max_logit(candidates)) - f64::from(n) * variance.sqrt();
    candidates.retain(|candidate| f64::from(candidate.logit) >= threshold);
}

/// Of the candidates that are at least `threshold` probable, keeps the least likely one; the others stay. All do, if fewer than
/// `least` would.
pub(super) fn exclude_top_choices(candidates: &mut Vec<Candidate>, threshold: f32, least: usize) {
    let max = max_logit(candidates);
    let lowest = f64::from(threshold) * mass(candidates, max);
    let is_top = |candidate: &Candidate| weight(candidate.logit, max, 1.0) >= lowest;
    let num_dropped = candidates.iter().filter(|candidate| is_top(candidate)).count().saturating_sub(1);
    if candidates.len() - num_dropped < least {
        return;
    }
    if let Some(last) = candidates.iter().copied().filter(is_top).max_by(by_logit) {
        candidates.retain(|candidate| *candidate == last || !is_top(candidate));
    }
}

/// The entropy of the candidates as a share of what it would be if all were equally likely; `None` for a single one.
pub(super) fn normalised_entropy(candidates: &[Candidate]) -> Option<f64> {
    let max = max_logit(candidates);
    let mass = mass(candidates, max);
    let shares = candidates.iter().map(|candidate| weight(candidate.logit, max, 1.0) / mass);
    let entropy: f64 = shares.filter(|share| *share > 0.0).map(|share| -share * share.ln()).sum();
    (candidates.len() > 1).then(|| entropy / (candidates.len() as f64).ln())
}

/// Divides the logits by `temperature`; 0 keeps the most likely candidate alone.
pub(super) fn scale(candidates: &mut Vec<Candidate>, temperature: f32) {
    if temperature == 0.0 {
        return keep_top_k(candidates, 1);
    }
    for candidate in candidates {
        // A tiny temperature must not make infinities, whose differences are no numbers.
        candidate.logit = (candidate.logit / temperature).clamp(f32::MIN, f32::MAX);
    }
}

/// The tokens whose surprise at `temperature` is at most `bits`, by id.
pub(super) fn with_surprise_at_most(row: &[f32], max: f32, temperature: f32, bits: f64) -> Vec<Candidate> {
    let mass: f64 = row.iter().map(|logit| weight(*logit, max, temperature)).sum();
    let least = mass * (-bits).exp2();
    let mut candidates = all(row);
    candidates.retain(|candidate| weight(candidate.logit, max, temperature) >= least);
    candidates
}

/// Keeps, in `order`, the first candidates that together hold `mass`; sorts growing heads until one holds it.
fn keep_mass(
    candidates: &mut Vec<Candidate>,
    order: impl Fn(&Candidate, &Candidate) -> Ordering,
    max: f32,
    mass: f64,
    least: usize,
) {
    let mut head = FIRST_HEAD.max(least);
    while head < candidates.len() {
        let (first, ..) = candidates.select_nth_unstable_by(head, &order);
        first.sort_unstable_by(&order);
        if let Some(count) = prefix_holding(first, max, mass) {
            return candidates.truncate(count.max(least));
        }
        head *= HEAD_GROWTH;
    }
    candidates.sort_unstable_by(&order);
    let count = prefix_holding(candidates, max, mass).unwrap_or(candidates.len());
    candidates.truncate(count.max(least));
}

/// Number of candidates, from the first, that together hold `mass`; `None` if all together hold less.
fn prefix_holding(candidates: &[Candidate], max: f32, mass: f64) -> Option<usize> {
    let mut held = 0.0;
    let last = candidates.iter().position(|candidate| {
        held += weight(candidate.logit, max, 1.0);
        held >= mass
    })?;
    Some(last + 1)
}

/// The candidate at `uniform` (in `[0, 1)`) of the distribution that their logits give at `temperature`.
pub(super) fn draw(candidates: &[Candidate], temperature: f32, uniform: f64) -> u32 {
    let max = max_logit(candidates);
    let weights = candidates.iter().map(|candidate| weight(candidate.logit, max, temperature));
    candidates[position(weights, uniform)].id
}

/// The same with the surprise of the token, in bits, among the candidates.
pub(super) fn draw_with_surprise(candidates: &[Candidate], temperature: f32, uniform: f64) -> (u32, f64) {
    let max = max_logit(candidates);
    let weights = candidates.iter().map(|candidate| weight(candidate.logit, max, temperature));
    let drawn = candidates[position(weights.clone(), uniform)];
    let share = weight(drawn.logit, max, temperature) / weights.sum::<f64>();
    (drawn.id, -share.log2())
}

/// The same over a whole row, which is overwritten with the weights so that none is computed twice.
pub(super) fn draw_from_row(row: &mut [f32], max: f32, temperature: f32, uniform: f64) -> u32 {
    row.iter_mut().for_each(|logit| *logit = weight(*logit, max, temperature) as f32);
    position(row.iter().map(|weight| f64::from(*weight)), uniform) as u32
}

/// Index of the weight that covers `uniform` of the sum.
fn position(weights: impl Iterator<Item = f64> + Clone, uniform: f64) -> usize {
    let mut rest = uniform * weights.clone().sum::<f64>();
    let mut last = 0;
    for (index, weight) in weights.enumerate().filter(|(_, weight)| *weight > 0.0) {
        last = index;
        rest -= weight;
        if rest < 0.0 {
            break;
        }
    }
    // Rounding can leave a little rest behind the last weight that counts.
    last
}

/// Probability of a logit relative to that of `max`.
fn weight(logit: f32, max: f32, temperature: f32) -> f64 {
    f64::from(((logit - max) / temperature).exp())
}

fn mass(candidates: &[Candidate], max: f32) -> f64 {
    candidates.iter().map(|candidate| weight(candidate.logit, max, 1.0)).sum()
}

fn max_logit(candidates: &[Candidate]) -> f32 {
    candidates.iter().map(|candidate| candidate.logit).fold(f32::NEG_INFINITY, f32::max)
}
