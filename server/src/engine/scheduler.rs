//! Decides what each step computes. Pure: no tensors, no threads, no clock.
//!
//! One rule: a step has a budget of tokens, and every sequence spends from it to let `computed` catch up with its
//! length. There is no prefill phase and no decode phase. Whoever runs gets one token; the rest goes to those that run and
//! those that wait alike, in their rank (`shares.rs`), which among equals is the order of arrival. When the pool runs dry, the
//! last in rank gives up its blocks and waits again. So the first in rank is never held up.

use std::cmp::Reverse;
use std::ops::Range;

use taper_models::batch::{Batch, BatchSequence};

use super::blocks::BlockManager;
use super::config::EngineConfig;
use super::sequence::{NewSequence, Sequence, SequenceId};
use super::shares::{Shares, Tier};

/// The queue, the running sequences and their blocks.
#[derive(Debug)]
pub struct Scheduler {
    blocks: BlockManager,
    max_num_seqs: usize,
    max_num_batched_tokens: usize,
    max_scored_rows: usize,
    /// In order of arrival.
    waiting: Vec<Sequence>,
    /// In rank; those that have begun in the current step at its end.
    running: Vec<Sequence>,
    shares: Shares,
    arrivals: u64,
    totals: SchedulerTotals,
}

/// Whose rows of logits a step has made, in the order of the batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRows {
    pub id: SequenceId,
    /// The prompt tokens that the first rows score, one a row.
    pub scored: Range<usize>,
    /// Rows that follow, from which the sequence's next tokens are to be sampled: one, and one for each token of its draft,
    /// good if what was sampled before it agrees with that. None if the sequence is not computed to its end.
    pub sampled: usize,
}

/// Guesses tokens that follow a sequence.
pub type Draft<'a> = dyn FnMut(&Sequence, Room) -> Vec<u32> + 'a;

/// What a step has room for beside what it computes anyway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Guesses at most.
    pub guesses: usize,
    /// Tokens that the step has without them.
    pub step_tokens: usize,
    /// Sequences that get a token of the step.
    pub step_sequences: usize,
}

/// What is left to give out in a step.
struct Budget {
    tokens: usize,
    scored_rows: usize,
}

impl Budget {
    /// Tokens for a sequence that has `uncomputed` left. None, perhaps, for one that scores its prompt.
    fn offer(&self, uncomputed: usize, scores_prompt: bool) -> usize {
        let rows = if scores_prompt { self.scored_rows } else { usize::MAX };
        uncomputed.min(self.tokens).min(rows)
    }

    fn take(&mut self, tokens: usize, scores_prompt: bool) {
        self.tokens -= tokens;
        self.scored_rows -= if scores_prompt { tokens } else { 0 };
    }
}

/// What the scheduler has done since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SchedulerTotals {
    /// Prompt tokens put into batches.
    pub prefill_tokens: usize,
    /// Tokens taken from the prefix cache.
    pub prefix_hit_tokens: usize,
    pub preemptions: usize,
}

impl Scheduler {
    /// An empty scheduler over the cache that `config` describes.
    pub fn new(config: &EngineConfig) -> Self {
        Self {
            blocks: BlockManager::new(config.num_blocks, config.block_size, &config.windows, config.prefix_caching),
            max_num_seqs: config.max_num_seqs,
            max_num_batched_tokens: config.max_num_batched_tokens,
            max_scored_rows: config.max_scored_rows,
            waiting: Vec::new(),
            running: Vec::new(),
            shares: Shares::default(),
            arrivals: 0,
            totals: SchedulerTotals::default(),
        }
    }

    /// Queues a request. The caller has checked that prompt and output fit, see [`BlockManager::capacity`].
    pub fn submit(&mut self, new: NewSequence) {
        let blocks = self.blocks.new_sequence(new.cache_salt.as_deref());
        self.shares.enter(new.tier, new.party);
        self.arrivals += 1;
        self.waiting.push(Sequence::new(new, self.arrivals, blocks));
    }

