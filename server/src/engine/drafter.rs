//! Guesses how a sequence goes on by looking up how it went on before: prompt lookup (Saxena, 2023), which vLLM and
//! llama.cpp call n-gram speculation. What the caller predicts of the answer is looked up as well, and first.
//!
//! The scheduler computes guessed tokens together with the last one, and each guess that the sampler would have chosen
//! saves a step. The answer is what it would have been without: a guess only decides what is computed, never what is chosen.

use std::collections::HashMap;

/// Tokens that must agree with what came before for the rest to be guessed. Fewer agree by chance, more are rarely found.
const NGRAM: usize = 3;
/// Tokens of the first guess.
const FIRST_WIDTH: usize = 4;
/// Steps without a guess after the first that was wrong from its first token; twice as many after each further one.
const FIRST_PAUSE: usize = 1;
const LONGEST_PAUSE: usize = 32;

/// The guesses of one request.
#[derive(Debug)]
pub struct Drafter {
    /// What was predicted, and then the sequence itself as far as it is known.
    history: Vec<u32>,
    /// Length of what was predicted.
    predicted: usize,
    /// Where each run of `NGRAM` tokens last ended in `history`.
    ends: HashMap<[u32; NGRAM], usize>,
    /// Runs that end before here are in `ends`.
    indexed: usize,
    /// The place in `history` that the last guess was taken from, and the length of the sequence then.
    cursor: Option<(usize, usize)>,
    /// Tokens of a guess at most.
    max_width: usize,
    width: usize,
    /// Steps still to pass without a guess, and how many there will be the next time.
    pause: usize,
    next_pause: usize,
}

impl Drafter {
    /// A drafter of at most `max_width` tokens at a time. `prediction` is what the caller expects of the answer, perhaps
    /// nothing.
    pub fn new(prediction: Vec<u32>, max_width: usize) -> Self {
        Self {
            predicted: prediction.len(),
            history: prediction,
            ends: HashMap::new(),
            indexed: NGRAM,
            cursor: None,
            max_width,
            width: FIRST_WIDTH.min(max_width),
            pause: 0,
            next_pause: FIRST_PAUSE,
        }
    }

    /// Guesses at most `room` tokens that follow `tokens`, prompt and output. Empty where nothing like their end is known.
    pub fn guess(&mut self, tokens: &[u32], room: usize) -> Vec<u32> {
        let known = self.history.len() - self.predicted;
        self.history.extend_from_slice(&tokens[known..]);
        if self.pause > 0 {
            self.pause -= 1;
            return Vec::new();
        }
        let Some(start) = self.continuation(tokens) else { return Vec::new() };
        self.cursor = Some((start, tokens.len()));
        let count = self.width.min(room);
        if start < self.predicted {
            return self.history[start..self.predicted.min(start + count)].to_vec();
        }
        // What repeats itself goes on beyond the end as it did before.
        let period = self.history.len() - start;
        (0..count).map(|at| self.history[start + at % period]).collect()
    }

    /// Where in the history it goes on from what `tokens` end with: behind the last guess, if that still agrees, or where
    /// their last run was seen.
    fn continuation(&mut self, tokens: &[u32]) -> Option<usize> {
        self.index();
        // The first token of the answer is guessed to be the first of the prediction.
        let (start, len) = self.cursor.unwrap_or((0, tokens.len()));
        let at = start + tokens.len() - len;
        let common = at.min(NGRAM);
        let goes_on = (self.cursor.is_some() || self.predicted > 0)
            && at < self.history.len()
            && tokens.ends_with(&self.history[at - common..at]);
        if goes_on { Some(at) } else { self.ends.get(tokens.last_chunk()?).copied() }
    }

