//! One request as the scheduler sees it: its tokens, how far they are computed, where they lie, when it ends.
//!
//! ```text
//!   0            cached         computed       computed + scheduled         len
//!   |── prefix hit ──|── earlier steps ──|──── this step ────|── later steps ──|
//!   |── prompt and sampled tokens alike; K and V exist up to `computed` ───────|
//! ```
//!
//! A step moves `computed` forward by `scheduled`; it may also compute a draft, guesses at what follows `len`, and then moves
//! it over those that were right. Only when it reaches `len` is there a token to sample, which makes
//! `len` one larger. So prefill, decode, a prefix hit and the recomputation after a preemption are one case.

use std::ops::Range;

use super::blocks::SequenceBlocks;
use super::events::FinishReason;
use super::repetition::RepetitionDetector;
use super::sampling::RepetitionDetection;
use super::shares::{Party, Tier};

/// Names a request within one engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(pub u64);

/// When a sequence ends by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StopRules {
    /// Tokens to sample at most.
    pub max_new_tokens: usize,
    /// Stop tokens cannot be sampled before this many tokens have been.
    pub min_new_tokens: usize,
    /// End-of-sequence tokens and the request's own stop tokens.
    pub stop_token_ids: Vec<u32>,
    /// What ends a sequence that repeats itself.
    pub repetition: RepetitionDetection,
}

/// A request in the scheduler.
#[derive(Debug)]
pub struct Sequence {
    pub(super) id: SequenceId,
    pub(super) tokens: Vec<u32>,
    pub(super) prompt_len: usize,
    pub(super) cached: usize,
    pub(super) computed: usize,
    pub(super) scheduled: usize,
    /// Guesses at the tokens after the last, which the current step computes behind it.
    pub(super) draft: Vec<u32>,
    pub(super) blocks: SequenceBlocks,
    pub(super) party: Party,
    pub(super) tier: Tier,
    /// Counts up from one sequence to the next.
    pub(super) arrival: u64,
    stop: StopRules,
    /// The next prompt token whose log probability is to be told; `prompt_len` if there is none.
    next_scored: usize,
    repetition: Option<RepetitionDetector>,
}

/// A request on its way into the scheduler.
#[derive(Debug, Default)]
pub struct NewSequence {
    pub id: SequenceId,
    /// Not empty.
    pub prompt: Vec<u32>,
    pub stop: StopRules,
    /// Cached prefixes are shared only between sequences with the same salt.
    pub cache_salt: Option<String>,
    /// Every prompt token's log probability is wanted, so none is taken from the cache.
    pub scores_prompt: bool,
    pub party: Party,
    pub tier: Tier,
}

impl Sequence {
    /// A sequence that has computed nothing, the `arrival`th.
    pub fn new(new: NewSequence, arrival: u64, blocks: SequenceBlocks) -> Self {
        let NewSequence { id, prompt, stop, scores_prompt, party, tier, .. } = new;
        let prompt_len = prompt.len();
        // Nothing comes before the first token that could make it likely.
        let next_scored = if scores_prompt { 1 } else { prompt_len };
        let repetition = RepetitionDetector::new(stop.repetition);
        Self {
            id,
            tokens: prompt,
            prompt_len,
            cached: 0,
            computed: 0,
            scheduled: 0,
            draft: Vec::new(),
            blocks,
            party,
            tier,
            arrival,
            stop,
            next_scored,
            repetition,
        }
    }

    pub fn id(&self) -> SequenceId {
        self.id
    }

    /// Prompt and sampled tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    pub fn prompt_len(&self) -> usize {
        self.prompt_len
    }

    /// Tokens sampled so far.
    pub fn num_new_tokens(&self) -> usize {
        self.tokens.len() - self.prompt_len
    }

    /// Tokens found in the prefix cache when the sequence last began to run.
    pub fn cached(&self) -> usize {
        self.cached
    }

    /// Tokens whose K and V are written.
    pub fn computed(&self) -> usize {
        self.computed
    }

    /// Tokens that the current step computes.
    pub fn scheduled(&self) -> usize {
        self.scheduled
    }

    pub fn blocks(&self) -> &SequenceBlocks {
        &self.blocks
    }

    /// Tokens whose K and V are still to be written.
    pub fn num_uncomputed(&self) -> usize {
        self.tokens.len() - self.computed
    }

    /// Whether log probabilities of prompt tokens are still to be told.
    pub fn scores_prompt(&self) -> bool {
        self.next_scored < self.prompt_len
    }

    /// The prompt tokens that the current step scores: each by the logits of the token before it. What was told before
    /// a preemption is not told again.
    pub fn scored_by_step(&self) -> Range<usize> {
        let start = self.next_scored.max(self.computed + 1);
        start..self.prompt_len.min(self.computed + self.scheduled + 1).max(start)
    }

    /// Books the current step: its tokens are computed, and what it scores is told. The prompt tokens scored.
    pub(super) fn advance(&mut self) -> Range<usize> {
        let scored = self.scored_by_step();
        self.next_scored = self.next_scored.max(scored.end);
        self.computed += std::mem::take(&mut self.scheduled);
        scored
    }

    /// Prompt tokens among those of the current step.
    pub(super) fn num_scheduled_prompt_tokens(&self) -> usize {
        self.prompt_len.min(self.computed + self.scheduled) - self.prompt_len.min(self.computed)
    }

    /// Guesses that the current step computes behind the last token.
    pub fn draft(&self) -> &[u32] {
        &self.draft
    }

    /// Most tokens that are worth guessing: those that may come before the last one.
    pub(super) fn room_for_draft(&self) -> usize {
        (self.stop.max_new_tokens - self.num_new_tokens()).saturating_sub(1)
    }

    /// Whether the tokens behind the computed ones begin as the first `count` of the draft.
    pub fn confirms(&self, count: usize) -> bool {
        self.tokens[self.computed..].starts_with(&self.draft[..count])
    }

    /// Tokens that must not be sampled next, because the sequence is still too short to stop.
    pub fn banned_tokens(&self) -> &[u32] {
        if self.num_new_tokens() < self.stop.min_new_tokens { &self.stop.stop_token_ids } else { &[] }
    }

    /// Adds a sampled token; says why, if the sequence ends with it.
    pub fn append(&mut self, token: u32) -> Option<FinishReason> {
        self.tokens.push(token);
        if self.stop.stop_token_ids.contains(&token) {
            return Some(FinishReason::Stop { token });
        }
        if self.num_new_tokens() >= self.stop.max_new_tokens {
            return Some(FinishReason::Length);
        }
        let is_loop = self.repetition.as_mut().is_some_and(|detector| detector.push(&self.tokens[self.prompt_len..]));
        (is_loop && self.num_new_tokens() >= self.stop.min_new_tokens).then_some(FinishReason::Repetition)
    }
}
