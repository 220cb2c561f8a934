//! Guesses how a sequence goes on by looking up how it went on before: prompt lookup (Saxena, 2023), which vLLM and
//! llama.cpp call n-gram speculation. What the caller predicts of the answer is looked up as well, and first.
//!
//! The scheduler computes guessed tokens together with the last one, and each guess that the sampler would have chosen
//! saves a step. The answer is what it would have been without: a guess only decides what is computed, never what is chosen.

use std::collections::HashMap;

/// Tokens that must agree with what came before for the rest to be guessed. Fewer agree by chance, more are rarely found.
const NGRAM: usize = 3;
/// Tokens of a prediction, and of a prompt, that are looked at: the first and the last ones. Each costs some 30 bytes.
const MAX_PREDICTED: usize = 16 << 10;
const MAX_PROMPT: usize = 32 << 10;
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
    /// Tokens of the sequence that are not in `history`.
    skipped: usize,
    /// Where each run of `NGRAM` tokens last ended in `history`.
    ends: HashMap<[u32; NGRAM], usize, ahash::RandomState>,
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
    /// A drafter of at most `max_width` tokens at a time for an answer to `prompt`. `prediction` is what the caller expects of
    /// the answer, perhaps nothing. Looks through both, so it is not for the engine's thread.
    pub fn new(prediction: &[u32], prompt: &[u32], max_width: usize) -> Self {
        let prediction = &prediction[..prediction.len().min(MAX_PREDICTED)];
        let skipped = prompt.len().saturating_sub(MAX_PROMPT);
        let history = [prediction, &prompt[skipped..]].concat();
        let mut drafter = Self {
            ends: HashMap::with_capacity_and_hasher(history.len(), ahash::RandomState::new()),
            history,
            predicted: prediction.len(),
            skipped,
            indexed: NGRAM,
            // The first token of the answer is guessed to be the first of the prediction.
            cursor: (!prediction.is_empty()).then_some((0, prompt.len())),
            max_width,
            width: FIRST_WIDTH.min(max_width),
            pause: 0,
            next_pause: FIRST_PAUSE,
        };
        drafter.index();
        drafter
    }

    /// Guesses at most `room` tokens that follow `tokens`, prompt and output. Empty where nothing like their end is known.
    pub fn guess(&mut self, tokens: &[u32], room: usize) -> Vec<u32> {
        let known = self.skipped + self.history.len() - self.predicted;
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
        let goes_on = self.cursor.map(|(start, len)| start + tokens.len() - len).filter(|at| {
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
        let mut drafter = Drafter::new(prediction, prompt, 16);
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
    fn who_guesses_wrong_waits_ever_longer() {
        let mut drafter = Drafter::new(&[], &[1, 2, 3, 4, 1, 2, 3], 16);
        let mut steps = Vec::new();
        for step in 0..40 {
            // It always looks as if it went on with 4, and goes on with 1, 2, 3 instead.
            let tokens = [vec![1, 2, 3, 4], [1, 2, 3].repeat(step + 1)].concat();
            let guess = drafter.guess(&tokens, 9);
            if !guess.is_empty() {
                steps.push(step);
                drafter.settle(guess.len(), 0);
            }
        }
        // Pauses of 1, 2, 4, 8 and 16 steps.
        assert_eq!(steps, [0, 2, 5, 10, 19, 36]);
    }

    #[test]
    fn of_a_prompt_that_is_too_long_the_end_is_looked_at() {
        let prompt: Vec<u32> = (0..MAX_PROMPT as u32 + 10).chain([MAX_PROMPT as u32; 1]).collect();
        let mut tokens = prompt.clone();
        let mut drafter = Drafter::new(&[], &prompt, 4);
        tokens.extend([100, 101, 102]);
        assert_eq!(drafter.guess(&tokens, 4), [103, 104, 105, 106]);
        tokens.extend([0, 1, 2]);
        assert_eq!(drafter.guess(&tokens, 4), [0; 0]);
    }
}
