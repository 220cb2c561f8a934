//! Where in large pieces of device memory the small ones lie: a caching allocator, which asks the driver seldom. It knows
//! addresses and sizes only, so it is tested without a device.
//!
//! Small and large requests come from separate segments, so that a short-lived small one does not hold a large segment. A request
//! takes the smallest free block that holds it and leaves the rest; freed neighbours are joined.

use std::collections::{BTreeMap, BTreeSet};

/// Every block starts and ends so many bytes from its segment's start.
const GRANULE: u64 = 512;
/// What drivers promise of an allocation's address at least, and kernels need of a tensor's.
const ALIGN: u64 = 256;
/// Requests up to this many bytes are small.
const LARGEST_SMALL: u64 = 1 << 20;
const SMALL_SEGMENT: u64 = 8 << 20;
const LARGE_SEGMENT: u64 = 64 << 20;
/// Of a large block, no less than this is left over: it would fit nothing.
const SMALLEST_LARGE_REST: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Pool {
    Small,
    Large,
}

impl Pool {
    fn of(bytes: u64) -> Self {
        if bytes <= LARGEST_SMALL { Self::Small } else { Self::Large }
    }

    fn smallest_rest(self) -> u64 {
        match self {
            Self::Small => GRANULE,
            Self::Large => SMALLEST_LARGE_REST,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Block {
    bytes: u64,
    segment: u64,
    is_free: bool,
}

/// Blocks by their address, within segments.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    blocks: BTreeMap<u64, Block>,
    /// By size, then address.
    free: BTreeMap<Pool, BTreeSet<(u64, u64)>>,
    /// Bytes by address.
    segments: BTreeMap<u64, (u64, Pool)>,
    stats: MemoryStats,
}

/// What an allocator holds, in bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct MemoryStats {
    /// In use.
    pub allocated: u64,
    pub peak_allocated: u64,
    /// Taken from the driver.
    pub reserved: u64,
    /// How many pieces were taken from the driver.
    pub segments: u64,
    /// The largest request that is met without the driver.
    pub largest_free: u64,
}

impl Arena {
    /// A block of at least so many bytes, if a segment has one.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<u64> {
        let bytes = rounded(bytes);
        let pool = Pool::of(bytes);
        let free = self.free.get_mut(&pool)?;
        let &(size, address) = free.range((bytes, 0)..).next()?;
        free.remove(&(size, address));
        let block = self.blocks.get_mut(&address)?;
        block.is_free = false;
        let rest = size - bytes;
        if rest >= pool.smallest_rest() {
            block.bytes = bytes;
            let rest = Block { bytes: rest, segment: block.segment, is_free: true };
            self.blocks.insert(address + bytes, rest);
            free.insert((rest.bytes, address + bytes));
        }
        self.stats.allocated += self.blocks[&address].bytes;
        self.stats.peak_allocated = self.stats.peak_allocated.max(self.stats.allocated);
        Some(address)
    }

    /// The smallest segment that serves a request.
    pub(crate) fn smallest_segment_for(bytes: u64) -> u64 {
        rounded(bytes)
    }

    /// How large a segment the driver is to give for a request that none has room for.
    pub(crate) fn segment_for(bytes: u64) -> u64 {
        match Pool::of(rounded(bytes)) {
            Pool::Small => SMALL_SEGMENT,
            // A large one of its own: weights are many such, and stay.
            Pool::Large => rounded(bytes).max(LARGE_SEGMENT.min(rounded(bytes).next_power_of_two())),
        }
    }

    /// Adds what the driver gave for a request.
    pub(crate) fn add_segment(&mut self, address: u64, segment: u64, request: u64) {
        let pool = Pool::of(rounded(request));
        debug_assert!(address.is_multiple_of(ALIGN) && segment >= rounded(request));
        self.segments.insert(address, (segment, pool));
        self.blocks.insert(address, Block { bytes: segment, segment: address, is_free: true });
        self.free.entry(pool).or_default().insert((segment, address));
        self.stats.reserved += segment;
        self.stats.segments += 1;
    }

    /// Gives a block back.
    ///
    /// # Panics
    /// Where no block in use starts at the address.
    pub(crate) fn give_back(&mut self, address: u64) {
        let block = self.blocks[&address];
        assert!(!block.is_free, "{address:#x} is free already");
        self.stats.allocated -= block.bytes;
        let pool = self.segments[&block.segment].1;
        let (mut start, mut bytes) = (address, block.bytes);
        let free = self.free.entry(pool).or_default();
        let joins = |other: &Block| other.is_free && other.segment == block.segment;
        if let Some((&next, other)) = self.blocks.range(address + bytes..).next()
            && joins(other)
        {
            free.remove(&(other.bytes, next));
            bytes += other.bytes;
            self.blocks.remove(&next);
        }
        if let Some((&before, other)) = self.blocks.range(..address).next_back()
            && joins(other)
        {
            free.remove(&(other.bytes, before));
            start = before;
            bytes += other.bytes;
            self.blocks.remove(&address);
        }
        self.blocks.insert(start, Block { bytes, segment: block.segment, is_free: true });
        free.insert((bytes, start));
    }

