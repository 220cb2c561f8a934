//! Which block of the pool holds which tokens of which sequence, for every cache group of the model.
//!
//! A sequence has one block table per group. Full-attention groups keep all its blocks; sliding-window groups give back
//! what no later token can see. Full blocks are addressed by a hash chain over the tokens, so that a sequence that
//! starts like an earlier one takes over its blocks. Only whole blocks are shared and a shared block is never written:
//! a sequence goes on in a block of its own. This file knows no requests and no time.

use std::hash::{BuildHasher, Hash, RandomState};

use taper_models::batch::NULL_BLOCK;

use super::pool::{BlockCounts, BlockId, BlockPool, ChainLink, PrefixKey};

/// Hands blocks of one pool to sequences.
#[derive(Debug)]
pub struct BlockManager {
    pool: BlockPool,
    block_size: usize,
    /// Per cache group: its window, or `None` for full attention.
    windows: Vec<Option<usize>>,
    prefix_caching: bool,
    /// Keyed per process, so that no prompt can be made to collide with another.
    hasher: RandomState,
}

/// The blocks of one sequence. Must be given back through [`BlockManager::release`].
#[derive(Debug, Clone)]
pub struct SequenceBlocks {
    /// Per cache group: physical block of each logical block, [`NULL_BLOCK`] where given back.
    tables: Vec<Vec<BlockId>>,
    /// `keys[i]` names the tokens before block `i`; `keys[0]` is the request's salt. Grows as prefixes are looked up or
    /// published, and outlives a preemption.
    keys: Vec<PrefixKey>,
}

impl SequenceBlocks {
    /// Per cache group: the physical block of each logical block.
    pub fn tables(&self) -> &[Vec<BlockId>] {
        &self.tables
    }

    /// Blocks that it holds, alone or with others.
    pub fn num_held(&self) -> usize {
        self.tables.iter().flatten().filter(|id| **id != NULL_BLOCK).count()
    }

    /// The link of logical block `index`; `keys` must reach beyond it.
    fn link<'a>(&self, index: usize, tokens: &'a [u32], block_size: usize) -> ChainLink<'a> {
        let tokens = &tokens[index * block_size..(index + 1) * block_size];
        ChainLink { parent: self.keys[index], key: self.keys[index + 1], tokens }
    }
}

/// Most blocks that a sequence of `len` tokens ever holds, in all cache groups of these `windows` together, when it is
/// computed in chunks of at most `chunk` tokens.
pub fn peak_blocks(windows: &[Option<usize>], block_size: usize, len: usize, chunk: usize) -> usize {
    let whole = len.div_ceil(block_size);
    let peak = |window: &Option<usize>| match window {
        None => whole,
        // A chunk and what its first token sees; one block more because neither need start on a block's edge.
        Some(window) => whole.min((window - 1 + chunk).div_ceil(block_size) + 1),
    };
    windows.iter().map(peak).sum()
}

impl BlockManager {
    /// A manager of `num_blocks` blocks of `block_size` tokens for cache groups with these windows.
    pub fn new(num_blocks: usize, block_size: usize, windows: &[Option<usize>], prefix_caching: bool) -> Self {
        let pool = BlockPool::new(num_blocks);
        Self { pool, block_size, windows: windows.to_vec(), prefix_caching, hasher: RandomState::new() }
    }

    /// An empty set of blocks. Sequences share prefixes only with sequences of the same `salt`.
    pub fn new_sequence(&self, salt: Option<&str>) -> SequenceBlocks {
        SequenceBlocks { tables: vec![Vec::new(); self.windows.len()], keys: vec![self.key(salt)] }
    }

    /// Whether equal prefixes of two sequences are shared.
    pub fn may_share(&self, one: &SequenceBlocks, other: &SequenceBlocks) -> bool {
        self.prefix_caching && one.keys[0] == other.keys[0]
    }

    pub fn block_size(&self) -> usize {
        self.block_size
    }

    pub fn num_blocks(&self) -> usize {
        self.pool.num_blocks()
    }

    /// Number of free, cached and used blocks.
    pub fn counts(&self) -> BlockCounts {
        self.pool.counts()
    }

