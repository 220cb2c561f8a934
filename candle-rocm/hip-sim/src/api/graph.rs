//! Graphs: what a captured stream recorded, made executable and replayed.

use super::status::{
    CAPTURE_INVALIDATED, CAPTURE_UNJOINED, CAPTURE_UNMATCHED, GRAPH_UPDATE_FAILURE, ILLEGAL_STATE, INVALID_VALUE,
    Status,
};
use super::{call, put, report};
use crate::simulator::{Graph, Handle, Simulator, Work};
use crate::streams::{Capture, Event};
use std::ffi::{c_char, c_int, c_void};

/// Ends a capture on the stream that began it, with a graph if nothing went wrong meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipStreamEndCapture(stream: *mut c_void, graph: *mut *mut c_void) -> c_int {
    call(|simulator| {
        let stream = stream as usize;
        let capture = end_capture(simulator, stream)?;
        // SAFETY: `put` checks for null; otherwise the caller's promise. So for all calls of it in this file.
        unsafe { put(graph, std::ptr::null_mut())? };
        if capture.is_invalid {
            return Err(CAPTURE_INVALIDATED);
        }
        if let Some(other) = capture.unjoined(stream) {
            report(&format!(
                "stream {other:#x} takes part in the capture of stream {stream:#x}, which does not wait for it"
            ));
            return Err(CAPTURE_UNJOINED);
        }
        let handle = simulator.new_handle();
        simulator.graphs.insert(handle, capture.graph);
        // SAFETY: as above.
        unsafe { put(graph, handle as *mut c_void) }
    })
}

/// The capture that began on a stream, whose streams and events are then free again.
fn end_capture(simulator: &mut Simulator, stream: Handle) -> Result<Capture, Status> {
    let capture = match simulator.captures.remove(&stream) {
        Some(capture) => capture,
        None if simulator.capture_of(stream)?.is_some() => return Err(CAPTURE_UNMATCHED),
        None => return Err(ILLEGAL_STATE),
    };
    let events = simulator.events.values_mut().filter(|event| event.capture == Some(stream));
    events.for_each(|event| *event = Event::default());
    Ok(capture)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGraphInstantiate(
    executable: *mut *mut c_void,
    graph: *mut c_void,
    _error_node: *mut *mut c_void,
    _log: *mut c_char,
    _log_size: usize,
) -> c_int {
    call(|simulator| {
        let graph = simulator.graphs.get(&(graph as usize)).ok_or(INVALID_VALUE)?.clone();
        let handle = simulator.new_handle();
        simulator.executables.insert(handle, graph);
        // SAFETY: as in `hipStreamEndCapture`.
        unsafe { put(executable, handle as *mut c_void) }
    })
}

/// Flags ask for uploads and clean-up that have no effect here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGraphInstantiateWithFlags(
    executable: *mut *mut c_void,
    graph: *mut c_void,
    _flags: u64,
) -> c_int {
    // SAFETY: the same contract.
    unsafe { hipGraphInstantiate(executable, graph, std::ptr::null_mut(), std::ptr::null_mut(), 0) }
}

/// Replays, or records into another capture.
#[unsafe(no_mangle)]
pub extern "C" fn hipGraphLaunch(executable: *mut c_void, stream: *mut c_void) -> c_int {
    call(|simulator| {
        let graph = simulator.executables.get(&(executable as usize)).ok_or(INVALID_VALUE)?.clone();
        for work in graph.work {
            simulator.submit(stream as usize, work)?;
            if simulator.fault.is_some() {
                break;
            }
        }
        Ok(())
    })
}

/// Results of an update: done, or the graphs differ in their nodes.
const UPDATED: c_int = 0;
const TOPOLOGY_CHANGED: c_int = 2;

/// Takes over the parameters of a graph with the same nodes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGraphExecUpdate(
    executable: *mut c_void,
    graph: *mut c_void,
    error_node: *mut *mut c_void,
    result: *mut c_int,
) -> c_int {
    call(|simulator| {
        let graph = simulator.graphs.get(&(graph as usize)).ok_or(INVALID_VALUE)?.clone();
        let old = simulator.executables.get_mut(&(executable as usize)).ok_or(INVALID_VALUE)?;
        let is_same = has_same_nodes(old, &graph);
        // SAFETY: as in `hipStreamEndCapture`; HIP allows null for neither.
        unsafe {
            put(error_node, std::ptr::null_mut())?;
            put(result, if is_same { UPDATED } else { TOPOLOGY_CHANGED })?;
        }
        if !is_same {
            return Err(GRAPH_UPDATE_FAILURE);
        }
        *old = graph;
        Ok(())
    })
}

/// Kernels may not change, sizes and arguments may.
fn has_same_nodes(a: &Graph, b: &Graph) -> bool {
    let is_same = |(a, b): (&Work, &Work)| match (a, b) {
        (Work::Launch { dispatch: a, .. }, Work::Launch { dispatch: b, .. }) => {
            a.kernel.metadata.name == b.kernel.metadata.name
        }
        (Work::Copy { .. }, Work::Copy { .. }) | (Work::Fill { .. }, Work::Fill { .. }) => true,
        _ => false,
    };
    a.work.len() == b.work.len() && a.work.iter().zip(&b.work).all(is_same)
}

#[unsafe(no_mangle)]
pub extern "C" fn hipGraphExecDestroy(executable: *mut c_void) -> c_int {
    call(|simulator| simulator.executables.remove(&(executable as usize)).map(|_| ()).ok_or(INVALID_VALUE))
}

#[unsafe(no_mangle)]
pub extern "C" fn hipGraphDestroy(graph: *mut c_void) -> c_int {
    call(|simulator| simulator.graphs.remove(&(graph as usize)).map(|_| ()).ok_or(INVALID_VALUE))
}
