//! What restricts one answer while it is made: first the model's thoughts, which are free but may have a budget, then the
//! grammar.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use llguidance::Matcher;
use llguidance::api::StopReason;

use crate::engine::{Constraint, ConstraintError};
use crate::text::Tokenizer;

/// The thoughts that come before the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thoughts {
    /// The text that begins them, with which the answer may begin. `None`: the prompt has begun them.
    pub start: Option<String>,
    /// Texts of which one ends them.
    pub ends: Vec<String>,
    /// Tokens after which they are ended. `None`: as long as they take.
    pub budget: Option<Budget>,
}

/// How long thoughts may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    pub tokens: usize,
    /// What is written when the budget is spent: it ends with a text that ends thoughts.
    pub close: Vec<u32>,
}

/// What restricts all answers to one request, before any of them begins.
#[derive(Default)]
pub struct Guidance {
    pub thoughts: Option<Thoughts>,
    /// At its beginning. `None`: any text.
    pub matcher: Option<Matcher>,
}

impl Guidance {
    /// The guide of one more answer; `None` where nothing restricts it.
    pub fn guide(&self, tokenizer: &Arc<Tokenizer>) -> Option<Box<dyn Constraint>> {
        let has_budget = self.thoughts.as_ref().is_some_and(|thoughts| thoughts.budget.is_some());
        if self.matcher.is_none() && !has_budget {
            return None;
        }
        // Deep, since a shallow clone shares a lock with the others on every token.
        let matcher = self.matcher.as_ref().map(Matcher::deep_clone);
        Some(Box::new(Guide::new(Arc::clone(tokenizer), self.thoughts.clone(), matcher)))
    }
}

/// What restricts one answer.
pub struct Guide {
    tokenizer: Arc<Tokenizer>,
    /// `None` once they have ended, or where there are none.
    thoughts: Option<Thinking>,
    /// `None`: the answer is free.
    matcher: Option<Matcher>,
    /// Tokens that must come before anything else.
    pending: VecDeque<u32>,
}

struct Thinking {
    thoughts: Thoughts,
    has_begun: bool,
    /// Before they begin: what has come. Afterwards: the last bytes, as many as the end may have.
    tail: Vec<u8>,
    /// Before they begin: the tokens that have come, which are the answer's if it is not how thoughts begin.
    awaiting: Vec<u32>,
    num_tokens: usize,
}

impl Thinking {
    fn new(thoughts: Thoughts) -> Self {
        let has_begun = thoughts.start.is_none();
        Self { thoughts, has_begun, tail: Vec::new(), awaiting: Vec::new(), num_tokens: 0 }
    }

    fn start(&self) -> &[u8] {
        self.thoughts.start.as_deref().unwrap_or_default().as_bytes()
    }

    /// What is to be written now that as many tokens of thoughts have come: nothing, unless that is the budget.
    fn close(&self) -> &[u32] {
        let spent = self.thoughts.budget.as_ref().filter(|budget| self.has_begun && budget.tokens == self.num_tokens);
        spent.map_or(&[], |budget| &budget.close)
    }
}

impl Guide {
    /// A guide over tokens of `tokenizer`.
    pub fn new(tokenizer: Arc<Tokenizer>, thoughts: Option<Thoughts>, matcher: Option<Matcher>) -> Self {
        let thoughts = thoughts.map(Thinking::new);
        let pending = thoughts.iter().flat_map(Thinking::close).copied().collect();
        Self { tokenizer, thoughts, matcher, pending }
    }

    /// Takes in a token of the thoughts; ends them where their end is.
    fn think(&mut self, token: u32) -> Result<(), ConstraintError> {
        let Some(thinking) = &mut self.thoughts else { return Ok(()) };
        thinking.num_tokens += 1;
        thinking.tail.extend_from_slice(self.tokenizer.token_bytes(token));
        let ends = thinking.thoughts.ends.iter().map(String::as_bytes);
        if let Some(after) = ends.clone().filter_map(|end| after(&thinking.tail, end)).min() {
            let rest = thinking.tail.split_off(after);
            self.thoughts = None;
            return self.begin_answer(&rest);
        }
        let longest = ends.map(<[u8]>::len).max().unwrap_or(0);
        let kept = thinking.tail.len().min(longest.saturating_sub(1));
        thinking.tail.drain(..thinking.tail.len() - kept);
        self.pending.extend(thinking.close());
        Ok(())
    }

