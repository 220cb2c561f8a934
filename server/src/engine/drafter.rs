//! Guesses how a sequence goes on by looking up how it went on before: prompt lookup (Saxena, 2023), which vLLM and
//! llama.cpp call n-gram speculation. What the caller predicts of the answer is looked up as well, and first.
//!
//! The scheduler computes guessed tokens together with the last one, and each guess that the sampler would have chosen
//! saves a step. The answer is what it would have been without: a guess only decides what is computed, never what is chosen.
//!
//! So many are made as save the most time, by what they cost (`step_costs.rs`) and by how often they were right. That is
//! known for nothing: also what is not computed is compared with what came.

use std::collections::HashMap;

/// Tokens that must agree with what came before for the rest to be guessed. Fewer agree by chance, more are rarely found.
const NGRAM: usize = 3;
/// Tokens of a prediction, and of a prompt, that are looked at: the first and the last ones. Each costs some 30 bytes.
const MAX_PREDICTED: usize = 16 << 10;
const MAX_PROMPT: usize = 32 << 10;
/// Tokens of a prediction that are computed before anything else is known of it. They also keep prices up to date.
const FIRST_LOOK: usize = 2;
/// What guesses must promise for each unit that they cost: both are estimates, and where they are too good it is taken.
const CAUTION: f64 = 1.25;

/// What `guesses` tokens cost, in tokens that are made in the same time without them.
pub type Price<'a> = dyn Fn(usize) -> f64 + 'a;

/// The guesses of one request.
#[derive(Debug)]
pub struct Drafter {
    /// What was predicted, and then the sequence itself as far as it is known.
    history: Vec<u32>,
    /// Length of what was predicted.
    predicted: usize,
    /// Tokens of the sequence that are not in `history`.
    skipped: usize,
    /// Where each run of `NGRAM` tokens last ended in `history`.
    ends: HashMap<[u32; NGRAM], usize, ahash::RandomState>,
    /// Runs that end before here are in `ends`.
    indexed: usize,
    cursor: Option<Cursor>,
    /// Whether all that came since the cursor was set is what was expected.
    is_on_track: bool,
    /// Tokens of a guess at most.
    max_width: usize,
    trust: Trust,
    /// Nothing of the prediction has been computed yet.
    is_first: bool,
}

/// Where a sequence is expected to go on.
#[derive(Debug, Clone, Copy)]
struct Cursor {
    /// In the history: the token after the sequence's last.
    start: usize,
    /// Tokens of the history from there on. What repeats itself goes on beyond them as before.
    period: usize,
    /// Length of the sequence.
    len: usize,
}

/// How often a token was right whose predecessors were, lately.
#[derive(Debug)]
struct Trust {
    right: f64,
    all: f64,
}

impl Trust {
    /// What older tokens still count.
    const KEPT: f64 = 0.9;

    fn note(&mut self, is_right: bool) {
        self.right = self.right * Self::KEPT + f64::from(u8::from(is_right));
        self.all = self.all * Self::KEPT + 1.0;
    }

    /// How many of at most `room` guesses save the most time at this `price`.
    fn best_width(&self, room: usize, price: &Price) -> usize {
        let chance = self.right / self.all;
        let (mut best, mut most, mut expected, mut all_right) = (0, 0.0, 0.0, 1.0);
        for count in 1..=room {
            all_right *= chance;
            expected += all_right;
            let saved = expected - CAUTION * price(count);
            if saved > most {
                (best, most) = (count, saved);
            }
        }
        best
    }
}

impl Drafter {
    /// A drafter of at most `max_width` tokens at a time for an answer to `prompt`. `prediction` is what the caller expects of
    /// the answer, perhaps nothing. Looks through both, so it is not for the engine's thread.
    pub fn new(prediction: &[u32], prompt: &[u32], max_width: usize) -> Self {
        let prediction = &prediction[..prediction.len().min(MAX_PREDICTED)];
        let skipped = prompt.len().saturating_sub(MAX_PROMPT);
        let history = [prediction, &prompt[skipped..]].concat();
        let (predicted, is_predicted) = (prediction.len(), !prediction.is_empty());
        // The first token of the answer is guessed to be the first of the prediction.
        let cursor = is_predicted.then_some(Cursor { start: 0, period: predicted, len: prompt.len() });
        let mut drafter = Self {
            ends: HashMap::with_capacity_and_hasher(history.len(), ahash::RandomState::new()),
            history,
            predicted,
            skipped,
            indexed: NGRAM,
            cursor,
            is_on_track: is_predicted,
            max_width,
            // Who predicts something has a reason to; what merely came before may not come again.
            trust: Trust { right: if is_predicted { 1.6 } else { 1.0 }, all: 2.0 },
            is_first: is_predicted,
        };
        drafter.index();
        drafter
    }

