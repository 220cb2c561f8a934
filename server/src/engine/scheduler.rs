//! Decides what each step computes. Pure: no tensors, no threads, no clock.
//!
//! One rule: a step has a budget of tokens, and every sequence spends from it to let `computed` catch up with its
//! length; first those that run, then those that wait, each in order of arrival. There is no prefill phase and no decode
//! phase. When the pool runs dry, the newest running sequence gives up its blocks and goes back to the head of the
//! queue. So `running` followed by `waiting` is always in order of arrival, and the oldest sequence is never held up.

use std::collections::VecDeque;
use std::ops::Range;

use taper_models::batch::{Batch, BatchSequence};

use super::blocks::BlockManager;
use super::config::EngineConfig;
use super::sequence::{NewSequence, Sequence, SequenceId};

/// The queue, the running sequences and their blocks.
#[derive(Debug)]
pub struct Scheduler {
    blocks: BlockManager,
    max_num_seqs: usize,
    max_num_batched_tokens: usize,
    max_scored_rows: usize,
    waiting: VecDeque<Sequence>,
    running: Vec<Sequence>,
    totals: SchedulerTotals,
}

/// Whose rows of logits a step has made, in the order of the batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRows {
    pub id: SequenceId,
    /// The prompt tokens that the first rows score, one a row.
    pub scored: Range<usize>,
    /// Whether one more row follows, from which the sequence's next token is to be sampled.
    pub is_complete: bool,
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
            waiting: VecDeque::new(),
            running: Vec::new(),
            totals: SchedulerTotals::default(),
        }
    }

    /// Queues a request. The caller has checked that prompt and output fit, see [`BlockManager::capacity`].
    pub fn submit(&mut self, new: NewSequence) {
        let blocks = self.blocks.new_sequence(new.cache_salt.as_deref());
        self.waiting.push_back(Sequence::new(new, blocks));
    }

    /// Chooses the tokens of the next step and returns them as a batch; `None` when there are no sequences.
    /// Must be followed by [`Self::commit`], or by [`Self::remove`] of every scheduled sequence if the step failed.
    pub fn schedule(&mut self) -> Option<Batch> {
        let mut budget = Budget { tokens: self.max_num_batched_tokens, scored_rows: self.max_scored_rows };
        let preempted = self.schedule_running(&mut budget);
        // What was just preempted would otherwise take its blocks straight back.
        if !preempted {
            self.admit_waiting(&mut budget);
        }
        if self.scheduled().next().is_none() {
            assert!(self.is_idle(), "the oldest sequence fits the pool, so it is always scheduled");
            return None;
        }
        self.totals.prefill_tokens += self.scheduled().map(Sequence::num_scheduled_prompt_tokens).sum::<usize>();
        Some(self.build_batch())
    }

    /// Gives running sequences their tokens, oldest first; says whether any lost its blocks.
    fn schedule_running(&mut self, budget: &mut Budget) -> bool {
        let preemptions = self.totals.preemptions;
        let mut index = 0;
        while index < self.running.len() && budget.tokens > 0 {
            let sequence = &mut self.running[index];
            let tokens = budget.offer(sequence.num_uncomputed(), sequence.scores_prompt());
            if self.blocks.grow(&mut sequence.blocks, sequence.computed + tokens) {
                sequence.scheduled = tokens;
                budget.take(tokens, sequence.scores_prompt());
                index += 1;
            } else {
                // The newest may be this very sequence; then the loop ends here.
                self.preempt_newest();
            }
        }
        self.totals.preemptions > preemptions
    }

    fn preempt_newest(&mut self) {
        let mut newest = self.running.pop().expect("only called while a running sequence lacks blocks");
        self.blocks.release(&mut newest.blocks);
        newest.computed = 0;
        self.waiting.push_front(newest);
        self.totals.preemptions += 1;
    }

    /// Lets waiting sequences begin, in order of arrival, as far as budget, places and blocks go.
    fn admit_waiting(&mut self, budget: &mut Budget) {
        while budget.tokens > 0 && self.running.len() < self.max_num_seqs {
            let Some(mut sequence) = self.waiting.pop_front() else {
                return;
            };
            if !self.begin(&mut sequence, budget) {
                self.waiting.push_front(sequence);
                return;
            }
            budget.take(sequence.scheduled, sequence.scores_prompt());
            self.running.push(sequence);
        }
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

    fn build_batch(&self) -> Batch {
        let block_size = self.blocks.block_size();
        let mut batch = Batch::default();
        for sequence in self.scheduled() {
            let (start, end) = (sequence.computed, sequence.computed + sequence.scheduled);
            let tables = sequence.blocks.tables();
            batch.sequences.push(BatchSequence {
                query_start: batch.tokens.len(),
                query_len: sequence.scheduled,
                context_len: end,
                block_tables: tables.to_vec(),
            });
            batch.tokens.extend_from_slice(&sequence.tokens[start..end]);
            batch.positions.extend((start..end).map(|position| position as u32));
            batch.slot_mappings.resize(tables.len(), Vec::new());
            for (slots, table) in batch.slot_mappings.iter_mut().zip(tables) {
                let slot = |position: usize| table[position / block_size] as usize * block_size + position % block_size;
                slots.extend((start..end).map(|position| slot(position) as u32));
            }
            let row_of = |position: usize| (batch.tokens.len() + position - end) as u32;
            let scored = sequence.scored_by_step().map(|token| row_of(token - 1));
            let last = (end == sequence.tokens.len()).then(|| row_of(end - 1));
            batch.logit_rows.extend(scored.chain(last).collect::<Vec<_>>());
        }
        batch
    }

    /// Books the step that has just run. Says whose the rows of its logits are, in the order of the batch's
    /// `logit_rows`.
    pub fn commit(&mut self) -> Vec<StepRows> {
        let mut rows = Vec::new();
        for sequence in self.running.iter_mut().filter(|sequence| sequence.scheduled > 0) {
            let before = sequence.computed;
            let scored = sequence.advance();
            self.blocks.commit(&mut sequence.blocks, &sequence.tokens, before, sequence.computed);
            let is_complete = sequence.num_uncomputed() == 0;
            if is_complete || !scored.is_empty() {
                rows.push(StepRows { id: sequence.id, scored, is_complete });
            }
        }
        rows
    }

    /// Takes a sequence out, running or waiting, because it is finished, cancelled or failed. Its full, computed blocks
    /// stay cached. `None` if it is not (or no longer) here.
    pub fn remove(&mut self, id: SequenceId) -> Option<Sequence> {
        let mut sequence = match self.running.iter().position(|sequence| sequence.id == id) {
            Some(index) => self.running.remove(index),
            None => {
                let index = self.waiting.iter().position(|sequence| sequence.id == id)?;
                self.waiting.remove(index)?
            }
        };
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

    /// Running sequences, then waiting ones: the order of arrival.
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
            let written = sequence.computed..sequence.computed + sequence.scheduled;
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