    /// Takes in a token while it is open whether there will be thoughts, whose start may come in parts. What turns out to be no
    /// start is the answer's.
    fn await_thoughts(&mut self, token: u32) -> Result<(), ConstraintError> {
        let Some(thinking) = &mut self.thoughts else { return Ok(()) };
        thinking.tail.extend_from_slice(self.tokenizer.token_bytes(token));
        thinking.awaiting.push(token);
        let seen = thinking.tail.trim_ascii_start();
        if seen.starts_with(thinking.start()) {
            thinking.has_begun = true;
            thinking.tail.clear();
            self.pending.extend(thinking.close());
            return Ok(());
        }
        // White space before a grammar is the grammar's.
        let may_begin = !seen.is_empty() || self.matcher.is_none();
        if may_begin && thinking.start().starts_with(seen) {
            return Ok(());
        }
        let tokens = std::mem::take(&mut thinking.awaiting);
        self.thoughts = None;
        tokens.into_iter().try_for_each(|token| self.follow(token))
    }

    /// Takes in a token of the answer.
    fn follow(&mut self, token: u32) -> Result<(), ConstraintError> {
        match &mut self.matcher {
            Some(matcher) if !is_at_end(matcher) => matcher.consume_token(token).map_err(failed),
            _ => Ok(()),
        }
    }

    /// Lets tokens pass that begin the thoughts or go on with their beginning, beside those that the grammar lets pass.
    fn mask_before_thoughts(&mut self, row: &mut [f32]) -> Result<(), ConstraintError> {
        let Some(thinking) = &self.thoughts else { return Ok(()) };
        let seen = thinking.tail.trim_ascii_start();
        let rest = &thinking.start()[seen.len()..];
        let begins = |bytes: &[u8]| !bytes.is_empty() && (bytes.starts_with(rest) || rest.starts_with(bytes));
        let is_start = |id: usize| match self.tokenizer.token_bytes(id as u32) {
            bytes if seen.is_empty() => begins(bytes.trim_ascii_start()),
            bytes => begins(bytes),
        };
        let starts: Vec<(usize, f32)> = (0..self.tokenizer.vocab_size().min(row.len()))
            .filter(|id| is_start(*id))
            .map(|id| (id, row[id]))
            .collect();
        let awaiting = thinking.awaiting.clone();
        self.mask_answer_after(&awaiting, row)?;
        starts.into_iter().for_each(|(id, logit)| row[id] = logit);
        Ok(())
    }

    /// Masks what cannot follow `tokens` in the answer, which has not begun for certain.
    fn mask_answer_after(&mut self, tokens: &[u32], row: &mut [f32]) -> Result<(), ConstraintError> {
        let Some(matcher) = self.matcher.as_mut().filter(|_| !tokens.is_empty()) else { return self.mask_answer(row) };
        if matcher.validate_tokens(tokens).map_err(failed)? < tokens.len() {
            row.iter_mut().for_each(|logit| *logit += f32::NEG_INFINITY);
            return Ok(());
        }
        let mut ahead = matcher.deep_clone();
        ahead.consume_tokens(tokens).map_err(failed)?;
        mask(&mut ahead, row)
    }

    fn mask_answer(&mut self, row: &mut [f32]) -> Result<(), ConstraintError> {
        self.matcher.as_mut().map_or(Ok(()), |matcher| mask(matcher, row))
    }

    /// A token may hold the end of the thoughts and what follows. Line ends do not belong to the answer; anything else
    /// must be what the grammar begins with.
    fn begin_answer(&mut self, rest: &[u8]) -> Result<(), ConstraintError> {
        let rest = rest.trim_ascii_start();
        let Some(matcher) = self.matcher.as_mut().filter(|_| !rest.is_empty()) else { return Ok(()) };
        let env = matcher.tok_env().map_err(failed)?;
        matcher.consume_tokens(&env.tokenize_bytes(rest)).map_err(failed)
    }
}

