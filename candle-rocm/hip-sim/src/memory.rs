//! What is at a device address? Allocations, their contents, and the checks of every access to them.
//!
//! Device addresses have their upper bits set, so no host pointer is one: a kernel that reads host memory, and a host that reads
//! device memory, both fail at once. Addresses are never used twice and allocations stand apart, so an access past the
//! end or through a stale pointer never meets other data. Contents are atomic words, since workgroups run on threads.

use crate::fault::Trap;
use crate::wave::{Lanes, NUM_LANES};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A NaN as f32, and as f16 and bf16 in both halves; far outside any array as an index.
pub const POISON: u32 = 0xFFC1_FFC1;

/// Bit 47 and all above: instructions may extend the sign of an address's 48 bits, and no host pointer looks like this.
const FIRST_ADDRESS: u64 = 0xFFFF_9000_0000_0000;
const ALIGNMENT: u64 = 256;
/// Between allocations, so that an index that is off by a few rows hits nothing.
const GAP: u64 = 1 << 16;

/// A range of device addresses with its contents.
pub struct Allocation {
    pub base: u64,
    /// Bytes.
    pub size: u64,
    words: Box<[AtomicU32]>,
    /// Whether the program asked for it, and must free it.
    is_programs: bool,
}

impl Allocation {
    fn new(base: u64, size: u64, fill: u32) -> Allocation {
        let words = (0..size.div_ceil(4)).map(|_| AtomicU32::new(fill)).collect();
        Allocation { base, size, words, is_programs: false }
    }

    /// An allocation with these contents, in whole words.
    pub fn with_contents(base: u64, contents: &[u8]) -> Allocation {
        let allocation = Allocation::new(base, contents.len() as u64, 0);
        allocation.write(0, contents);
        allocation
    }

    fn contains(&self, address: u64, len: u64) -> bool {
        address.wrapping_sub(self.base) < self.size && self.size - (address - self.base) >= len
    }

    /// The word at a byte offset; offsets that are no multiple of 4 take the bytes of two words.
    #[inline]
    pub fn word(&self, offset: u64) -> u32 {
        let (index, shift) = ((offset / 4) as usize, offset % 4 * 8);
        let low = self.words[index].load(Relaxed);
        if shift == 0 {
            return low;
        }
        let high = self.words.get(index + 1).map_or(0, |word| word.load(Relaxed));
        (low >> shift) | (high << (32 - shift))
    }

    /// `N` words for each lane, from its byte offset on.
    #[inline]
    pub fn gather<const N: usize>(&self, offsets: &[u64; NUM_LANES]) -> [Lanes; N] {
        let mut result = [[0; NUM_LANES]; N];
        let is_aligned = offsets.iter().fold(0, |all, offset| all | offset).is_multiple_of(4);
        for lane in 0..NUM_LANES {
            if is_aligned {
                let first = (offsets[lane] / 4) as usize;
                let words = &self.words[first..first + N];
                for word in 0..N {
                    result[word][lane] = words[word].load(Relaxed);
                }
            } else {
                for word in 0..N {
                    result[word][lane] = self.word(offsets[lane] + 4 * word as u64);
                }
            }
        }
        result
    }

    #[inline]
    pub fn set_word(&self, offset: u64, value: u32) {
        if offset.is_multiple_of(4) {
            self.words[(offset / 4) as usize].store(value, Relaxed);
        } else {
            self.write(offset, &value.to_le_bytes());
        }
    }

    /// Replaces the bytes of one word that `mask` selects, and no others, even if another thread writes those.
    fn merge(&self, index: usize, mask: u32, value: u32) {
        let merged = |old: u32| Some((old & !mask) | (value & mask));
        self.words[index].fetch_update(Relaxed, Relaxed, merged).expect("the closure always gives a value");
    }

    /// Writes the low `len` bytes (1 or 2) of a value.
    pub fn set_part(&self, offset: u64, value: u32, len: u64) {
        if len == 2 && offset % 4 == 3 {
            return self.write(offset, &(value as u16).to_le_bytes());
        }
        let shift = offset % 4 * 8;
        let mask = if len == 1 { 0xFF } else { 0xFFFF };
        self.merge((offset / 4) as usize, mask << shift, value << shift);
    }

    /// Two neighbouring halves of a word in one store.
    pub fn set_aligned_pair(&self, offset: u64, low: u32, high: u32) {
        self.words[(offset / 4) as usize].store((low & 0xFFFF) | (high << 16), Relaxed);
    }

