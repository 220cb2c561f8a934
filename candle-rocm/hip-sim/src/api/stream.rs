//! Streams and events: what comes before what, and who asks or waits for it.

use super::status::{
    CAPTURE_ISOLATION, CAPTURE_MERGE, CAPTURE_UNSUPPORTED, ILLEGAL_STATE, INVALID_HANDLE, INVALID_VALUE, Outcome,
    Status,
};
use super::{call, put};
use crate::simulator::{Handle, Simulator};
use crate::streams::{Capture, Event, Stream};
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
        simulator.streams.insert(handle, Stream { is_blocking: flags == 0, ..Stream::default() });
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
        check_idle(simulator, stream)?;
        simulator.finish_stream(stream as usize);
        simulator.streams.remove(&(stream as usize)).map(|_| ()).ok_or(INVALID_HANDLE)
    })
}

/// The stream exists, and is not being captured; a capture ends without a graph if it is.
fn check_idle(simulator: &mut Simulator, stream: *mut c_void) -> Outcome {
    let Some(origin) = simulator.capture_of(stream as usize)? else { return Ok(()) };
    invalidate(simulator, origin);
    Err(CAPTURE_UNSUPPORTED)
}

fn invalidate(simulator: &mut Simulator, origin: Handle) {
    if let Some(capture) = simulator.captures.get_mut(&origin) {
        capture.is_invalid = true;
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn hipStreamSynchronize(stream: *mut c_void) -> c_int {
    call(|simulator| {
        check_idle(simulator, stream)?;
        simulator.finish_stream(stream as usize);
        simulator.check_fault()
    })
}

/// Whether all work is done. With the option `lazy`, asking lets some more be done.
#[unsafe(no_mangle)]
pub extern "C" fn hipStreamQuery(stream: *mut c_void) -> c_int {
    call(|simulator| {
        check_idle(simulator, stream)?;
        simulator.run_some();
        simulator.check_fault()?;
        let clock = simulator.clock_of(stream as usize);
        simulator.ask(&clock)
    })
}

/// Work that the stream gets from here on comes after the event. An event of a capture makes the stream join it.
#[unsafe(no_mangle)]
pub extern "C" fn hipStreamWaitEvent(stream: *mut c_void, event: *mut c_void, _flags: c_uint) -> c_int {
    call(|simulator| {
        let stream = stream as usize;
        let own = simulator.capture_of(stream)?;
        let event = simulator.events.get(&(event as usize)).ok_or(INVALID_HANDLE)?.clone();
        match (event.capture, own) {
            (None, None) => {
                simulator.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?.clock.join(&event.clock);
                Ok(())
            }
            (None, Some(origin)) => {
                invalidate(simulator, origin);
                Err(CAPTURE_ISOLATION)
            }
            (Some(origin), Some(other)) if origin != other => {
                invalidate(simulator, origin);
                invalidate(simulator, other);
                Err(CAPTURE_MERGE)
            }
            (Some(origin), _) => {
                simulator.captures.get_mut(&origin).ok_or(INVALID_HANDLE)?.wait(stream, &event.clock);
                Ok(())
            }
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipEventCreateWithFlags(event: *mut *mut c_void, _flags: c_uint) -> c_int {
    call(|simulator| {
        let handle = simulator.new_handle();
        // SAFETY: as in `hipStreamCreateWithFlags`.
        unsafe { put(event, handle as *mut c_void)? };
        simulator.events.insert(handle, Event::default());
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
    call(|simulator| simulator.events.remove(&(event as usize)).map(|_| ()).ok_or(INVALID_HANDLE))
}

#[unsafe(no_mangle)]
pub extern "C" fn hipEventRecord(event: *mut c_void, stream: *mut c_void) -> c_int {
    call(|simulator| {
        let stream = stream as usize;
        let capture = simulator.capture_of(stream)?;
        let clock = match capture {
            Some(origin) => simulator.captures[&origin].clock(stream),
            None => simulator.clock_of(stream),
        };
        let moment = capture.is_none().then(Instant::now);
        *simulator.events.get_mut(&(event as usize)).ok_or(INVALID_HANDLE)? = Event { moment, clock, capture };
        Ok(())
    })
}

/// The event, which a call may not ask about while it is one of a capture.
fn asked_event(simulator: &mut Simulator, event: *mut c_void) -> Result<Event, Status> {
    let event = simulator.events.get(&(event as usize)).ok_or(INVALID_HANDLE)?.clone();
    if let Some(origin) = event.capture {
        invalidate(simulator, origin);
        return Err(CAPTURE_UNSUPPORTED);
    }
    Ok(event)
}

/// An event that was never recorded counts as complete. With the option `lazy`, asking lets some more be done.
#[unsafe(no_mangle)]
pub extern "C" fn hipEventQuery(event: *mut c_void) -> c_int {
    call(|simulator| {
        let event = asked_event(simulator, event)?;
        simulator.run_some();
        simulator.check_fault()?;
        simulator.ask(&event.clock)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn hipEventSynchronize(event: *mut c_void) -> c_int {
    call(|simulator| {
        let event = asked_event(simulator, event)?;
        simulator.finish(&event.clock);
        simulator.check_fault()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipEventElapsedTime(milliseconds: *mut f32, start: *mut c_void, stop: *mut c_void) -> c_int {
    call(|simulator| {
        let (start, stop) = (asked_event(simulator, start)?, asked_event(simulator, stop)?);
        let (Some(from), Some(to)) = (start.moment, stop.moment) else { return Err(INVALID_HANDLE) };
        simulator.ask(&start.clock)?;
        simulator.ask(&stop.clock)?;
        let elapsed = to.saturating_duration_since(from).as_secs_f32() * 1000.0;
        // SAFETY: as in `hipStreamCreateWithFlags`.
        unsafe { put(milliseconds, elapsed) }
    })
}

/// Whether a stream is captured: 0, 1, or 2 where the capture has no future.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipStreamIsCapturing(stream: *mut c_void, status: *mut c_int) -> c_int {
    call(|simulator| {
        let state = match simulator.capture_of(stream as usize)? {
            None => 0,
            Some(origin) => 1 + c_int::from(simulator.captures[&origin].is_invalid),
        };
        // SAFETY: as in `hipStreamCreateWithFlags`.
        unsafe { put(status, state) }
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
        if simulator.capture_of(stream as usize)?.is_some() {
            return Err(ILLEGAL_STATE);
        }
        simulator.captures.insert(stream as usize, Capture::begin(stream as usize));
        Ok(())
    })
}
