//! Which device is there, and what does it say about itself?

use super::status::{INVALID_DEVICE, INVALID_VALUE, SUCCESS, Status};
use super::{LAST_ERROR, answer, call, put, with_simulator};
use crate::launch::MAX_LDS;
use crate::simulator::Simulator;
use std::ffi::{c_char, c_int, c_uint};

#[unsafe(no_mangle)]
pub extern "C" fn hipInit(flags: c_uint) -> c_int {
    call(|_| if flags == 0 { Ok(()) } else { Err(INVALID_VALUE) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipRuntimeGetVersion(version: *mut c_int) -> c_int {
    // SAFETY: `put` checks for null; otherwise the caller's promise. So for all calls of it in these files.
    call(|simulator| unsafe { put(version, simulator.options.version as c_int) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDriverGetVersion(version: *mut c_int) -> c_int {
    // SAFETY: as in `hipRuntimeGetVersion`.
    call(|simulator| unsafe { put(version, simulator.options.version as c_int) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetDeviceCount(count: *mut c_int) -> c_int {
    // SAFETY: as in `hipRuntimeGetVersion`.
    let outcome = call(|_| unsafe { put(count, 1) });
    if outcome == super::NO_DEVICE.0 {
        // SAFETY: as in `hipRuntimeGetVersion`.
        let _ = unsafe { put(count, 0) };
    }
    outcome
}

fn check_device(device: c_int) -> Result<(), Status> {
    if device == 0 { Ok(()) } else { Err(INVALID_DEVICE) }
}

#[unsafe(no_mangle)]
pub extern "C" fn hipSetDevice(device: c_int) -> c_int {
    call(|_| check_device(device))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetDevice(device: *mut c_int) -> c_int {
    // SAFETY: as in `hipRuntimeGetVersion`.
    call(|_| unsafe { put(device, 0) })
}

#[unsafe(no_mangle)]
pub extern "C" fn hipDeviceSynchronize() -> c_int {
    call(|simulator| {
        simulator.refuse_while_capturing()?;
        simulator.finish_all();
        simulator.check_fault()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> c_int {
    call(|simulator| {
        let capacity = simulator.options.reported_total.unwrap_or(simulator.memory.capacity);
        // SAFETY: as in `hipRuntimeGetVersion`.
        unsafe {
            put(free, simulator.options.reported_free.unwrap_or(simulator.memory.free_bytes()) as usize)?;
            put(total, capacity as usize)
        }
    })
}

/// Bytes of `hipDeviceProp_tR0600`.
const PROPERTIES_BYTES: usize = 1472;
/// Threads that the four SIMDs of a workgroup processor hold: 16 waves each.
const MAX_THREADS_PER_PROCESSOR: i32 = 4 * 16 * 32;
const MAX_THREADS_PER_BLOCK: i32 = 1024;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetDevicePropertiesR0600(properties: *mut [u8; PROPERTIES_BYTES], device: c_int) -> c_int {
    call(|simulator| {
        check_device(device)?;
        // SAFETY: as in `hipRuntimeGetVersion`; a byte array has no alignment.
        unsafe { put(properties, properties_of(simulator)) }
    })
}

fn num_processors(simulator: &Simulator) -> c_int {
    simulator.options.processors.map_or(simulator.target.num_workgroup_processors, |count| count as c_int)
}

fn is_integrated(simulator: &Simulator) -> bool {
    simulator.options.integrated.unwrap_or(simulator.target.is_integrated)
}

/// The structure's fields by their offsets in HIP 7.1.
fn properties_of(simulator: &Simulator) -> [u8; PROPERTIES_BYTES] {
    let mut bytes = [0; PROPERTIES_BYTES];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    let target = simulator.target;
    let (major, minor, _) = target.version();
    put(0, target.marketing_name.as_bytes());
    put(288, &simulator.options.reported_total.unwrap_or(simulator.memory.capacity).to_le_bytes());
    put(296, &(MAX_LDS as u64).to_le_bytes());
    put(1160, target.name.as_bytes());
    put(1416, &(2 * MAX_LDS as u64).to_le_bytes());
    let numbers = [
        (304, 65_536),
        (308, 32),
        (320, MAX_THREADS_PER_BLOCK),
        (324, 1024),
        (328, 1024),
        (332, 1024),
        (336, i32::MAX),
        (340, 65_535),
        (344, 65_535),
        (348, target.clock_khz),
        (360, major),
        (364, minor),
        (388, num_processors(simulator)),
        (396, i32::from(is_integrated(simulator))),
        (608, target.memory_clock_khz),
        (612, target.memory_bus_bits),
        (616, target.l2_bytes),
        (624, MAX_THREADS_PER_PROCESSOR),
    ];
    for (at, value) in numbers {
        put(at, &value.to_le_bytes());
    }
    bytes
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> c_int {
    call(|simulator| {
        check_device(device)?;
        let number = attribute_of(simulator, attribute).ok_or(INVALID_VALUE)?;
        // SAFETY: as in `hipRuntimeGetVersion`.
        unsafe { put(value, number) }
    })
}

/// Attributes by their numbers in HIP 7.1.
fn attribute_of(simulator: &Simulator, attribute: c_int) -> Option<c_int> {
    let target = simulator.target;
    let (major, minor, _) = target.version();
    Some(match attribute {
        5 => target.clock_khz,
        16 => c_int::from(is_integrated(simulator)),
        19 => target.l2_bytes,
        23 => major,
        56 => MAX_THREADS_PER_BLOCK,
        59 => target.memory_bus_bits,
        60 => target.memory_clock_khz,
        61 => minor,
        63 => num_processors(simulator),
        74 => MAX_LDS as c_int,
        87 => 32,
        // Memory pools and virtual memory management are not simulated.
        88 | 89 => 0,
        _ => return None,
    })
}

/// The last error of this thread, which is then forgotten; a fault of the device is not.
#[unsafe(no_mangle)]
pub extern "C" fn hipGetLastError() -> c_int {
    let last = LAST_ERROR.replace(SUCCESS);
    sticky().unwrap_or(last).0
}

#[unsafe(no_mangle)]
pub extern "C" fn hipPeekAtLastError() -> c_int {
    sticky().unwrap_or(LAST_ERROR.get()).0
}

fn sticky() -> Option<Status> {
    let has_fault = with_simulator(|simulator| Ok(simulator.fault.is_some()));
    matches!(has_fault, Ok(true)).then_some(super::LAUNCH_FAILURE)
}

#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorString(status: c_int) -> *const c_char {
    Status(status).text().as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorName(status: c_int) -> *const c_char {
    Status(status).name().as_ptr()
}

/// The same text by the name that the driver interface has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDrvGetErrorString(status: c_int, text: *mut *const c_char) -> c_int {
    // SAFETY: the same contract.
    answer(unsafe { put(text, Status(status).text().as_ptr()) })
}
