//! The C interface: functions with the names and signatures of `libamdhip64.so`, and three of our own (`hipSim*`). Each
//! checks its arguments, does one thing to the simulator under its lock, and answers with a status.
#![allow(non_snake_case, unsafe_code)] // Names and pointers are those of a C library.
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments)] // The contract of each function is HIP's; pointers are checked for null only.

mod device;
mod graph;
mod host;
mod memory;
mod module;
pub(crate) mod status;
mod stream;
mod work;

pub use device::*;
pub use graph::*;
pub use host::*;
pub use memory::*;
pub use module::*;
pub use status::Status;
pub use stream::*;

use crate::options::Options;
use crate::simulator::Simulator;
use status::{INVALID_VALUE, LAUNCH_FAILURE, NO_DEVICE, NOT_INITIALIZED, Outcome, SUCCESS};
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The device, from the first call on; an error where there is none.
static SIMULATOR: Mutex<Option<Result<Simulator, Status>>> = Mutex::new(None);

thread_local! {
    /// What `hipGetLastError` answers on this thread.
    static LAST_ERROR: Cell<Status> = const { Cell::new(SUCCESS) };
}

/// Makes a device of these options, or says why there is none.
fn create(options: Result<Options, String>) -> Result<Simulator, Status> {
    let options = options.map_err(|message| {
        report(&message);
        NOT_INITIALIZED
    })?;
    Simulator::new(options).ok_or(NO_DEVICE)
}

fn lock() -> MutexGuard<'static, Option<Result<Simulator, Status>>> {
    SIMULATOR.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs one call on the device, whatever state that is in.
fn with_simulator<T>(f: impl FnOnce(&mut Simulator) -> Result<T, Status>) -> Result<T, Status> {
    let mut guard = lock();
    match guard.get_or_insert_with(|| create(Options::from_environment())) {
        Ok(simulator) => f(simulator),
        Err(status) => Err(*status),
    }
}

/// Runs one call: after a fault there is only that to say. An error is kept for `hipGetLastError`.
fn call(f: impl FnOnce(&mut Simulator) -> Outcome) -> c_int {
    answer(with_simulator(|simulator| match simulator.fault {
        Some(_) => Err(LAUNCH_FAILURE),
        None => f(simulator),
    }))
}

fn answer(outcome: Outcome) -> c_int {
    match outcome {
        Ok(()) => SUCCESS.0,
        Err(status) => {
            LAST_ERROR.set(status);
            status.0
        }
    }
}

/// Says on standard error what a status alone does not.
fn report(message: &str) {
    eprintln!("hip-sim: {message}");
}

/// Writes a result through a pointer that the caller gave.
///
/// # Safety
/// `place` is null or valid for a write.
unsafe fn put<T>(place: *mut T, value: T) -> Outcome {
    if place.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and otherwise the caller's promise.
    unsafe { place.write(value) };
    Ok(())
}
