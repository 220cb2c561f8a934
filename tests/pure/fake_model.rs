//! A model without tensors that notices when the cache is wrong.
//!
//! Per slot it stores which token was written, at which position, in which cache group, and a value that depends on the
//! whole prefix, as K and V do in a real model. A query reads all that it can see back through its block tables: a slot
//! that holds anything but the right position and token is a panic. The logits are a hash of the values read, so a wrong
//! prefix changes the output; `reference_logits` gives the same without cache, batches or blocks.

use std::collections::HashSet;

use taper_models::batch::{Batch, BatchSequence, NULL_BLOCK};
use taper_server::engine::{Logits, ModelRunner, RunnerError};

pub const VOCAB: usize = 61;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Entry {
    group: usize,
    position: usize,
    token: u32,
    value: u64,
}

pub struct FakeModel {
    block_size: usize,
    windows: Vec<Option<usize>>,
    slots: Vec<Option<Entry>>,
}

impl FakeModel {
    pub fn new(num_blocks: usize, block_size: usize, windows: &[Option<usize>]) -> Self {
        Self { block_size, windows: windows.to_vec(), slots: vec![None; num_blocks * block_size] }
    }

    /// Checks that the batch is well formed: contiguous sequences and positions, tables that cover the context, slots
    /// that agree with the tables, no slot written twice.
    fn check_layout(&self, batch: &Batch) {
        let mut written = HashSet::new();
        let mut row = 0;
        for sequence in &batch.sequences {
            assert_eq!(sequence.query_start, row, "sequences follow each other: {batch:?}");
            assert!(sequence.query_len > 0, "a sequence without tokens: {batch:?}");
            let first = sequence.context_len - sequence.query_len;
            for (group, table) in sequence.block_tables.iter().enumerate() {
                assert_eq!(table.len(), sequence.context_len.div_ceil(self.block_size), "table of group {group}");
                for offset in 0..sequence.query_len {
                    let slot = batch.slot_mappings[group][row + offset] as usize;
                    assert_eq!(batch.positions[row + offset] as usize, first + offset, "positions of {sequence:?}");
                    assert_eq!(slot, self.slot(table, first + offset), "slot of position {}", first + offset);
                    assert!(written.insert(slot), "slot {slot} is written twice in one step");
                }
            }
            row += sequence.query_len;
        }
        assert_eq!(row, batch.num_tokens());
        assert!(batch.logit_rows.is_sorted(), "{:?}", batch.logit_rows);
    }

    fn slot(&self, table: &[u32], position: usize) -> usize {
        let block = table[position / self.block_size];
        assert_ne!(block, NULL_BLOCK, "position {position} is needed, but its block was given back");
        block as usize * self.block_size + position % self.block_size
    }

    fn entry(&self, sequence: &BatchSequence, group: usize, position: usize) -> Entry {
        let slot = self.slot(&sequence.block_tables[group], position);
        let entry = self.slots[slot].unwrap_or_else(|| panic!("slot {slot} is read before it is written"));
        assert_eq!((entry.group, entry.position), (group, position), "slot {slot} belongs to another sequence");
        entry
    }

    /// The entries that a query at `query` sees, in order of position.
    fn read(&self, sequence: &BatchSequence, group: usize, query: usize) -> Vec<Entry> {
        let visible = first_visible(self.windows[group], query)..=query;
        visible.map(|position| self.entry(sequence, group, position)).collect()
    }

