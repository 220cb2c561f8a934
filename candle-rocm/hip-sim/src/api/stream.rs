//! Streams and events. Work is done when it is submitted, so waiting never waits; handles and states are checked.

use super::status::{CAPTURE_UNSUPPORTED, ILLEGAL_STATE, INVALID_HANDLE, INVALID_VALUE, Outcome};
use super::{call, put};
use crate::simulator::Simulator;
use std::ffi::{c_int, c_uint, c_void};
use std::time::Instant;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipStreamCreateWithFlags(stream: *mut *mut c_void, flags: c_uint) -> c_int {
    call(|simulator| {
        // 0 is the default, 1 does not wait for the null stream.
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        let handle = simulator.new_handle();
        // SAFETY: `put` checks for null; otherwise the caller's promise. So for all calls of it in this file.
        unsafe { put(stream, handle as *mut c_void)? };
        simulator.streams.insert(handle, None);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipStreamCreate(stream: *mut *mut c_void) -> c_int {
    // SAFETY: the same contract.
    unsafe { hipStreamCreateWithFlags(stream, 0) }
}

#[unsafe(no_mangle)]
pub extern "C" fn hipStreamDestroy(stream: *mut c_void) -> c_int {
    call(|simulator| {
        if stream.is_null() {
            return Err(INVALID_HANDLE);
        }
        simulator.joined.remove(&(stream as usize));
        simulator.streams.remove(&(stream as usize)).map(|_| ()).ok_or(INVALID_HANDLE)
    })
}

/// The stream exists, and is not being captured.
fn check_idle(simulator: &Simulator, stream: *mut c_void) -> Outcome {
    match simulator.capturing_stream(stream as usize)? {
        Some(_) => Err(CAPTURE_UNSUPPORTED),
        None => Ok(()),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn hipStreamSynchronize(stream: *mut c_void) -> c_int {
    call(|simulator| check_idle(simulator, stream))
}

#[unsafe(no_mangle)]
pub extern "C" fn hipStreamQuery(stream: *mut c_void) -> c_int {
    call(|simulator| check_idle(simulator, stream))
}

/// On a stream that is not captured there is nothing to wait for. An event of a capture makes the stream join it.
#[unsafe(no_mangle)]
pub extern "C" fn hipStreamWaitEvent(stream: *mut c_void, event: *mut c_void, _flags: c_uint) -> c_int {
    call(|simulator| {
        let stream = stream as usize;
        let own_capture = simulator.capturing_stream(stream)?;
        simulator.events.get(&(event as usize)).ok_or(INVALID_HANDLE)?;
        if let Some(origin) = simulator.captured_events.get(&(event as usize)).copied()
            && own_capture.is_none()
        {
            simulator.joined.insert(stream, origin);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipEventCreateWithFlags(event: *mut *mut c_void, _flags: c_uint) -> c_int {
    call(|simulator| {
        let handle = simulator.new_handle();
        // SAFETY: as in `hipStreamCreateWithFlags`.
        unsafe { put(event, handle as *mut c_void)? };
        simulator.events.insert(handle, None);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipEventCreate(event: *mut *mut c_void) -> c_int {
    // SAFETY: the same contract.
    unsafe { hipEventCreateWithFlags(event, 0) }
}

#[unsafe(no_mangle)]
pub extern "C" fn hipEventDestroy(event: *mut c_void) -> c_int {
    call(|simulator| {
        simulator.captured_events.remove(&(event as usize));
        simulator.events.remove(&(event as usize)).map(|_| ()).ok_or(INVALID_HANDLE)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn hipEventRecord(event: *mut c_void, stream: *mut c_void) -> c_int {
    call(|simulator| {
        let capture = simulator.capturing_stream(stream as usize)?;
        let moment = simulator.events.get_mut(&(event as usize)).ok_or(INVALID_HANDLE)?;
        match capture {
            Some(origin) => {
                simulator.captured_events.insert(event as usize, origin);
            }
            None => {
                *moment = Some(Instant::now());
                simulator.captured_events.remove(&(event as usize));
            }
        }
        Ok(())
    })
}

fn check_event(simulator: &Simulator, event: *mut c_void) -> Outcome {
    if simulator.captured_events.contains_key(&(event as usize)) {
        return Err(CAPTURE_UNSUPPORTED);
    }
    simulator.events.get(&(event as usize)).map(|_| ()).ok_or(INVALID_HANDLE)
}

/// An event that was never recorded counts as complete.
#[unsafe(no_mangle)]
pub extern "C" fn hipEventQuery(event: *mut c_void) -> c_int {
    call(|simulator| check_event(simulator, event))
}

#[unsafe(no_mangle)]
pub extern "C" fn hipEventSynchronize(event: *mut c_void) -> c_int {
    call(|simulator| check_event(simulator, event))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipEventElapsedTime(milliseconds: *mut f32, start: *mut c_void, stop: *mut c_void) -> c_int {
    call(|simulator| {
        let moment = |event: *mut c_void| simulator.events.get(&(event as usize)).copied().ok_or(INVALID_HANDLE);
        let (Some(start), Some(stop)) = (moment(start)?, moment(stop)?) else { return Err(INVALID_HANDLE) };
        let elapsed = stop.saturating_duration_since(start).as_secs_f32() * 1000.0;
        // SAFETY: as in `hipStreamCreateWithFlags`.
        unsafe { put(milliseconds, elapsed) }
    })
}

/// Whether a stream is captured: 0 or 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipStreamIsCapturing(stream: *mut c_void, status: *mut c_int) -> c_int {
    call(|simulator| {
        let is_capturing = simulator.capturing_stream(stream as usize)?.is_some();
        // SAFETY: as in `hipStreamCreateWithFlags`.
        unsafe { put(status, c_int::from(is_capturing)) }
    })
}

/// The null stream cannot be captured; modes are 0 to 2.
#[unsafe(no_mangle)]
pub extern "C" fn hipStreamBeginCapture(stream: *mut c_void, mode: c_int) -> c_int {
    call(|simulator| {
        if !(0..=2).contains(&mode) {
            return Err(INVALID_VALUE);
        }
        if stream.is_null() {
            return Err(CAPTURE_UNSUPPORTED);
        }
        if simulator.capturing_stream(stream as usize)?.is_some() {
            return Err(ILLEGAL_STATE);
        }
        simulator.streams.insert(stream as usize, Some(crate::simulator::Graph::default()));
        Ok(())
    })
}