    /// Chooses the tokens of the next step and returns them as a batch; `None` when there are no sequences. What is left of
    /// the budget goes to guesses that `draft` makes.
    /// Must be followed by [`Self::commit`], or by [`Self::remove`] of every scheduled sequence if the step failed.
    pub fn schedule(&mut self, draft: &mut Draft<'_>) -> Option<Batch> {
        let mut budget = Budget { tokens: self.max_num_batched_tokens, scored_rows: self.max_scored_rows };
        self.running.sort_by_cached_key(|sequence| rank(&self.shares, sequence));
        self.make_room_for_tier();
        let preempted = self.keep_running(&mut budget);
        // What was just preempted would otherwise take its blocks straight back.
        self.give_out(&mut budget, !preempted);
        if self.scheduled().next().is_none() {
            assert!(self.is_idle(), "the first in rank fits the pool, so it is always scheduled");
            return None;
        }
        self.schedule_drafts(&mut budget, draft);
        self.totals.prefill_tokens += self.scheduled().map(Sequence::num_scheduled_prompt_tokens).sum::<usize>();
        Some(self.build_batch())
    }

    /// Lets those of lower tiers go, the last in rank first, until one of a higher tier can begin. None, if not even all of
    /// them hold enough.
    fn make_room_for_tier(&mut self) {
        // Most steps end here, without a look at anyone's share.
        let is_outranked = |last: &Sequence| self.waiting.iter().any(|waiting| waiting.tier > last.tier);
        if !self.running.last().is_some_and(is_outranked) {
            return;
        }
        let Some(first) = self.first_waiting(|_| true) else { return };
        let (tier, len) = (self.waiting[first].tier, self.waiting[first].tokens.len());
        let lower = self.running.iter().rev().take_while(|sequence| sequence.tier < tier);
        let (count, held) =
            lower.fold((0, 0), |(count, held), sequence| (count + 1, held + sequence.blocks.num_held()));
        let chunk = self.max_num_batched_tokens;
        let has_place = |scheduler: &Self| scheduler.running.len() < scheduler.max_num_seqs;
        let can_begin = |scheduler: &Self, more: usize| scheduler.blocks.has_room(len, chunk, more);
        if !can_begin(self, held) {
            return;
        }
        for _ in 0..count {
            if has_place(self) && can_begin(self, 0) {
                return;
            }
            self.preempt_last();
        }
    }

    /// Gives each running sequence a token, the first in rank first; says whether any lost its blocks.
    fn keep_running(&mut self, budget: &mut Budget) -> bool {
        let preemptions = self.totals.preemptions;
        let mut index = 0;
        while index < self.running.len() && budget.tokens > 0 {
            let sequence = &mut self.running[index];
            let tokens = budget.offer(1, sequence.scores_prompt());
            if self.blocks.grow(&mut sequence.blocks, sequence.computed + tokens) {
                sequence.scheduled = tokens;
                budget.take(tokens, sequence.scores_prompt());
                index += 1;
            } else {
                // The last may be this very sequence; then the loop ends here.
                self.preempt_last();
            }
        }
        self.totals.preemptions > preemptions
    }

    fn preempt_last(&mut self) {
        let mut last = self.running.pop().expect("only called while a running sequence lacks blocks or has to go");
        self.blocks.release(&mut last.blocks);
        last.computed = 0;
        let place = self.waiting.partition_point(|other| other.arrival < last.arrival);
        self.waiting.insert(place, last);
        self.totals.preemptions += 1;
    }

    /// Gives the rest of the budget to those that run and those that wait, as they rank. The first of those that wait holds
    /// up the others until it can begin, or it never would.
    fn give_out(&mut self, budget: &mut Budget, mut may_begin: bool) {
        let (mut next, kept) = (0, self.running.len());
        // Looked up only when it may have changed: there can be hundreds.
        let mut first = None;
        while budget.tokens > 0 {
            may_begin &= self.running.len() < self.max_num_seqs;
            if may_begin && first.is_none() {
                // Who wants a prompt scored takes its turn when there are rows for it.
                let has_rows = budget.scored_rows > 0;
                first = self.first_waiting(|sequence| has_rows || !sequence.scores_prompt());
                may_begin = first.is_some();
            }
            let rank_of = |sequence: &Sequence| rank(&self.shares, sequence);
            let is_turn = |first: usize| next == kept || rank_of(&self.waiting[first]) < rank_of(&self.running[next]);
            match first.filter(|first| may_begin && is_turn(*first)) {
                Some(index) => {
                    may_begin = self.admit(index, budget);
                    first = None;
                }
                None if next < kept => {
                    self.extend(next, budget);
                    next += 1;
                }
                None => return,
            }
        }
    }