    /// Books the runs that have something after them, so that the end of the history does not find itself. Those of the
    /// prediction are not replaced by later ones.
    fn index(&mut self) {
        for end in self.indexed..self.history.len() {
            let run: [u32; NGRAM] = *self.history[..end].last_chunk().expect("`indexed` begins at NGRAM");
            // What ends the prediction, or lies across its end, does not go on as the history does.
            let is_across = (self.predicted..self.predicted + NGRAM).contains(&end) && self.predicted > 0;
            let is_predicted = self.ends.get(&run).is_some_and(|before| *before < self.predicted);
            if !is_across && !(is_predicted && end > self.predicted) {
                self.ends.insert(run, end);
            }
        }
        self.indexed = self.indexed.max(self.history.len());
    }

    /// Takes note of how many of `guessed` tokens were right: longer guesses where all were, shorter ones or none for a
    /// while where few were.
    pub fn settle(&mut self, guessed: usize, right: usize) {
        if right == 0 {
            self.pause = self.next_pause;
            self.next_pause = (self.next_pause * 2).min(LONGEST_PAUSE);
        } else {
            self.next_pause = FIRST_PAUSE;
        }
        let width = if right == guessed { self.width * 2 } else { right + 1 };
        self.width = width.clamp(1, self.max_width);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The guesses while `answer` is written after `prompt`, each settled against it; and how many steps that took.
    fn write(prediction: &[u32], prompt: &[u32], answer: &[u32]) -> (Vec<Vec<u32>>, usize) {
        let mut drafter = Drafter::new(prediction.to_vec(), 16);
        let (mut tokens, mut guesses, mut steps) = (prompt.to_vec(), Vec::new(), 0);
        while tokens.len() < prompt.len() + answer.len() {
            let rest = &answer[tokens.len() - prompt.len()..];
            let guess = drafter.guess(&tokens, rest.len() - 1);
            let right = guess.iter().zip(rest).take_while(|(guessed, token)| guessed == token).count();
            tokens.extend_from_slice(&rest[..right + 1]);
            if !guess.is_empty() {
                drafter.settle(guess.len(), right);
                guesses.push(guess);
            }
            steps += 1;
        }
        (guesses, steps)
    }

    #[test]
    fn what_came_before_is_guessed_again() {
        let (guesses, steps) = write(&[], &[1, 2, 3, 4, 5, 6, 9], &[1, 2, 3, 4, 5, 6]);
        assert_eq!((guesses, steps), (vec![vec![4, 5]], 4));
    }

    #[test]
    fn what_repeats_itself_is_guessed_beyond_its_end() {
        let (guesses, _) = write(&[], &[1, 2, 3], &[1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3]);
        assert_eq!(guesses, [vec![1, 2, 3, 1], vec![3, 1, 2, 3, 1, 2]]);
    }

    #[test]
    fn nothing_is_guessed_of_what_is_new() {
        let answer: Vec<u32> = (100..150).collect();
        assert_eq!(write(&[], &[1, 2, 3, 4], &answer), (Vec::new(), 50));
    }

    #[test]
    fn a_prediction_that_is_right_takes_ever_fewer_steps() {
        let answer: Vec<u32> = (100..200).collect();
        let (guesses, steps) = write(&answer, &[1, 2], &answer);
        let lengths: Vec<usize> = guesses.iter().map(Vec::len).collect();
        // Each guess of n tokens is n + 1 of the answer.
        assert_eq!((lengths, steps), (vec![4, 8, 16, 16, 16, 16, 16], 8));
    }

    #[test]
    fn a_prediction_is_found_again_behind_a_change() {
        let prediction: Vec<u32> = (100..140).collect();
        let mut answer = prediction.clone();
        answer[10] = 7;
        let (_, steps) = write(&prediction, &[1, 2], &answer);
        // Up to the change 3 steps, 3 to see a run of three, and 27 more tokens.
        assert!(steps <= 12, "{steps}");
    }

    #[test]
    fn a_prediction_that_is_wrong_is_asked_ever_less() {
        let prediction = [5; 40];
        let (guesses, steps) =
            write(&prediction, &[1, 5], &(0..100).flat_map(|i| [5, 5, 5, 1000 + i]).collect::<Vec<_>>());
        assert!(guesses.len() <= 100 && steps <= 400, "{} guesses in {steps} steps", guesses.len());
    }
}
