//! Spreads work over Candle's own thread pool, so that a step never wakes a second one.

use std::sync::{Mutex, PoisonError};

/// Below this many elements a wake-up costs more than the work.
const MIN_PARALLEL_ELEMENTS: usize = 16 * 1024;

/// Calls `f(index, chunk)` for each item of `chunks`, in parallel if `elements` (the work as a whole) is worth it.
///
/// Chunks are disjoint, so the mutexes are never contended; they only make the hand-over safe.
pub(crate) fn for_each<T: Send>(chunks: Vec<T>, elements: usize, f: impl Fn(usize, &mut T) + Sync) {
    if chunks.len() < 2 || elements < MIN_PARALLEL_ELEMENTS {
        for (index, mut chunk) in chunks.into_iter().enumerate() {
            f(index, &mut chunk);
        }
        return;
    }
    let chunks: Vec<Mutex<T>> = chunks.into_iter().map(Mutex::new).collect();
    candle_core::utils::barrier_pool().execute_chunked(chunks.len(), |range| {
        for index in range {
            f(index, &mut chunks[index].lock().unwrap_or_else(PoisonError::into_inner));
        }
    });
}
