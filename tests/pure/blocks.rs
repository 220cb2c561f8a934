//! The block manager alone: sharing, eviction order, windows, and the arithmetic of what fits.

use taper_models::batch::NULL_BLOCK;
use taper_server::engine::BlockCounts;
use taper_server::engine::blocks::{BlockManager, SequenceBlocks};

const BLOCK: usize = 4;

fn manager(num_blocks: usize, windows: &[Option<usize>]) -> BlockManager {
    BlockManager::new(num_blocks, BLOCK, windows, true)
}

/// A sequence that has computed all of `tokens`, and the number of them that it took from the prefix cache.
fn computed(manager: &mut BlockManager, tokens: &[u32], salt: Option<&str>) -> (SequenceBlocks, usize) {
    let mut blocks = manager.new_sequence(salt);
    let hit = manager.take_prefix(&mut blocks, tokens);
    assert!(manager.grow(&mut blocks, tokens.len()), "no room for {} tokens: {:?}", tokens.len(), manager.counts());
    manager.commit(&mut blocks, tokens, hit, tokens.len());
    (blocks, hit)
}

fn hit(manager: &mut BlockManager, tokens: &[u32], salt: Option<&str>) -> usize {
    let mut blocks = manager.new_sequence(salt);
    let hit = manager.take_prefix(&mut blocks, tokens);
    manager.release(&mut blocks);
    hit
}

fn tokens(from: u32, len: usize) -> Vec<u32> {
    (from..).take(len).collect()
}

#[test]
fn equal_prefixes_share_their_full_blocks() {
    let mut manager = manager(16, &[None]);
    let (first, _) = computed(&mut manager, &tokens(0, 10), None);
    let (second, hit) = computed(&mut manager, &tokens(0, 13), None);
    assert_eq!(hit, 8, "two full blocks of ten tokens");
    assert_eq!(first.tables()[0][..2], second.tables()[0][..2]);
    assert_ne!(first.tables()[0][2], second.tables()[0][2], "the partial block is private");
    assert_eq!(manager.counts().used, 3 + 2);
}

#[test]
fn one_token_is_always_left_to_compute() {
    let mut manager = manager(16, &[None]);
    let (mut blocks, _) = computed(&mut manager, &tokens(0, 8), None);
    manager.release(&mut blocks);
    assert_eq!(hit(&mut manager, &tokens(0, 8), None), 4);
    assert_eq!(hit(&mut manager, &tokens(0, 9), None), 8);
}

#[test]
fn the_same_block_after_another_prefix_is_not_a_hit() {
    let mut manager = manager(16, &[None]);
    computed(&mut manager, &[1, 1, 1, 1, 2, 2, 2, 2, 0], None);
    assert_eq!(hit(&mut manager, &[2, 2, 2, 2, 0], None), 0);
    assert_eq!(hit(&mut manager, &[1, 1, 1, 1, 1, 1, 1, 1, 0], None), 4);
}

#[test]
fn another_salt_is_not_a_hit() {
    let mut manager = manager(16, &[None]);
    computed(&mut manager, &tokens(0, 9), Some("a"));
    assert_eq!(hit(&mut manager, &tokens(0, 9), Some("b")), 0);
    assert_eq!(hit(&mut manager, &tokens(0, 9), None), 0);
    assert_eq!(hit(&mut manager, &tokens(0, 9), Some("a")), 8);
}

#[test]
fn blocks_are_shared_only_once_they_are_computed() {
    let mut manager = manager(16, &[None]);
    let mut blocks = manager.new_sequence(None);
    assert!(manager.grow(&mut blocks, 9));
    assert_eq!(hit(&mut manager, &tokens(0, 9), None), 0, "nothing is computed yet");
    manager.commit(&mut blocks, &tokens(0, 9), 0, 5);
    assert_eq!(hit(&mut manager, &tokens(0, 9), None), 4, "one block is full");
}

#[test]
fn two_sequences_that_compute_a_prefix_at_once_keep_their_own_blocks() {
    let mut manager = manager(16, &[None]);
    let mut both = [manager.new_sequence(None), manager.new_sequence(None)];
    for blocks in &mut both {
        assert_eq!(manager.take_prefix(blocks, &tokens(0, 9)), 0);
        assert!(manager.grow(blocks, 9));
    }
    for blocks in &mut both {
        manager.commit(blocks, &tokens(0, 9), 0, 9);
    }
    assert_eq!(manager.check_integrity(both.iter()), Ok(()));
    both.iter_mut().for_each(|blocks| manager.release(blocks));
    assert_eq!(manager.counts(), BlockCounts { free: 14, cached: 2, used: 0 });
}

#[test]
fn without_prefix_caching_every_block_becomes_free() {
    let mut manager = BlockManager::new(8, BLOCK, &[None], false);
    let (mut blocks, _) = computed(&mut manager, &tokens(0, 13), None);
    manager.release(&mut blocks);
    assert_eq!(manager.counts(), BlockCounts { free: 8, cached: 0, used: 0 });
    assert_eq!(hit(&mut manager, &tokens(0, 13), None), 0);
}

#[test]
fn the_prefix_unused_longest_is_evicted_first() {
    let mut manager = manager(4, &[None]);
    for from in [100, 200] {
        let (mut blocks, _) = computed(&mut manager, &tokens(from, 8), None);
        manager.release(&mut blocks);
    }
    assert_eq!(hit(&mut manager, &tokens(100, 9), None), 8, "which makes it the one used last");
    let mut other = manager.new_sequence(None);
    assert!(manager.grow(&mut other, 8));
    assert_eq!(hit(&mut manager, &tokens(200, 9), None), 0);
    assert_eq!(hit(&mut manager, &tokens(100, 9), None), 8);
}