impl Constraint for Guide {
    fn mask(&mut self, row: &mut [f32]) -> Result<(), ConstraintError> {
        if let Some(next) = self.pending.front() {
            let next = *next as usize;
            let logit = *row.get(next).ok_or_else(|| failed(format!("the model has no token {next}")))?;
            row.fill(f32::NEG_INFINITY);
            // Whatever the model thinks of it; but a logit that is not a number is still found.
            row[next] = if logit.is_nan() { logit } else { 0.0 };
            return Ok(());
        }
        match &self.thoughts {
            None => self.mask_answer(row),
            // A budget alone restricts nothing but what comes after it is spent.
            Some(_) if self.matcher.is_none() => Ok(()),
            Some(thinking) if !thinking.has_begun => self.mask_before_thoughts(row),
            Some(_) => {
                // An answer that ended within the thoughts would not be what was asked for.
                for id in &self.tokenizer.special_tokens().end_of_generation {
                    if let Some(logit) = row.get_mut(*id as usize) {
                        *logit += f32::NEG_INFINITY;
                    }
                }
                Ok(())
            }
        }
    }

    fn accept(&mut self, token: u32) -> Result<(), ConstraintError> {
        if self.pending.front() == Some(&token) {
            self.pending.pop_front();
        }
        match &self.thoughts {
            None => self.follow(token),
            Some(thinking) if thinking.has_begun => self.think(token),
            Some(_) => self.await_thoughts(token),
        }
    }

    fn forced(&mut self) -> Vec<u32> {
        let mut forced = Vec::new();
        while let Some(token) = self.pending.pop_front() {
            forced.push(token);
            // The end is found among these, so this does not fail: the grammar has not begun.
            if self.thoughts.is_some() && self.think(token).is_err() {
                return forced;
            }
        }
        if self.thoughts.is_none()
            && let Some(matcher) = &mut self.matcher
        {
            forced.extend(matcher.consume_ff_tokens());
        }
        forced
    }

    fn is_complete(&self) -> bool {
        self.thoughts.is_none() && self.pending.is_empty() && self.matcher.as_ref().is_some_and(is_at_end)
    }
}

impl fmt::Debug for Guide {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let thoughts = self.thoughts.as_ref().map(|thinking| &thinking.thoughts);
        formatter.debug_struct("Guide").field("thoughts", &thoughts).finish_non_exhaustive()
    }
}

/// Where `end` ends in `text`.
fn after(text: &[u8], end: &[u8]) -> Option<usize> {
    text.windows(end.len()).position(|window| window == end).map(|place| place + end.len())
}

/// Makes the logits of tokens that the grammar does not allow negative infinity.
fn mask(matcher: &mut Matcher, row: &mut [f32]) -> Result<(), ConstraintError> {
    if matcher.is_stopped() && !is_at_end(matcher) {
        return Err(failed(matcher.get_error().unwrap_or_else(|| format!("{:?}", matcher.stop_reason()))));
    }
    let mask = matcher.compute_mask_or_eos().map_err(failed)?;
    mask.iter_unset_entries(|id| {
        if let Some(logit) = row.get_mut(id) {
            *logit += f32::NEG_INFINITY;
        }
    });
    // An embedding may have more rows than the vocabulary has tokens.
    let known = mask.len().min(row.len());
    row[known..].iter_mut().for_each(|logit| *logit += f32::NEG_INFINITY);
    Ok(())
}

/// Whether the grammar allows nothing more; a matcher that has failed is stopped, too.
fn is_at_end(matcher: &Matcher) -> bool {
    matches!(matcher.stop_reason(), StopReason::NoExtension | StopReason::NoExtensionBias | StopReason::EndOfSentence)
}

fn failed(error: impl fmt::Display) -> ConstraintError {
    let text = error.to_string();
    // The first line says what; the rest is the state of the matcher.
    ConstraintError(text.lines().next().unwrap_or_default().to_owned())
}
