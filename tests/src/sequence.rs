//! Runs token sequences through a model with the plainest cache management there is: every block is a fresh one, in an
//! order that is not ascending, and a block behind a window is poisoned as soon as the model may no longer read it.

use candle_core::{DType, Device};
use taper_models::{Batch, BatchSequence, KvCache, Model, NULL_BLOCK};

const BLOCK_SIZE: usize = 16;

/// A model with sequences in its cache.
pub struct Bench {
    pub model: Model,
    cache: KvCache,
    free_blocks: Vec<u32>,
}

/// A sequence's place in the cache.
#[derive(Default, Clone)]
pub struct Cached {
    len: usize,
    block_tables: Vec<Vec<u32>>,
}

impl Bench {
    /// `model` with a cache of `num_blocks` blocks that holds NaN until something is written.
    pub fn new(model: Model, num_blocks: usize, dtype: DType) -> Self {
        let cache = model.new_cache(num_blocks, BLOCK_SIZE, dtype).unwrap();
        cache.fill(f32::NAN).unwrap();
        // Odd numbers first, then even ones: neighbours in a sequence are never neighbours in memory.
        let free_blocks = (0..num_blocks as u32).step_by(2).chain((1..num_blocks as u32).step_by(2)).collect();
        Self { model, cache, free_blocks }
    }

    /// Loads the checkpoint at `path` and gives it a cache of `num_blocks`.
    pub fn load(path: &std::path::Path, max_model_len: Option<usize>, num_blocks: usize, dtype: DType) -> Self {
        let model = Model::load(path, &Device::Cpu, max_model_len, &mut |_, _| true)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self::new(model, num_blocks, dtype)
    }

    /// Runs one step that appends `tokens[i]` to `sequences[i]`. Returns the logits of all new tokens, per sequence.
    pub fn step(&mut self, sequences: &mut [&mut Cached], tokens: &[&[u32]]) -> Vec<Vec<Vec<f32>>> {
        let groups = self.cache.plan.groups.clone();
        let mut batch = Batch { slot_mappings: vec![Vec::new(); groups.len()], ..Batch::default() };
        for (sequence, tokens) in sequences.iter_mut().zip(tokens) {
            let start = sequence.len;
            sequence.len += tokens.len();
            sequence.block_tables.resize(groups.len(), Vec::new());
            for (group, table) in sequence.block_tables.iter_mut().enumerate() {
                while table.len() * BLOCK_SIZE < sequence.len {
                    table.push(self.free_blocks.pop().expect("the test's cache is too small"));
                }
                batch.slot_mappings[group].extend(
                    (start..sequence.len).map(|p| table[p / BLOCK_SIZE] * BLOCK_SIZE as u32 + (p % BLOCK_SIZE) as u32),
                );
            }
            batch.sequences.push(BatchSequence {
                query_start: batch.tokens.len(),
                query_len: tokens.len(),
                context_len: sequence.len,
                block_tables: sequence.block_tables.clone(),
            });
            batch.positions.extend(start as u32..sequence.len as u32);
            batch.tokens.extend(*tokens);
        }
        batch.logit_rows = (0..batch.tokens.len() as u32).collect();
        let logits = self.model.forward(&batch, &self.cache).unwrap().to_vec2::<f32>().unwrap();
        for sequence in sequences.iter_mut() {
            for (group, table) in groups.iter().zip(&mut sequence.block_tables) {
                give_back_behind_window(table, sequence.len, group.window);
            }
        }
        batch.sequences.iter().map(|s| logits[s.query_start..s.query_start + s.query_len].to_vec()).collect()
    }

    /// Logits of `tokens` run in steps of `chunk` tokens. `[tokens, vocab]`
    pub fn run(&mut self, tokens: &[u32], chunk: usize) -> Vec<Vec<f32>> {
        let mut sequence = Cached::default();
        tokens.chunks(chunk).flat_map(|chunk| self.step(&mut [&mut sequence], &[chunk]).remove(0)).collect()
    }

    /// Greedy continuation of `prompt` by `count` tokens.
    pub fn greedy(&mut self, prompt: &[u32], count: usize) -> Vec<u32> {
        let mut sequence = Cached::default();
        let mut next = prompt.to_vec();
        (0..count)
            .map(|_| {
                let logits = self.step(&mut [&mut sequence], &[&next]).remove(0);
                next = vec![argmax(logits.last().unwrap())];
                next[0]
            })
            .collect()
    }
}

/// Drops the blocks that no later query sees. A model that read one all the same would fail on the missing block.
fn give_back_behind_window(table: &mut [u32], len: usize, window: Option<usize>) {
    let Some(window) = window else { return };
    let first_visible = (len + 1).saturating_sub(window);
    table[..first_visible / BLOCK_SIZE].fill(NULL_BLOCK);
}

/// Index of the largest value.
pub fn argmax(logits: &[f32]) -> u32 {
    (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap() as u32
}

/// The largest difference between two sets of logits, with where it is.
pub fn worst_difference(found: &[Vec<f32>], expected: &[Vec<f32>]) -> (f32, String) {
    assert_eq!(found.len(), expected.len(), "number of rows");
    let mut worst = (0.0, "nowhere".to_owned());
    for (row, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.len(), expected.len(), "vocabulary");
        for (column, (f, e)) in found.iter().zip(expected).enumerate() {
            let difference = (f - e).abs();
            // A NaN is worse than any number.
            if difference.is_nan() || difference > worst.0 {
                worst = (
                    if difference.is_nan() { f32::INFINITY } else { difference },
                    format!("row {row}, token {column}: {f}, expected {e}"),
                );
            }
        }
    }
    worst
}