#[test]
fn the_tail_of_a_prefix_is_evicted_before_its_head() {
    let mut manager = manager(4, &[None]);
    let (mut blocks, _) = computed(&mut manager, &tokens(0, 16), None);
    manager.release(&mut blocks);
    let mut other = manager.new_sequence(None);
    assert!(manager.grow(&mut other, 1));
    assert_eq!(hit(&mut manager, &tokens(0, 17), None), 12);
}

#[test]
fn grow_takes_all_or_nothing() {
    let mut manager = manager(5, &[None, None]);
    let mut blocks = manager.new_sequence(None);
    assert!(!manager.grow(&mut blocks, 9), "three blocks in two groups are six");
    assert_eq!(manager.counts().used, 0);
    assert!(manager.grow(&mut blocks, 8));
    assert_eq!(manager.counts().used, 4);
}

#[test]
fn blocks_behind_the_window_are_given_back() {
    let mut manager = manager(16, &[None, Some(5)]);
    let (blocks, _) = computed(&mut manager, &tokens(0, 13), None);
    // The next position is 13 and sees 9..=13: blocks 0 and 1 (up to position 7) are behind the window.
    let [full, window] = blocks.tables() else { panic!("two groups") };
    assert!(!full.contains(&NULL_BLOCK), "{full:?}");
    assert_eq!(window.iter().map(|id| *id == NULL_BLOCK).collect::<Vec<_>>(), [true, true, false, false]);
    assert_eq!(manager.counts(), BlockCounts { free: 8, cached: 2, used: 6 });
}

#[test]
fn a_block_is_kept_while_its_last_position_is_visible() {
    let mut manager = manager(16, &[Some(5)]);
    // The next position is 8 and sees 4..=8; at 7 it would see 3, the last position of block 0.
    let (blocks, _) = computed(&mut manager, &tokens(0, 7), None);
    assert_ne!(blocks.tables()[0][0], NULL_BLOCK);
    let (blocks, _) = computed(&mut manager, &tokens(50, 8), None);
    assert_eq!(blocks.tables()[0][0], NULL_BLOCK);
}

#[test]
fn a_window_group_needs_only_the_blocks_that_are_still_visible() {
    let mut manager = manager(5, &[Some(4)]);
    let (mut blocks, _) = computed(&mut manager, &tokens(0, 17), None);
    manager.release(&mut blocks);
    // Blocks 0 to 2 fell behind the window first, so they are the first to be evicted.
    let mut other = manager.new_sequence(None);
    assert!(manager.grow(&mut other, 13));
    assert_eq!(hit(&mut manager, &tokens(0, 17), None), 16, "position 16 sees 13..=16, and block 3 is still there");
    assert_eq!(hit(&mut manager, &tokens(0, 13), None), 0, "position 12 sees 9..=12, and block 2 is gone");
}

#[test]
fn a_full_group_needs_all_blocks_of_the_prefix() {
    let mut manager = manager(8, &[None, Some(4)]);
    let (mut blocks, _) = computed(&mut manager, &tokens(0, 16), None);
    manager.release(&mut blocks);
    assert_eq!(manager.counts(), BlockCounts { free: 0, cached: 8, used: 0 });
    // Evicts the window group's first three blocks, then the tail of the full group.
    let mut other = manager.new_sequence(None);
    assert!(manager.grow(&mut other, 8));
    assert_eq!(
        hit(&mut manager, &tokens(0, 17), None),
        0,
        "block 3 of the full group and 2 of the window group are gone"
    );
}

#[test]
fn peak_blocks_bounds_what_a_chunked_computation_holds() {
    for (window, chunk, len) in [(1, 1, 40), (4, 3, 40), (5, 8, 41), (9, 2, 17), (64, 16, 40), (3, 7, 2)] {
        let mut manager = manager(64, &[Some(window), None]);
        let mut blocks = manager.new_sequence(None);
        let mut peak = 0;
        for start in (0..len).step_by(chunk) {
            let end = len.min(start + chunk);
            assert!(manager.grow(&mut blocks, end));
            peak = peak.max(manager.counts().used);
            manager.commit(&mut blocks, &tokens(0, len), start, end);
        }
        let bound = manager.peak_blocks(len, chunk);
        assert!(peak <= bound, "window {window}, chunk {chunk}, len {len}: {peak} blocks, bound {bound}");
        assert!(bound <= peak + 2, "window {window}, chunk {chunk}, len {len}: bound {bound} is far above {peak}");
    }
}

#[test]
fn capacity_is_the_longest_sequence_whose_peak_fits() {
    assert_eq!(manager(10, &[None]).capacity(1000, 8), 40);
    assert_eq!(manager(10, &[None]).capacity(25, 8), 25);
    assert_eq!(manager(10, &[None, None]).capacity(1000, 8), 20);
    // A window of 5 and a chunk of 8 span at most 12 positions, so 4 blocks; 6 remain for the full group.
    assert_eq!(manager(10, &[None, Some(5)]).capacity(1000, 8), 24);
    assert_eq!(manager(10, &[Some(5)]).capacity(1000, 8), 1000);
    assert_eq!(manager(1, &[None, None]).capacity(1000, 8), 0);
}