    /// Writes and reads one token in all groups; returns the hash from which its logits are made.
    fn run_token(&mut self, batch: &Batch, sequence: &BatchSequence, row: usize) -> u64 {
        let (position, token) = (batch.positions[row] as usize, batch.tokens[row]);
        let mut hash = 0;
        let mut seen: Vec<Entry> = Vec::new();
        for group in 0..self.windows.len() {
            let sees_previous = position > first_visible(self.windows[group], position);
            let before = sees_previous.then(|| self.entry(sequence, group, position - 1).value);
            let entry = Entry { group, position, token, value: value(before, token, position) };
            self.slots[batch.slot_mappings[group][row] as usize] = Some(entry);
            let entries = self.read(sequence, group, position);
            for (a, b) in entries.iter().rev().zip(seen.iter().rev()) {
                assert_eq!((a.position, a.token), (b.position, b.token), "the groups disagree about a token");
            }
            hash = entries.iter().fold(hash, |hash, entry| mix(hash, entry.value));
            seen = if entries.len() > seen.len() { entries } else { seen };
        }
        hash
    }

    /// Checks that all a sequence of `tokens` can still see reads back as exactly those tokens.
    pub fn assert_holds(&self, sequence: &BatchSequence, tokens: &[u32]) {
        for group in 0..self.windows.len() {
            let read = self.read(sequence, group, sequence.context_len - 1);
            let first = first_visible(self.windows[group], sequence.context_len - 1);
            let read: Vec<u32> = read.iter().map(|entry| entry.token).collect();
            assert_eq!(read, &tokens[first..sequence.context_len], "tokens in the cache of group {group}");
        }
    }
}

impl ModelRunner for FakeModel {
    fn forward(&mut self, batch: &Batch) -> Result<Logits, RunnerError> {
        self.check_layout(batch);
        let mut logits = Logits { rows: Vec::new(), vocab_size: VOCAB };
        for sequence in &batch.sequences {
            for row in sequence.query_start..sequence.query_start + sequence.query_len {
                let hash = self.run_token(batch, sequence, row);
                if batch.logit_rows.contains(&(row as u32)) {
                    logits.rows.extend(logits_of(hash));
                }
            }
        }
        Ok(logits)
    }

    fn vocab_size(&self) -> usize {
        VOCAB
    }
}

/// The logits after `tokens`, computed without any cache.
pub fn reference_logits(tokens: &[u32], windows: &[Option<usize>]) -> Vec<f32> {
    let mut hash = 0;
    for window in windows {
        let mut values: Vec<u64> = Vec::new();
        for (position, token) in tokens.iter().enumerate() {
            let sees_previous = position > first_visible(*window, position);
            let before = values.last().copied().filter(|_| sees_previous);
            values.push(value(before, *token, position));
        }
        let visible = &values[first_visible(*window, tokens.len() - 1)..];
        hash = visible.iter().fold(hash, |hash, value| mix(hash, *value));
    }
    logits_of(hash)
}

/// `count` greedy tokens after `prompt`, computed without any cache.
pub fn reference_greedy(prompt: &[u32], count: usize, windows: &[Option<usize>]) -> Vec<u32> {
    let mut tokens = prompt.to_vec();
    for _ in 0..count {
        tokens.push(argmax(&reference_logits(&tokens, windows)));
    }
    tokens.split_off(prompt.len())
}

/// Index of the largest value, the first among equals.
pub fn argmax(row: &[f32]) -> u32 {
    let best = |best: usize, index: usize| if row[index] > row[best] { index } else { best };
    (0..row.len()).fold(0, best) as u32
}

fn first_visible(window: Option<usize>, query: usize) -> usize {
    window.map_or(0, |window| (query + 1).saturating_sub(window))
}

fn value(before: Option<u64>, token: u32, position: usize) -> u64 {
    mix(mix(before.unwrap_or(7), u64::from(token)), position as u64)
}

fn logits_of(hash: u64) -> Vec<f32> {
    (0..VOCAB as u64).map(|id| (mix(hash, id) >> 40) as f32 / (1 << 21) as f32).collect()
}

/// SplitMix64's finaliser over both numbers.
fn mix(a: u64, b: u64) -> u64 {
    let mut z = (a ^ b.rotate_left(32)).wrapping_add(0x9E37_79B9_7F4A_7C15u64.wrapping_mul(b | 1));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