    /// Gives an empty sequence the cached blocks of its longest known prefix and returns the number of tokens in them.
    /// At least one token is left to compute: the model must run to produce logits.
    pub fn take_prefix(&mut self, blocks: &mut SequenceBlocks, tokens: &[u32]) -> usize {
        if !self.prefix_caching {
            return 0;
        }
        let hit = self.longest_prefix(blocks, tokens);
        let computed = hit * self.block_size;
        for (group, window) in self.windows.iter().enumerate() {
            let first_visible = first_visible_block(*window, computed, self.block_size);
            blocks.tables[group].resize(first_visible, NULL_BLOCK);
            for index in first_visible..hit {
                let link = blocks.link(index, tokens, self.block_size);
                let id = self.pool.find(group, &link).expect("longest_prefix has just found it");
                self.pool.acquire(id);
                blocks.tables[group].push(id);
            }
        }
        computed
    }

    /// Most blocks `n` such that every group still holds those blocks of the first `n` that position
    /// `n * block_size` can see: all of them under full attention, the last few behind a window.
    fn longest_prefix(&self, blocks: &mut SequenceBlocks, tokens: &[u32]) -> usize {
        let mut hit = 0;
        // Per group: found blocks in a row, up to and including the current one.
        let mut runs = vec![0; self.windows.len()];
        for count in 1..=(tokens.len() - 1) / self.block_size {
            self.extend_keys(blocks, tokens, count);
            let link = blocks.link(count - 1, tokens, self.block_size);
            for (group, run) in runs.iter_mut().enumerate() {
                *run = if self.pool.find(group, &link).is_some() { *run + 1 } else { 0 };
            }
            let visible = |window| count - first_visible_block(window, count * self.block_size, self.block_size);
            let mut groups = self.windows.iter().zip(&runs);
            if groups.clone().all(|(window, run)| *run >= visible(*window)) {
                hit = count;
            }
            if groups.any(|(window, run)| window.is_none() && *run < count) {
                break;
            }
        }
        hit
    }

    /// Makes `blocks.keys` name the first `count` blocks of `tokens`.
    fn extend_keys(&self, blocks: &mut SequenceBlocks, tokens: &[u32], count: usize) {
        while blocks.keys.len() <= count {
            let index = blocks.keys.len() - 1;
            let content = (blocks.keys[index], &tokens[index * self.block_size..(index + 1) * self.block_size]);
            blocks.keys.push(self.key(content));
        }
    }

    /// 128 bits: at 64, two of some billions of prefixes would share a key.
    fn key(&self, content: impl Hash + Copy) -> PrefixKey {
        let [high, low] = [0u8, 1].map(|half| u128::from(self.hasher.hash_one((half, content))));
        PrefixKey(high << 64 | low)
    }

    /// Tokens that the tables can be made to cover with what the pool has now.
    pub fn reach(&self, blocks: &SequenceBlocks) -> usize {
        // All tables cover the same.
        let covering = blocks.tables[0].len() + self.pool.available() / blocks.tables.len();
        covering * self.block_size
    }

    /// Makes every table cover `len` tokens. `false`, and nothing changed, if the pool cannot give so many blocks.
    pub fn grow(&mut self, blocks: &mut SequenceBlocks, len: usize) -> bool {
        let covering = len.div_ceil(self.block_size);
        let missing: usize = blocks.tables.iter().map(|table| covering.saturating_sub(table.len())).sum();
        if missing > self.pool.available() {
            return false;
        }
        for table in &mut blocks.tables {
            while table.len() < covering {
                table.push(self.pool.allocate().expect("availability was checked for all tables"));
            }
        }
        true
    }

    /// Gives back the blocks behind the first `len` tokens, which hold nothing of use.
    pub fn shrink(&mut self, blocks: &mut SequenceBlocks, len: usize) {
        let covering = len.div_ceil(self.block_size);
        for table in &mut blocks.tables {
            for id in table.drain(covering.min(table.len())..).rev() {
                self.pool.release(id);
            }
        }
    }

