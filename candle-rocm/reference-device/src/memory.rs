//! The memory of the reference device: allocations that start poisoned, are poisoned again when they are freed, and are then used
//! for the next allocation of the same size, as a real device's allocator does. What is read before it is written, or after it is
//! freed, is not a number.

use candle_core::WithDType;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// All bits set is NaN in every floating-point type, and the largest or a negative number in every other.
const POISON: u64 = u64::MAX;

/// A type of elements that the device computes with.
pub(crate) trait Element: WithDType + FromBytes + IntoBytes + Immutable {}
impl<T: WithDType + FromBytes + IntoBytes + Immutable> Element for T {}

/// Freed allocations by their number of words.
#[derive(Default)]
pub(crate) struct Pool(Mutex<BTreeMap<usize, Vec<Vec<u64>>>>);

impl Pool {
    /// Poisoned memory.
    pub(crate) fn allocate(self: &Arc<Self>, bytes: usize) -> Memory {
        let words = bytes.div_ceil(size_of::<u64>());
        let mut freed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let reused = freed.get_mut(&words).and_then(Vec::pop);
        Memory { words: reused.unwrap_or_else(|| vec![POISON; words]), bytes, pool: self.clone() }
    }
}

/// One allocation.
pub(crate) struct Memory {
    words: Vec<u64>,
    bytes: usize,
    pool: Arc<Pool>,
}

impl Memory {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.words.as_bytes()[..self.bytes]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.words.as_mut_bytes()[..self.bytes]
    }

    /// The elements; the length is a multiple of their size, and words are aligned for every type.
    pub(crate) fn elements<T: Element>(&self) -> &[T] {
        <[T]>::ref_from_bytes(self.bytes()).expect("memory of whole elements of this type")
    }

    pub(crate) fn elements_mut<T: Element>(&mut self) -> &mut [T] {
        <[T]>::mut_from_bytes(self.bytes_mut()).expect("memory of whole elements of this type")
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let mut words = std::mem::take(&mut self.words);
        words.fill(POISON);
        let mut freed = self.pool.0.lock().unwrap_or_else(PoisonError::into_inner);
        freed.entry(words.len()).or_default().push(words);
    }
}
