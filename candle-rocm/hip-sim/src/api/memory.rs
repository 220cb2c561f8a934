//! Allocation, copies and fills.

use super::status::{INVALID_COPY_DIRECTION, INVALID_VALUE, OUT_OF_MEMORY, Outcome};
use super::{call, put, report};
use crate::memory::AddressSpace;
use crate::simulator::{Simulator, Work};
use std::alloc::Layout;
use std::ffi::{c_int, c_uint, c_void};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMalloc(pointer: *mut *mut c_void, size: usize) -> c_int {
    call(|simulator| {
        if pointer.is_null() {
            return Err(INVALID_VALUE);
        }
        let address = if size == 0 { 0 } else { allocate(simulator, size)? };
        // SAFETY: not null, and otherwise the caller's promise.
        unsafe { put(pointer, address as *mut c_void) }
    })
}

fn allocate(simulator: &mut Simulator, size: usize) -> Result<u64, super::Status> {
    simulator.refuse_while_capturing()?;
    simulator.num_mallocs += 1;
    if simulator.num_mallocs == simulator.options.fail_malloc {
        return Err(OUT_OF_MEMORY);
    }
    simulator.memory.allocate(size as u64).map_err(|_| OUT_OF_MEMORY)
}

/// Freeing null does nothing; freeing what is not the start of a live allocation is an error.
#[unsafe(no_mangle)]
pub extern "C" fn hipFree(pointer: *mut c_void) -> c_int {
    call(|simulator| {
        simulator.refuse_while_capturing()?;
        // Freeing waits for the device, as the runtime does.
        simulator.finish_all();
        simulator.check_fault()?;
        let is_freed = pointer.is_null() || simulator.memory.free(pointer as u64);
        is_freed.then_some(()).ok_or(INVALID_VALUE)
    })
}

/// Pages, as pinned memory is.
const HOST_ALIGNMENT: usize = 4096;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipHostMalloc(pointer: *mut *mut c_void, size: usize, _flags: c_uint) -> c_int {
    call(|simulator| {
        if pointer.is_null() {
            return Err(INVALID_VALUE);
        }
        let layout = Layout::from_size_align(size.max(1), HOST_ALIGNMENT).map_err(|_| OUT_OF_MEMORY)?;
        // SAFETY: the layout has a size above zero.
        let memory = unsafe { std::alloc::alloc_zeroed(layout) };
        if memory.is_null() {
            return Err(OUT_OF_MEMORY);
        }
        simulator.host_allocations.insert(memory as usize, layout);
        // SAFETY: not null, and otherwise the caller's promise.
        unsafe { put(pointer, memory.cast()) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipHostFree(pointer: *mut c_void) -> c_int {
    call(|simulator| {
        if pointer.is_null() {
            return Ok(());
        }
        let layout = simulator.host_allocations.remove(&(pointer as usize)).ok_or(INVALID_VALUE)?;
        // SAFETY: the map holds exactly what `hipHostMalloc` allocated and nobody freed, with its layout.
        unsafe { std::alloc::dealloc(pointer.cast(), layout) };
        Ok(())
    })
}

/// The directions of `hipMemcpyKind`.
fn check_direction(to: u64, from: u64, kind: c_int) -> Outcome {
    let is_device = |address| AddressSpace::is_device_address(address);
    let expected = match kind {
        0 => (false, false),
        1 => (true, false),
        2 => (false, true),
        3 => (true, true),
        4 => return Ok(()),
        _ => return Err(INVALID_COPY_DIRECTION),
    };
    if (is_device(to), is_device(from)) == expected { Ok(()) } else { Err(INVALID_VALUE) }
}

/// Device ranges must lie within one allocation, also where the copy is only recorded.
fn checked_copy(
    simulator: &Simulator,
    to: *mut c_void,
    from: *const c_void,
    len: usize,
    kind: c_int,
) -> Result<Option<Work>, super::Status> {
    if len == 0 {
        return Ok(None);
    }
    if to.is_null() || from.is_null() {
        return Err(INVALID_VALUE);
    }
    check_direction(to as u64, from as u64, kind)?;
    if to.addr().abs_diff(from.addr()) < len {
        report(&format!(
            "copy of {len} bytes from {from:p} to {to:p} refused: the two overlap, and HIP does not say what is copied"
        ));
        return Err(INVALID_VALUE);
    }
    for address in [to as u64, from as u64] {
        if AddressSpace::is_device_address(address) && simulator.memory.find(address, len as u64).is_none() {
            return Err(INVALID_VALUE);
        }
    }
    Ok(Some(Work::Copy { to: to as u64, from: from as u64, len }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemcpy(to: *mut c_void, from: *const c_void, len: usize, kind: c_int) -> c_int {
    call(|simulator| {
        simulator.refuse_while_capturing()?;
        if let Some(work) = checked_copy(simulator, to, from, len, kind)? {
            simulator.submit(0, work)?;
            simulator.finish_stream(0);
        }
        simulator.check_fault()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemcpyAsync(
    to: *mut c_void,
    from: *const c_void,
    len: usize,
    kind: c_int,
    stream: *mut c_void,
) -> c_int {
    call(|simulator| {
        let work = checked_copy(simulator, to, from, len, kind)?;
        work.map_or(Ok(()), |work| simulator.submit(stream as usize, work))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemcpyHtoDAsync(
    to: *mut c_void,
    from: *const c_void,
    len: usize,
    stream: *mut c_void,
) -> c_int {
    // SAFETY: the same contract.
    unsafe { hipMemcpyAsync(to, from, len, 1, stream) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemcpyDtoHAsync(
    to: *mut c_void,
    from: *mut c_void,
    len: usize,
    stream: *mut c_void,
) -> c_int {
    // SAFETY: the same contract.
    unsafe { hipMemcpyAsync(to, from, len, 2, stream) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemcpyDtoDAsync(
    to: *mut c_void,
    from: *mut c_void,
    len: usize,
    stream: *mut c_void,
) -> c_int {
    // SAFETY: the same contract.
    unsafe { hipMemcpyAsync(to, from, len, 3, stream) }
}

/// Fills bytes of device memory with the low byte of a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemsetAsync(to: *mut c_void, value: c_int, len: usize, stream: *mut c_void) -> c_int {
    call(|simulator| {
        if len == 0 {
            return Ok(());
        }
        simulator.memory.find(to as u64, len as u64).ok_or(INVALID_VALUE)?;
        simulator.submit(stream as usize, Work::Fill { to: to as u64, byte: value as u8, len })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemsetD8Async(to: *mut c_void, value: u8, len: usize, stream: *mut c_void) -> c_int {
    // SAFETY: the same contract.
    unsafe { hipMemsetAsync(to, c_int::from(value), len, stream) }
}