    /// Removes the segments that nothing is in use of, and says where they are, for the driver to take back.
    pub(crate) fn trim(&mut self) -> Vec<u64> {
        let whole = |(address, &(bytes, _)): (&u64, &(u64, Pool))| {
            let block = self.blocks.get(address)?;
            (block.is_free && block.bytes == bytes).then_some(*address)
        };
        let unused: Vec<u64> = self.segments.iter().filter_map(whole).collect();
        for address in &unused {
            if let Some((bytes, pool)) = self.segments.remove(address) {
                self.blocks.remove(address);
                self.free.entry(pool).or_default().remove(&(bytes, *address));
                self.stats.reserved -= bytes;
                self.stats.segments -= 1;
            }
        }
        unused
    }

    pub(crate) fn stats(&self) -> MemoryStats {
        let largest = |pool| self.free.get(&pool).and_then(|free| free.last()).map_or(0, |(bytes, _)| *bytes);
        let largest_free = largest(Pool::Large).max(largest(Pool::Small).min(LARGEST_SMALL));
        MemoryStats { largest_free, ..self.stats }
    }
}

fn rounded(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(GRANULE)
}

#[cfg(test)]
mod tests {
    use super::{Arena, GRANULE, MemoryStats};

    /// A driver that never gives an address twice.
    fn take(arena: &mut Arena, next: &mut u64, bytes: u64) -> u64 {
        arena.take(bytes).unwrap_or_else(|| {
            let segment = Arena::segment_for(bytes);
            arena.add_segment(*next, segment, bytes);
            *next += segment + GRANULE;
            arena.take(bytes).expect("the segment was made for it")
        })
    }

    #[test]
    fn blocks_in_use_never_overlap_and_all_come_back() {
        let (mut arena, mut next, mut seed) = (Arena::default(), 1 << 40, 1u64);
        let mut random = |end: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % end
        };
        let mut live: Vec<(u64, u64)> = Vec::new();
        for _ in 0..20_000 {
            if live.is_empty() || random(5) < 3 && live.len() < 300 {
                let size = random(24);
                let bytes = 1 + random(1 << size);
                let at = take(&mut arena, &mut next, bytes);
                let overlaps = |&(other, len): &(u64, u64)| at < other + len && other < at + bytes;
                assert!(!live.iter().any(overlaps), "{bytes} bytes at {at:#x}");
                assert!(at.is_multiple_of(GRANULE));
                live.push((at, bytes));
            } else {
                let (at, _) = live.swap_remove(random(live.len() as u64) as usize);
                arena.give_back(at);
            }
            let in_use: u64 = live.iter().map(|(_, bytes)| bytes).sum();
            assert!(arena.stats().allocated >= in_use && arena.stats().reserved >= arena.stats().allocated);
        }
        live.iter().for_each(|(at, _)| arena.give_back(*at));
        let segments = arena.segments.len();
        assert_eq!(arena.trim().len(), segments, "every segment is whole again");
        let peak_allocated = arena.stats().peak_allocated;
        assert_eq!(arena.stats(), MemoryStats { peak_allocated, ..MemoryStats::default() });
    }

    #[test]
    fn freed_neighbours_become_one_block() {
        let (mut arena, mut next) = (Arena::default(), 0x1000_0000);
        let blocks: Vec<u64> = (0..3).map(|_| take(&mut arena, &mut next, 1 << 20)).collect();
        assert_eq!((blocks[1] - blocks[0], blocks[2] - blocks[1]), (1 << 20, 1 << 20));
        arena.give_back(blocks[0]);
        arena.give_back(blocks[2]);
        arena.give_back(blocks[1]);
        assert_eq!((arena.blocks.len(), arena.stats().segments), (1, 1));
        assert_eq!(arena.stats().largest_free, 1 << 20, "a larger request does not come from this segment");
    }

    #[test]
    fn a_freed_block_serves_the_next_request_of_its_size() {
        let (mut arena, mut next) = (Arena::default(), 0x1000_0000);
        let first = take(&mut arena, &mut next, 100 << 20);
        arena.give_back(first);
        assert_eq!(take(&mut arena, &mut next, 100 << 20), first);
        assert_eq!((arena.stats().segments, arena.stats().reserved), (1, 100 << 20));
    }

    #[test]
    #[should_panic(expected = "is free already")]
    fn giving_back_twice_is_a_fault() {
        let (mut arena, mut next) = (Arena::default(), 0x1000_0000);
        let at = take(&mut arena, &mut next, 1);
        arena.give_back(at);
        arena.give_back(at);
    }
}