    /// Guesses at most `room` tokens that follow `tokens`, prompt and output. Empty where nothing like their end is known, or
    /// where guesses cost more than they save.
    pub fn guess(&mut self, tokens: &[u32], room: usize, price: &Price) -> Vec<u32> {
        let known = self.skipped + self.history.len() - self.predicted;
        self.learn(&tokens[known..], known);
        self.history.extend_from_slice(&tokens[known..]);
        let Some(start) = self.continuation(tokens) else { return Vec::new() };
        let end = if start < self.predicted { self.predicted } else { self.history.len() };
        let cursor = Cursor { start, period: end - start, len: tokens.len() };
        (self.cursor, self.is_on_track) = (Some(cursor), true);
        let room = room.min(self.max_width).min(if start < self.predicted { cursor.period } else { usize::MAX });
        let width = self.trust.best_width(room, price).max(if self.is_first { FIRST_LOOK.min(room) } else { 0 });
        self.is_first &= width == 0;
        (0..width).map(|at| self.history[start + at % cursor.period]).collect()
    }

    /// Compares `new` tokens, which follow `known` ones, with what was expected, up to the first that is another.
    fn learn(&mut self, new: &[u32], known: usize) {
        let Some(Cursor { start, period, len }) = self.cursor else { return };
        for (at, token) in (known - len..).zip(new) {
            // What follows the end of a prediction was never expected.
            self.is_on_track &= at < period || start >= self.predicted;
            if !self.is_on_track {
                return;
            }
            self.is_on_track = self.history[start + at % period] == *token;
            self.trust.note(self.is_on_track);
        }
    }

    /// Where in the history it goes on from what `tokens` end with: where the cursor is now, if that still agrees, or where
    /// their last run was seen.
    fn continuation(&mut self, tokens: &[u32]) -> Option<usize> {
        self.index();
        let goes_on = self.cursor.map(|cursor| cursor.start + tokens.len() - cursor.len).filter(|at| {
            let common = (*at).min(NGRAM);
            // Behind the prediction's end comes the prompt, which is not how it goes on.
            *at < self.history.len() && *at != self.predicted && tokens.ends_with(&self.history[*at - common..*at])
        });
        goes_on.or_else(|| self.ends.get(tokens.last_chunk()?).copied())
    }