    pub fn atomic(&self, offset: u64) -> &AtomicU32 {
        &self.words[(offset / 4) as usize]
    }

    pub fn read(&self, offset: u64, bytes: &mut [u8]) {
        let mut at = offset;
        for chunk in bytes.chunks_mut(4) {
            chunk.copy_from_slice(&self.word(at).to_le_bytes()[..chunk.len()]);
            at += 4;
        }
    }

    pub fn write(&self, offset: u64, bytes: &[u8]) {
        let head = ((4 - offset % 4) % 4).min(bytes.len() as u64) as usize;
        let (head, aligned) = bytes.split_at(head);
        self.write_within_word(offset, head);
        let mut index = offset.div_ceil(4) as usize;
        let mut chunks = aligned.chunks_exact(4);
        for chunk in &mut chunks {
            let word = u32::from_le_bytes(chunk.try_into().expect("chunks of 4 bytes"));
            self.words[index].store(word, Relaxed);
            index += 1;
        }
        self.write_within_word(index as u64 * 4, chunks.remainder());
    }

    fn write_within_word(&self, offset: u64, bytes: &[u8]) {
        for (at, byte) in (offset..).zip(bytes) {
            self.set_part(at, u32::from(*byte), 1);
        }
    }
}

/// All device memory: what is allocated, and what was.
pub struct AddressSpace {
    live: BTreeMap<u64, Arc<Allocation>>,
    /// Sizes of freed allocations by base address.
    freed: Arc<BTreeMap<u64, u64>>,
    next: u64,
    used: u64,
    pub capacity: u64,
}

/// The simulated memory has no room.
#[derive(Debug, PartialEq)]
pub struct OutOfMemory;

impl AddressSpace {
    pub fn new(capacity: u64) -> AddressSpace {
        AddressSpace { live: BTreeMap::new(), freed: Arc::default(), next: FIRST_ADDRESS, used: 0, capacity }
    }

    /// Whether a pointer lies in the range that device addresses come from, allocated or not.
    pub fn is_device_address(address: u64) -> bool {
        address >= FIRST_ADDRESS
    }

    /// Allocations of the program that it has not freed.
    pub fn num_live(&self) -> usize {
        self.live.values().filter(|allocation| allocation.is_programs).count()
    }

    pub fn free_bytes(&self) -> u64 {
        self.capacity.saturating_sub(self.used)
    }

    /// Reserves memory filled with [`POISON`]; the address is a multiple of 256.
    pub fn allocate(&mut self, size: u64) -> Result<u64, OutOfMemory> {
        if size > self.free_bytes() {
            return Err(OutOfMemory);
        }
        let base = self.reserve(size);
        self.used += size;
        let allocation = Allocation { is_programs: true, ..Allocation::new(base, size, POISON) };
        self.live.insert(base, Arc::new(allocation));
        Ok(base)
    }

    /// A range of addresses that nothing else ever gets, for contents that are kept elsewhere.
    pub fn reserve(&mut self, size: u64) -> u64 {
        let base = self.next.next_multiple_of(4096);
        self.next = base + size.next_multiple_of(ALIGNMENT) + GAP;
        base
    }

    /// Makes contents visible to kernels that are not counted as the program's memory, such as a code object.
    pub fn insert(&mut self, allocation: Allocation) {
        self.live.insert(allocation.base, Arc::new(allocation));
    }

    /// Removes an allocation, if `address` is its start.
    pub fn free(&mut self, address: u64) -> bool {
        let Some(allocation) = self.live.remove(&address) else { return false };
        self.used = self.used.saturating_sub(allocation.size);
        Arc::make_mut(&mut self.freed).insert(address, allocation.size);
        true
    }

    /// Removes what [`AddressSpace::insert`] added.
    pub fn remove(&mut self, address: u64) {
        self.live.remove(&address);
    }

    /// The allocation that holds all of a range, and the range's offset in it.
    pub fn find(&self, address: u64, len: u64) -> Option<(Arc<Allocation>, u64)> {
        let (_, allocation) = self.live.range(..=address).next_back()?;
        allocation.contains(address, len).then(|| (allocation.clone(), address - allocation.base))
    }