    /// The waiting sequence that ranks first among those that `may` begin. None, while most of its prompt is being computed by
    /// another: it will find that in the cache, and nobody overtakes it.
    fn first_waiting(&self, may: impl Fn(&Sequence) -> bool) -> Option<usize> {
        let waiting = self.waiting.iter().enumerate().filter(|(_, sequence)| may(sequence));
        let (index, first) = waiting.min_by_key(|(_, sequence)| rank(&self.shares, sequence))?;
        let is_read =
            self.running.iter().any(|running| running.num_uncomputed() > 1 && self.will_share(running, first));
        (!is_read).then_some(index)
    }

    /// Whether a running sequence is about to compute blocks that a waiting one can take over, most of what it needs, and is as
    /// urgent.
    fn will_share(&self, running: &Sequence, waiting: &Sequence) -> bool {
        // One that scores its prompt computes few tokens in a step, and leaves none in the cache.
        let can_share = running.tier >= waiting.tier && !waiting.scores_prompt() && !running.scores_prompt();
        if !can_share || !self.blocks.may_share(&running.blocks, &waiting.blocks) {
            return false;
        }
        // The last token is computed in any case.
        let others = &waiting.tokens[..waiting.tokens.len() - 1];
        let common = running.tokens.iter().zip(others).take_while(|(one, other)| one == other).count();
        let whole = |tokens: usize| tokens - tokens % self.blocks.block_size();
        let computed = whole(running.computed);
        let shared = whole(common).saturating_sub(computed);
        shared > 0 && 2 * shared >= waiting.tokens.len().saturating_sub(computed)
    }

    /// Gives a running sequence more tokens, as many as budget and pool have.
    fn extend(&mut self, index: usize, budget: &mut Budget) {
        let sequence = &mut self.running[index];
        let (end, scores) = (sequence.computed + sequence.scheduled, sequence.scores_prompt());
        let wanted = budget.offer(sequence.tokens.len() - end, scores);
        let more = wanted.min(self.blocks.reach(&sequence.blocks).saturating_sub(end));
        if self.blocks.grow(&mut sequence.blocks, end + more) {
            sequence.scheduled += more;
            budget.take(more, scores);
        }
    }

    /// Lets a waiting sequence run, if budget and pool have room; says whether it does.
    fn admit(&mut self, index: usize, budget: &mut Budget) -> bool {
        let mut sequence = self.waiting.remove(index);
        let begins = self.begin(&mut sequence, budget);
        if begins {
            budget.take(sequence.scheduled, sequence.scores_prompt());
            self.running.push(sequence);
        } else {
            self.waiting.insert(index, sequence);
        }
        begins
    }

    /// Gives a waiting sequence its cached prefix and the blocks of its first chunk. `false`, and nothing taken, unless
    /// the pool could hold all its tokens now: one that starts without that would soon be preempted again.
    fn begin(&mut self, sequence: &mut Sequence, budget: &Budget) -> bool {
        // Logits are not cached, only what they are computed from.
        let scores = sequence.scores_prompt();
        let cached = if scores { 0 } else { self.blocks.take_prefix(&mut sequence.blocks, &sequence.tokens) };
        let len = sequence.tokens.len();
        let tokens = budget.offer(len - cached, scores);
        let fits = tokens > 0
            && self.blocks.can_hold(&sequence.blocks, len, self.max_num_batched_tokens)
            && self.blocks.grow(&mut sequence.blocks, cached + tokens);
        if !fits {
            self.blocks.release(&mut sequence.blocks);
            return false;
        }
        (sequence.cached, sequence.computed, sequence.scheduled) = (cached, cached, tokens);
        self.totals.prefix_hit_tokens += cached;
        true
    }

