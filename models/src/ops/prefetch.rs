//! Asks for memory before it is needed, where the access pattern is known and the hardware cannot guess it.

/// Starts loading `data` into the cache. Changes nothing else, and does nothing where the target has no such instruction.
#[inline(always)]
pub(crate) fn prefetch<T>(data: &[T]) {
    const LINE: usize = 64;
    #[cfg(target_arch = "x86_64")]
    for line in data.chunks(LINE / size_of::<T>()) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction is a hint; it faults on no address, and this one is valid.
        #[allow(unsafe_code)]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (data, LINE);
}