    /// What a launch sees, without locks: allocations of this moment and those of the launch alone.
    pub fn snapshot(&self, extra: impl IntoIterator<Item = Allocation>) -> Snapshot {
        let mut allocations: Vec<_> = self.live.values().cloned().collect();
        allocations.extend(extra.into_iter().map(Arc::new));
        allocations.sort_by_key(|allocation| allocation.base);
        Snapshot { allocations, freed: self.freed.clone() }
    }
}

/// Device memory as one launch sees it.
#[derive(Clone)]
pub struct Snapshot {
    allocations: Vec<Arc<Allocation>>,
    freed: Arc<BTreeMap<u64, u64>>,
}

impl Snapshot {
    /// The allocation that holds a range of `len` bytes. `last` is the index of the previous hit, which most accesses
    /// hit again.
    #[inline]
    pub fn find(&self, address: u64, len: u64, last: &mut usize) -> Option<&Allocation> {
        if let Some(allocation) = self.allocations.get(*last)
            && allocation.contains(address, len)
        {
            return Some(allocation);
        }
        let index = self.allocations.partition_point(|allocation| allocation.base <= address).checked_sub(1)?;
        *last = index;
        Some(&*self.allocations[index]).filter(|allocation| allocation.contains(address, len))
    }

    /// The message for an access that no allocation holds.
    pub fn describe_miss(&self, verb: &str, address: u64, len: u64, lane: Option<usize>) -> Box<Trap> {
        let lane = lane.map_or(String::new(), |lane| format!("lane {lane} "));
        Trap::new(format!("{lane}{verb} {len} bytes at {address:#x}, {}", self.describe_place(address)))
    }

    fn describe_place(&self, address: u64) -> String {
        if !AddressSpace::is_device_address(address) {
            return match address {
                0..4096 => "a null pointer".to_string(),
                _ => "which is no device address (host memory is not visible to kernels)".to_string(),
            };
        }
        if let Some((base, size)) = self.freed.range(..=address).next_back()
            && address - base < *size
        {
            return format!("inside a freed allocation ({size} bytes at {base:#x}): a stale pointer");
        }
        self.describe_nearest(address)
    }

    fn describe_nearest(&self, address: u64) -> String {
        let distance = |a: &Allocation| {
            if address < a.base { a.base - address } else { address - a.base - a.size.min(address - a.base) }
        };
        match self.allocations.iter().min_by_key(|a| distance(a)) {
            None => "and nothing is allocated".to_string(),
            Some(a) if address < a.base => {
                format!(
                    "{} bytes before the start of the nearest allocation ({} bytes at {:#x})",
                    a.base - address,
                    a.size,
                    a.base
                )
            }
            Some(a) if address - a.base < a.size => {
                format!(
                    "which begins {} bytes before the end of an allocation ({} bytes at {:#x})",
                    a.size - (address - a.base),
                    a.size,
                    a.base
                )
            }
            Some(a) => {
                format!(
                    "{} bytes past the end of the nearest allocation ({} bytes at {:#x})",
                    address - a.base - a.size,
                    a.size,
                    a.base
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_written_at_odd_offsets_leave_their_neighbours_alone() {
        let allocation = Allocation::with_contents(0, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        allocation.write(3, &[0xA, 0xB, 0xC, 0xD, 0xE]);
        let mut bytes = [0; 10];
        allocation.read(0, &mut bytes);
        assert_eq!(bytes, [1, 2, 3, 0xA, 0xB, 0xC, 0xD, 0xE, 9, 10]);
    }

    #[test]
    fn a_word_across_two_words_has_the_bytes_of_both() {
        let allocation = Allocation::with_contents(0, &[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(allocation.word(3), u32::from_le_bytes([4, 5, 6, 7]));
    }

    #[test]
    fn memory_is_counted_and_addresses_are_never_used_twice() {
        let mut space = AddressSpace::new(1000);
        let first = space.allocate(600).unwrap();
        assert_eq!(space.allocate(401), Err(OutOfMemory));
        assert!(space.free(first));
        assert!(!space.free(first));
        assert_ne!(space.allocate(600).unwrap(), first);
        assert_eq!(space.free_bytes(), 400);
    }

    #[test]
    fn a_miss_says_how_far_from_what() {
        let mut space = AddressSpace::new(1000);
        let base = space.allocate(100).unwrap();
        let message = space.snapshot([]).describe_miss("reads", base + 104, 4, Some(7)).what;
        assert!(message.starts_with("lane 7 reads 4 bytes at"), "{message}");
        assert!(message.contains("4 bytes past the end of the nearest allocation (100 bytes"), "{message}");
    }
}
