//! Functions that a real runtime does not have: another GPU, the text of a fault, counters.

use super::{answer, create, lock, status::INVALID_VALUE, with_simulator};
use crate::options::Options;
use std::ffi::{CStr, c_char, c_int};

/// Replaces the device by a fresh one; all pointers and handles become invalid. `options` is a string such as
/// `gpu=gfx1201 memory=512M threads=1 seed=7`; null stands for the environment variable `HIP_SIM`.
///
/// # Safety
/// `options` is null or a string that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipSimReset(options: *const c_char) -> c_int {
    let options = if options.is_null() {
        Options::from_environment()
    } else {
        // SAFETY: the caller's promise.
        let text = unsafe { CStr::from_ptr(options) };
        Options::parse(&text.to_string_lossy())
    };
    let simulator = create(options);
    let outcome = simulator.as_ref().map(|_| ()).map_err(|status| *status);
    super::LAST_ERROR.set(super::SUCCESS);
    *lock() = Some(simulator);
    answer(outcome)
}

/// The message of the last refused module or failed launch, cut to `size` bytes with its ending zero. Returns the
/// length of the whole message, 0 for none.
///
/// # Safety
/// `buffer` is null or valid for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipSimLastFault(buffer: *mut c_char, size: usize) -> usize {
    let message = with_simulator(|simulator| Ok(simulator.last_message.clone())).unwrap_or_default();
    if !buffer.is_null() && size > 0 {
        let len = message.len().min(size - 1);
        // SAFETY: `len + 1` bytes fit in the caller's buffer; the two do not overlap.
        unsafe {
            buffer.copy_from_nonoverlapping(message.as_ptr().cast(), len);
            buffer.add(len).write(0);
        }
    }
    message.len()
}

/// A number that the device has counted since it was made: `instructions` of waves, `idle` ones among them (waits and hints,
/// which have no effect here), `bytes_read` and `bytes_written` of device memory by kernels, `launches`, `copies`,
/// `bytes_copied`, `allocations` that were made, `live` ones.
///
/// # Safety
/// `name` is null or a string that ends with a zero byte; `count` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipSimCounter(name: *const c_char, count: *mut u64) -> c_int {
    if name.is_null() || count.is_null() {
        return answer(Err(INVALID_VALUE));
    }
    // SAFETY: not null, and otherwise the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    answer(with_simulator(|simulator| {
        let value = match name.to_bytes() {
            b"instructions" => simulator.counts.instructions,
            b"idle" => simulator.counts.idle,
            b"bytes_read" => simulator.counts.bytes_read,
            b"bytes_written" => simulator.counts.bytes_written,
            b"launches" => simulator.num_launches,
            b"copies" => simulator.num_copies,
            b"bytes_copied" => simulator.bytes_copied,
            b"allocations" => simulator.num_mallocs,
            b"live" => simulator.memory.num_live() as u64,
            _ => return Err(INVALID_VALUE),
        };
        // SAFETY: as above.
        unsafe { super::put(count, value) }
    }))
}
