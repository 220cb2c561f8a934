//! How long a step takes by the number of its tokens, measured as the engine runs: what it costs to compute guesses.
//!
//! A GPU computes a few more tokens almost for nothing, a CPU does not, and in between are all kinds of kernels. So
//! nothing is assumed but that a longer step is no faster. What has not been measured is tried a few tokens at a time.

/// Steps of more tokens are not measured: they read a prompt.
const MAX_TOKENS: usize = 64;
/// Share of a new measurement.
const NEWEST: f64 = 0.25;
/// What a long step is forgotten of in each shorter one: a disturbance must not put an end to guesses for ever.
const FORGOTTEN: f64 = 0.003;
/// Tokens beyond the longest measured step that may be tried.
const TRIED: usize = 4;

/// What steps have taken so far.
#[derive(Debug)]
pub(super) struct StepCosts {
    /// By number of tokens; 0 where there was no such step.
    seconds: [f64; MAX_TOKENS + 1],
    /// Otherwise guesses count as free.
    are_counted: bool,
}

impl StepCosts {
    /// `are_counted`: guesses cost what is measured, else nothing.
    pub(super) fn new(are_counted: bool) -> Self {
        Self { seconds: [0.0; MAX_TOKENS + 1], are_counted }
    }

    /// A step of `tokens`, each with its row of logits, took `seconds`.
    pub(super) fn note(&mut self, tokens: usize, seconds: f64) {
        if !(1..=MAX_TOKENS).contains(&tokens) {
            return;
        }
        // Longer than its tokens would take one by one: something else had the machine.
        let usual = if self.seconds[1] > 0.0 { self.seconds[1] * tokens.max(2) as f64 } else { f64::INFINITY };
        let (known, seconds) = (self.seconds[tokens], seconds.min(usual));
        let now = if known > 0.0 { known + NEWEST * (seconds - known) } else { seconds };
        self.seconds[tokens] = now;
        for longer in self.seconds[tokens + 1..].iter_mut().filter(|longer| **longer > now) {
            *longer -= FORGOTTEN * (*longer - now);
        }
    }

    /// What `guesses` cost in a step that has `tokens` without them, for `sequences` that each get one of it: counted in
    /// such tokens. A guess that is right is worth one. Infinite, where more are asked for than are to be tried at once.
    pub(super) fn price(&self, tokens: usize, sequences: usize, guesses: usize) -> f64 {
        if !self.are_counted {
            return 0.0;
        }
        let longest = self.seconds.iter().rposition(|seconds| *seconds > 0.0).unwrap_or(0);
        if tokens <= MAX_TOKENS && tokens + guesses > (2 * longest).max(tokens + TRIED) {
            return f64::INFINITY;
        }
        let worth = self.seconds_of(sequences) / sequences as f64;
        let more = self.seconds_of(tokens + guesses) - self.seconds_of(tokens);
        if worth > 0.0 { more.max(0.0) / worth } else { 0.0 }
    }

    /// How long a step of `tokens` takes, by those nearest in length. 0 where nothing is known.
    fn seconds_of(&self, tokens: usize) -> f64 {
        let is_known = |length: &usize| self.seconds[*length] > 0.0;
        let below = (1..=tokens.min(MAX_TOKENS)).rev().find(is_known);
        let above = (tokens..=MAX_TOKENS).find(is_known);
        let line = |from: usize, to: usize| {
            let slope = (self.seconds[to] - self.seconds[from]).max(0.0) / (to - from) as f64;
            self.seconds[from] + slope * (tokens - from) as f64
        };
        match (below, above) {
            (Some(below), _) if below == tokens => self.seconds[below],
            (Some(below), Some(above)) => line(below, above),
            (Some(below), None) => {
                let shorter = (1..below).find(is_known);
                shorter.map_or(self.seconds[below], |shorter| line(shorter, below))
            }
            (None, Some(above)) => self.seconds[above],
            (None, None) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(steps: &[(usize, f64)]) -> StepCosts {
        let mut costs = StepCosts::new(true);
        steps.iter().for_each(|(tokens, seconds)| costs.note(*tokens, *seconds));
        costs
    }

    fn assert_near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 0.02, "{found}, expected {expected}");
    }

    #[test]
    fn a_guess_costs_what_it_makes_the_step_longer() {
        let costs = measured(&[(1, 0.010), (5, 0.016)]);
        assert_near(costs.price(1, 1, 4), 0.6);
        assert_near(costs.price(1, 1, 2), 0.3);
    }

    #[test]
    fn among_many_sequences_a_token_is_worth_its_part_of_the_step() {
        let costs = measured(&[(8, 0.016), (12, 0.020)]);
        assert_near(costs.price(8, 8, 4), 2.0);
    }

    #[test]
    fn what_is_not_known_is_free_and_tried_a_few_at_a_time() {
        let costs = measured(&[]);
        assert_eq!((costs.price(1, 1, 4), costs.price(1, 1, 5)), (0.0, f64::INFINITY));
        let costs = measured(&[(1, 0.010), (5, 0.010)]);
        assert_eq!((costs.price(1, 1, 9), costs.price(1, 1, 10)), (0.0, f64::INFINITY));
    }

    #[test]
    fn one_slow_step_is_no_measure() {
        let mut costs = measured(&[(1, 0.010), (5, 0.012)]);
        costs.note(1, 10.0);
        assert!(costs.seconds_of(1) < 0.013);
        costs.note(5, 10.0);
        let price = costs.price(1, 1, 4);
        (0..1000).for_each(|_| costs.note(1, 0.010));
        assert!(costs.price(1, 1, 4) < 0.1 && price > 0.5, "it is forgotten: {price}");
    }

    #[test]
    fn beside_a_prompt_a_guess_costs_what_a_token_costs() {
        let costs = measured(&[(1, 0.010), (11, 0.020)]);
        assert_near(costs.price(500, 1, 3), 0.3);
    }

    #[test]
    fn where_costs_do_not_count_a_guess_is_free() {
        let mut costs = StepCosts::new(false);
        costs.note(1, 0.010);
        costs.note(5, 0.050);
        assert_eq!(costs.price(1, 1, 16), 0.0);
    }
}