    /// Books the runs that have something after them, so that the end of the history does not find itself. Those of the
    /// prediction are not replaced by later ones.
    fn index(&mut self) {
        for end in self.indexed..self.history.len() {
            let run: [u32; NGRAM] = *self.history[..end].last_chunk().expect("`indexed` begins at NGRAM");
            // What ends the prediction, or lies across its end, does not go on as the history does.
            let is_across = (self.predicted..self.predicted + NGRAM).contains(&end) && self.predicted > 0;
            let is_predicted = self.ends.get(&run).is_some_and(|before| *before < self.predicted);
            let is_kept = is_predicted && end > self.predicted;
            if !is_across && !is_kept {
                self.ends.insert(run, end);
            }
        }
        self.indexed = self.indexed.max(self.history.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: &Price = &|_| 0.0;

    /// The guesses while `answer` is written after `prompt`, and how many steps that took.
    fn write(prediction: &[u32], prompt: &[u32], answer: &[u32], price: &Price) -> (Vec<Vec<u32>>, usize) {
        let mut drafter = Drafter::new(prediction, prompt, 16);
        let (mut tokens, mut guesses, mut steps) = (prompt.to_vec(), Vec::new(), 0);
        while tokens.len() < prompt.len() + answer.len() {
            let rest = &answer[tokens.len() - prompt.len()..];
            let guess = drafter.guess(&tokens, rest.len() - 1, price);
            let right = guess.iter().zip(rest).take_while(|(guessed, token)| guessed == token).count();
            tokens.extend_from_slice(&rest[..right + 1]);
            guesses.extend(Some(guess).filter(|guess| !guess.is_empty()));
            steps += 1;
        }
        (guesses, steps)
    }

    #[test]
    fn what_came_before_is_guessed_again() {
        let (guesses, steps) = write(&[], &[1, 2, 3, 4, 5, 6, 9], &[1, 2, 3, 4, 5, 6], FREE);
        assert_eq!((guesses, steps), (vec![vec![4, 5]], 4));
    }

    #[test]
    fn what_repeats_itself_is_guessed_beyond_its_end() {
        let (guesses, _) = write(&[], &[1, 2, 3], &[1, 2, 3, 1, 2, 3, 1, 2, 3, 1], FREE);
        assert_eq!(guesses, [vec![1, 2, 3, 1, 2, 3]]);
    }

    #[test]
    fn nothing_is_guessed_of_what_is_new() {
        let answer: Vec<u32> = (100..150).collect();
        assert_eq!(write(&[], &[1, 2, 3, 4], &answer, FREE), (Vec::new(), 50));
    }

    #[test]
    fn a_prediction_that_is_right_is_guessed_as_far_as_may_be() {
        let answer: Vec<u32> = (100..200).collect();
        let (guesses, steps) = write(&answer, &[1, 2], &answer, FREE);
        let lengths: Vec<usize> = guesses.iter().map(Vec::len).collect();
        // Each guess of n tokens is n + 1 of the answer.
        assert_eq!((lengths, steps), (vec![16, 16, 16, 16, 16, 14], 6));
    }

    #[test]
    fn the_more_guesses_are_right_the_more_are_made() {
        let answer: Vec<u32> = (100..200).collect();
        let price = &|guesses: usize| 0.5 * guesses as f64;
        let lengths: Vec<usize> = write(&answer, &[1, 2], &answer, price).0.iter().map(Vec::len).collect();
        // Of a chance of 0.8, the second power is above 0.5 and a quarter, and the third is not.
        assert_eq!(lengths[0], 2);
        assert!(lengths.is_sorted() || lengths[..lengths.len() - 1].is_sorted(), "{lengths:?}");
        assert!(lengths.contains(&16), "{lengths:?}");
    }

    #[test]
    fn a_prediction_is_found_again_behind_a_change() {
        let prediction: Vec<u32> = (100..140).collect();
        let mut answer = prediction.clone();
        answer[10] = 7;
        let (_, steps) = write(&prediction, &[1, 2], &answer, FREE);
        // Up to the change 1 step, 3 to see a run of three, and 27 more tokens.
        assert!(steps <= 8, "{steps}");
    }

    #[test]
    fn a_wrong_prediction_costs_a_few_guesses_only() {
        let prediction: Vec<u32> = (100..200).collect();
        // Every third token is another, so that it is never found again.
        let answer: Vec<u32> = (100..200).map(|token| if token % 3 == 0 { 7 } else { token }).collect();
        let (guesses, steps) = write(&prediction, &[1, 2], &answer, &|guesses| 0.7 * guesses as f64);
        assert!(guesses.iter().map(Vec::len).sum::<usize>() <= 4 && steps > 95, "{guesses:?}");
    }

    #[test]
    fn what_costs_more_than_it_saves_is_not_guessed_after_the_first_look() {
        let answer: Vec<u32> = (100..200).collect();
        let (guesses, steps) = write(&answer, &[1, 2], &answer, &|guesses| 1.1 * guesses as f64);
        assert_eq!((guesses, steps), (vec![vec![100, 101]], 98));
    }

    #[test]
    fn who_was_wrong_is_guessed_again_once_right() {
        let prediction: Vec<u32> = (100..200).collect();
        let mut answer = prediction.clone();
        answer[..40].iter_mut().step_by(2).for_each(|token| *token = 7);
        let (guesses, _) = write(&prediction, &[1, 2], &answer, &|guesses| 0.6 * guesses as f64);
        let computed: usize = guesses.iter().map(Vec::len).sum();
        assert!(guesses[0].len() < 4 && guesses.iter().any(|guess| guess.len() == 16), "{guesses:?}");
        assert!(computed < 75, "{guesses:?}");
    }

    #[test]
    fn of_a_prompt_that_is_too_long_the_end_is_looked_at() {
        let prompt: Vec<u32> = (0..MAX_PROMPT as u32 + 10).chain([MAX_PROMPT as u32; 1]).collect();
        let mut tokens = prompt.clone();
        let mut drafter = Drafter::new(&[], &prompt, 4);
        tokens.extend([100, 101, 102]);
        assert_eq!(drafter.guess(&tokens, 4, FREE), [103, 104, 105, 106]);
        tokens.extend([0, 1, 2]);
        assert_eq!(drafter.guess(&tokens, 4, FREE), [0; 0]);
    }
}