    /// Lets sequences that the step computes to their end go beyond it, by guesses. None while others wait: then their
    /// tokens are worth more.
    fn schedule_drafts(&mut self, budget: &mut Budget, draft: &mut Draft<'_>) {
        let is_complete = |sequence: &&mut Sequence| {
            sequence.scheduled > 0 && sequence.scheduled == sequence.num_uncomputed() && !sequence.scores_prompt()
        };
        if !self.waiting.is_empty() {
            return;
        }
        let mut step_tokens = self.scheduled().map(Sequence::scheduled).sum();
        let step_sequences =
            self.scheduled().filter(|sequence| sequence.scheduled == sequence.num_uncomputed()).count();
        for sequence in self.running.iter_mut().filter(is_complete) {
            let guesses = budget.tokens.min(budget.scored_rows).min(sequence.room_for_draft());
            let room = Room { guesses, step_tokens, step_sequences };
            let guessed = if guesses > 0 { draft(sequence, room) } else { Vec::new() };
            let len = sequence.tokens.len() + guessed.len();
            // No sequence loses blocks to a guess; cached prefixes may.
            if !guessed.is_empty() && self.blocks.grow(&mut sequence.blocks, len) {
                budget.take(guessed.len(), true);
                step_tokens += guessed.len();
                sequence.draft = guessed;
            }
        }
    }

    fn build_batch(&self) -> Batch {
        let block_size = self.blocks.block_size();
        let mut batch = Batch::default();
        for sequence in self.scheduled() {
            let (start, end) = (sequence.computed, sequence.computed + sequence.scheduled);
            let beyond = end + sequence.draft.len();
            let tables = sequence.blocks.tables();
            batch.sequences.push(BatchSequence {
                query_start: batch.tokens.len(),
                query_len: beyond - start,
                context_len: beyond,
                block_tables: tables.to_vec(),
            });
            batch.tokens.extend_from_slice(&sequence.tokens[start..end]);
            batch.tokens.extend_from_slice(&sequence.draft);
            batch.positions.extend((start..beyond).map(|position| position as u32));
            batch.slot_mappings.resize(tables.len(), Vec::new());
            for (slots, table) in batch.slot_mappings.iter_mut().zip(tables) {
                let slot = |position: usize| table[position / block_size] as usize * block_size + position % block_size;
                slots.extend((start..beyond).map(|position| slot(position) as u32));
            }
            let row_of = |position: usize| (batch.tokens.len() + position - beyond) as u32;
            let scored = sequence.scored_by_step().map(|token| row_of(token - 1));
            let sampled = if end == sequence.tokens.len() { end - 1..beyond } else { 0..0 };
            batch.logit_rows.extend(scored.chain(sampled.map(row_of)).collect::<Vec<_>>());
        }
        batch
    }

    /// Books the step that has just run and took `seconds`, without the guesses in it: what of them was right
    /// [`Self::settle`] finds. Says whose the rows of its logits are, in the order of the batch's `logit_rows`.
    pub fn commit(&mut self, seconds: f64) -> Vec<StepRows> {
        self.charge(seconds);
        let mut rows = Vec::new();
        for sequence in self.running.iter_mut().filter(|sequence| sequence.scheduled > 0) {
            let before = sequence.computed;
            let scored = sequence.advance();
            self.blocks.commit(&mut sequence.blocks, &sequence.tokens, before, sequence.computed);
            let sampled = if sequence.num_uncomputed() == 0 { 1 + sequence.draft.len() } else { 0 };
            if sampled > 0 || !scored.is_empty() {
                rows.push(StepRows { id: sequence.id, scored, sampled });
            }
        }
        rows
    }

    /// Books a step's time with those that had it, by their tokens.
    fn charge(&mut self, seconds: f64) {
        let tokens_of = |sequence: &Sequence| (sequence.scheduled + sequence.draft.len()) as f64;
        let tokens: f64 = self.scheduled().map(tokens_of).sum();
        for sequence in self.running.iter().filter(|sequence| sequence.scheduled > 0) {
            self.shares.charge(sequence.tier, sequence.party, seconds * tokens_of(sequence) / tokens);
        }
    }

