//! The pool of physical cache blocks: which are free, which are in use and how often, which hold a reusable prefix.
//!
//! A block is in exactly one state, so `free + cached + used` is always the size of the pool:
//!
//! ```text
//!   free ── allocate ──> used ── last release, not published ──> free
//!                        used ── last release, published ──────> cached
//!   cached ── acquire (prefix hit) ──> used
//!   cached ── allocate, when nothing is free: longest unused first ──> used
//! ```
//!
//! The pool knows neither sequences nor windows; `blocks.rs` does.

use std::collections::{BTreeMap, HashMap};

/// Number of a physical block.
pub type BlockId = u32;

/// Identifies a whole prefix: everything from the first token of a sequence to the end of one full block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PrefixKey(pub(super) u128);

/// One full block of a prefix chain: its tokens, and the keys of the prefix before and after them.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChainLink<'a> {
    pub(super) parent: PrefixKey,
    pub(super) key: PrefixKey,
    pub(super) tokens: &'a [u32],
}

/// How many blocks are in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockCounts {
    pub free: usize,
    pub cached: usize,
    pub used: usize,
}

#[derive(Debug)]
pub(super) struct BlockPool {
    blocks: Vec<Block>,
    free: Vec<BlockId>,
    /// Cached blocks by the time of their last release: the first entry is evicted first.
    cached: BTreeMap<u64, BlockId>,
    /// Published blocks, used or cached. The same prefix has K and V of its own in every cache group.
    published: HashMap<(usize, PrefixKey), BlockId>,
    clock: u64,
}

#[derive(Debug, Default)]
struct Block {
    /// Tables that hold this block.
    refs: usize,
    /// What can be found in it; `None` until the block is full, computed and published.
    content: Option<Content>,
    released_at: u64,
}

#[derive(Debug)]
struct Content {
    group: usize,
    parent: PrefixKey,
    key: PrefixKey,
    tokens: Box<[u32]>,
}

impl BlockPool {
    pub(super) fn new(num_blocks: usize) -> Self {
        let last = BlockId::try_from(num_blocks).expect("the configuration bounds the number of slots");
        Self {
            blocks: (0..num_blocks).map(|_| Block::default()).collect(),
            free: (0..last).rev().collect(),
            cached: BTreeMap::new(),
            published: HashMap::new(),
            clock: 0,
        }
    }

    pub(super) fn num_blocks(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn counts(&self) -> BlockCounts {
        let (free, cached) = (self.free.len(), self.cached.len());
        BlockCounts { free, cached, used: self.blocks.len() - free - cached }
    }

    /// Blocks that `allocate` can hand out.
    pub(super) fn available(&self) -> usize {
        self.free.len() + self.cached.len()
    }

    /// A block for writing, with one reference; evicts the cached block that was unused longest if none is free.
    pub(super) fn allocate(&mut self) -> Option<BlockId> {
        let id = self.free.pop().or_else(|| self.evict())?;
        self.blocks[id as usize].refs = 1;
        Some(id)
    }

    fn evict(&mut self) -> Option<BlockId> {
        let (_, id) = self.cached.pop_first()?;
        let content = self.blocks[id as usize].content.take().expect("only published blocks are cached");
        self.published.remove(&(content.group, content.key));
        Some(id)
    }

    /// The block that holds `link` in `group`. Parent and tokens are compared as well: a hash collision must not serve
    /// another prompt's K and V.
    pub(super) fn find(&self, group: usize, link: &ChainLink) -> Option<BlockId> {
        let id = *self.published.get(&(group, link.key))?;
        let content = self.blocks[id as usize].content.as_ref()?;
        (content.parent == link.parent && *content.tokens == *link.tokens).then_some(id)
    }

    /// Adds a reference to a block that `find` returned.
    pub(super) fn acquire(&mut self, id: BlockId) {
        let block = &mut self.blocks[id as usize];
        if block.refs == 0 {
            self.cached.remove(&block.released_at);
        }
        block.refs += 1;
    }

    /// Makes a full, computed block findable. Where two sequences computed the same prefix at once, the first stays
    /// the findable one and the second block remains private to its sequence.
    pub(super) fn publish(&mut self, id: BlockId, group: usize, link: &ChainLink) {
        let block = &mut self.blocks[id as usize];
        if block.content.is_some() || self.published.contains_key(&(group, link.key)) {
            return;
        }
        block.content = Some(Content { group, parent: link.parent, key: link.key, tokens: link.tokens.into() });
        self.published.insert((group, link.key), id);
    }

    /// Drops one reference. The last one makes the block cached if it is published, else free.
    pub(super) fn release(&mut self, id: BlockId) {
        let block = &mut self.blocks[id as usize];
        block.refs = block.refs.checked_sub(1).expect("a table releases each of its blocks once");
        if block.refs > 0 {
            return;
        }
        if block.content.is_none() {
            self.free.push(id);
            return;
        }
        self.clock += 1;
        block.released_at = self.clock;
        self.cached.insert(self.clock, id);
    }

    /// References to a block, and whether it is published.
    pub(super) fn state(&self, id: BlockId) -> (usize, bool) {
        let block = &self.blocks[id as usize];
        (block.refs, block.content.is_some())
    }
}