    /// Takes note that the K and V of `tokens[before..computed]` are now written: full blocks become shareable, and
    /// blocks that no token from `computed` on can see are given back.
    pub fn commit(&mut self, blocks: &mut SequenceBlocks, tokens: &[u32], before: usize, computed: usize) {
        if self.prefix_caching {
            self.extend_keys(blocks, tokens, computed / self.block_size);
            for index in before / self.block_size..computed / self.block_size {
                let link = blocks.link(index, tokens, self.block_size);
                for (group, table) in blocks.tables.iter().enumerate() {
                    self.pool.publish(table[index], group, &link);
                }
            }
        }
        for (table, window) in blocks.tables.iter_mut().zip(&self.windows) {
            let first_visible = first_visible_block(*window, computed, self.block_size);
            for entry in table[..first_visible].iter_mut().rev().take_while(|entry| **entry != NULL_BLOCK) {
                self.pool.release(*entry);
                *entry = NULL_BLOCK;
            }
        }
    }

    /// Gives all blocks back, the last first: so the tail of a prefix is evicted before its head, without which it could
    /// not be found.
    pub fn release(&mut self, blocks: &mut SequenceBlocks) {
        for table in &mut blocks.tables {
            for id in table.drain(..).rev().filter(|id| *id != NULL_BLOCK) {
                self.pool.release(id);
            }
        }
    }

    /// Whether a new sequence can get all that it needs to compute `len` tokens in chunks of at most `chunk`, if `more` blocks
    /// were free.
    pub fn has_room(&self, len: usize, chunk: usize, more: usize) -> bool {
        self.peak_blocks(len, chunk) <= self.pool.available() + more
    }

    /// Whether a sequence that already has `blocks` can get all that it needs to compute `len` tokens in chunks of at
    /// most `chunk`, as long as no one else takes any.
    pub fn can_hold(&self, blocks: &SequenceBlocks, len: usize, chunk: usize) -> bool {
        self.has_room(len, chunk, blocks.num_held())
    }

    /// [`peak_blocks`] of this manager's groups.
    pub fn peak_blocks(&self, len: usize, chunk: usize) -> usize {
        peak_blocks(&self.windows, self.block_size, len, chunk)
    }

    /// Most tokens, up to `limit`, of a sequence that has the pool to itself and is computed in chunks of `chunk`.
    pub fn capacity(&self, limit: usize, chunk: usize) -> usize {
        let (mut fits, mut beyond) = (0, limit + 1);
        while beyond - fits > 1 {
            let len = fits + (beyond - fits) / 2;
            if self.peak_blocks(len, chunk) <= self.num_blocks() {
                fits = len;
            } else {
                beyond = len;
            }
        }
        fits
    }

    /// Compares the pool's books with the sequences that hold blocks; the error names the first block that disagrees.
    pub fn check_integrity<'a>(&self, live: impl Iterator<Item = &'a SequenceBlocks>) -> Result<(), String> {
        let mut held = vec![0; self.num_blocks()];
        for id in live.flat_map(|blocks| blocks.tables.iter().flatten()).filter(|id| **id != NULL_BLOCK) {
            held[*id as usize] += 1;
        }
        for (id, held) in (0..).zip(&held) {
            let (refs, published) = self.pool.state(id);
            if refs != *held || (refs > 1 && !published) {
                return Err(format!("block {id}: {refs} references, {held} table entries, published: {published}"));
            }
        }
        let used = held.iter().filter(|held| **held > 0).count();
        if used != self.counts().used {
            return Err(format!("{used} blocks are in tables, but the pool counts {:?}", self.counts()));
        }
        Ok(())
    }

    /// Whether `id` belongs to one sequence alone and is not findable by others: only then may it be written.
    pub fn is_private(&self, id: BlockId) -> bool {
        self.pool.state(id) == (1, false)
    }
}

/// First logical block with a position that queries from `query` on can see: a key at `k` is visible to a query at `p`
/// if and only if `p - window < k <= p`.
fn first_visible_block(window: Option<usize>, query: usize, block_size: usize) -> usize {
    window.map_or(0, |window| (query + 1).saturating_sub(window) / block_size)
}