    /// Books `seconds` more with a running sequence: what choosing its tokens took.
    pub fn charge_sampling(&mut self, id: SequenceId, seconds: f64) {
        if let Some(sequence) = self.running.iter().find(|sequence| sequence.id == id) {
            self.shares.charge(sequence.tier, sequence.party, seconds);
        }
    }

    /// Books the guesses that the sampled tokens have confirmed, and forgets the others. How many there were, and how many
    /// of them were right.
    pub fn settle(&mut self, id: SequenceId) -> (usize, usize) {
        let Some(sequence) = self.running.iter_mut().find(|sequence| sequence.id == id) else { return (0, 0) };
        let draft = std::mem::take(&mut sequence.draft);
        if draft.is_empty() {
            return (0, 0);
        }
        let before = sequence.computed;
        let right = sequence.tokens[before..].iter().zip(&draft).take_while(|(token, guess)| token == guess).count();
        sequence.computed += right;
        self.blocks.commit(&mut sequence.blocks, &sequence.tokens, before, sequence.computed);
        self.blocks.shrink(&mut sequence.blocks, sequence.computed);
        (draft.len(), right)
    }

    /// Takes a sequence out, running or waiting, because it is finished, cancelled or failed. Its full, computed blocks
    /// stay cached. `None` if it is not (or no longer) here.
    pub fn remove(&mut self, id: SequenceId) -> Option<Sequence> {
        let mut sequence = match self.running.iter().position(|sequence| sequence.id == id) {
            Some(index) => self.running.remove(index),
            None => {
                let index = self.waiting.iter().position(|sequence| sequence.id == id)?;
                self.waiting.remove(index)
            }
        };
        self.shares.leave(sequence.tier, sequence.party);
        self.blocks.release(&mut sequence.blocks);
        Some(sequence)
    }

    /// A running sequence.
    pub fn running(&self, id: SequenceId) -> Option<&Sequence> {
        self.running.iter().find(|sequence| sequence.id == id)
    }

    /// The same, to be appended to.
    pub fn running_mut(&mut self, id: SequenceId) -> Option<&mut Sequence> {
        self.running.iter_mut().find(|sequence| sequence.id == id)
    }

    /// Running sequences, then waiting ones. Of one party and tier: the order of arrival.
    pub fn sequences(&self) -> impl Iterator<Item = &Sequence> {
        self.running.iter().chain(&self.waiting)
    }

    /// The sequences of the current step, in batch order.
    pub fn scheduled(&self) -> impl Iterator<Item = &Sequence> {
        self.running.iter().filter(|sequence| sequence.scheduled > 0)
    }

    pub fn num_running(&self) -> usize {
        self.running.len()
    }

    pub fn num_waiting(&self) -> usize {
        self.waiting.len()
    }

    pub fn is_idle(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    pub fn blocks(&self) -> &BlockManager {
        &self.blocks
    }

    pub fn totals(&self) -> SchedulerTotals {
        self.totals
    }

    /// Checks the books against the sequences: every block is accounted for, waiting sequences hold none, and the step
    /// writes private blocks only. The error says what is wrong.
    pub fn check_integrity(&self) -> Result<(), String> {
        self.blocks.check_integrity(self.running.iter().map(|sequence| &sequence.blocks))?;
        for sequence in self.scheduled() {
            let written = sequence.computed..sequence.computed + sequence.scheduled + sequence.draft.len();
            for table in sequence.blocks.tables() {
                let mut blocks = written.clone().map(|position| table[position / self.blocks.block_size()]);
                if let Some(block) = blocks.find(|block| !self.blocks.is_private(*block)) {
                    return Err(format!("{:?} writes to block {block}, which others can read", sequence.id));
                }
            }
        }
        Ok(())
    }
}

/// Whoever has the smallest is served first. Seconds are never negative, and so in the order of their bits.
fn rank(shares: &Shares, sequence: &Sequence) -> (Reverse<Tier>, u64, u64) {
    (Reverse(sequence.tier), shares.seconds(sequence.tier, sequence.party).to_bits(), sequence.arrival)
}
