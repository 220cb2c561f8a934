//! What is NVIDIA's own: the driver's library, the device's properties, the primary context, which all threads share,
//! and images: ours are PTX, which the driver compiles at load.
//!
//! The driver is bound here and not through a general binding: HIP mirrors it call for call, so one table serves both,
//! and none of CUDA's versions is chosen. It is here to run our kernels on silicon that can be reached, and serves on
//! NVIDIA, too.

use std::cell::Cell;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr::null_mut;

use super::library::{self, functions};
use super::table::{self, Functions, Handle};
use super::{Driver, DriverError, Properties, Result, Vendor};

const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
const FIX: &str = "install NVIDIA's driver (530 or later, for CUDA 12.1); no CUDA toolkit is needed";

functions! {
    OwnFunctions {
        device = "cuDeviceGet" (device: *mut c_int, ordinal: c_int);
        device_name = "cuDeviceGetName" (name: *mut c_char, len: c_int, device: c_int);
        total_memory = "cuDeviceTotalMem_v2" (bytes: *mut usize, device: c_int);
        attribute = "cuDeviceGetAttribute" (value: *mut c_int, attribute: c_int, device: c_int);
        retain_context = "cuDevicePrimaryCtxRetain" (context: *mut Handle, device: c_int);
        release_context = "cuDevicePrimaryCtxRelease_v2" (device: c_int);
        set_context = "cuCtxSetCurrent" (context: Handle);
        load_module = "cuModuleLoadDataEx" (
            module: *mut Handle,
            image: *const c_void,
            num_options: c_uint,
            options: *mut c_int,
            values: *mut *mut c_void,
        );
    }
}

/// Options of `cuModuleLoadDataEx`: a buffer for what the compiler of PTX complains about, and its size.
const JIT_ERROR_LOG: c_int = 5;
const JIT_ERROR_LOG_SIZE: c_int = 6;
const LOG_BYTES: usize = 8192;

/// Numbers of `cuDeviceGetAttribute`.
mod attribute {
    pub const MAX_THREADS_PER_BLOCK: i32 = 1;
    pub const MAX_SHARED_PER_BLOCK: i32 = 8;
    pub const WARP_SIZE: i32 = 10;
    pub const CLOCK_RATE: i32 = 13;
    pub const MULTIPROCESSOR_COUNT: i32 = 16;
    pub const INTEGRATED: i32 = 18;
    pub const MEMORY_CLOCK_RATE: i32 = 36;
    pub const MEMORY_BUS_WIDTH: i32 = 37;
    pub const L2_CACHE_SIZE: i32 = 38;
    pub const MAJOR: i32 = 75;
    pub const MINOR: i32 = 76;
}

/// One NVIDIA device.
pub(super) struct Cuda {
    functions: OwnFunctions,
    device: c_int,
    /// The primary context; a number, since it is shared between threads.
    context: usize,
}

thread_local! {
    /// The context that CUDA has for this thread, as far as we know.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// Opens the driver, from `directory` alone if there is one, and takes a device by its number.
pub(super) fn open(directory: Option<&Path>, ordinal: u32) -> Result<Driver> {
    let opened = library::open("NVIDIA's libcuda", &NAMES, directory, &[], FIX)?;
    let own = OwnFunctions::load(&opened, 0)?;
    let functions = Functions::start(&opened, table::CUDA, "CUDA", ordinal)?;
    let (mut device, mut context) = (0, null_mut());
    // SAFETY: the device exists; its handle is written.
    functions.check(unsafe { own.device(&mut device, ordinal as c_int) })?;
    let properties = properties(&functions, &own, device)?;
    // SAFETY: `context` is written; it is released when dropped.
    functions.check(unsafe { own.retain_context(&mut context, device) })?;
    let cuda = Cuda { functions: own, device, context: context as usize };
    let capability = properties.target.trim_start_matches("sm_").parse().unwrap_or(0);
    let image_target = taper_kernels::images::ptx_target(capability).unwrap_or(&properties.target).to_owned();
    Ok(Driver { functions, vendor: Vendor::Cuda(cuda), properties, image_target })
}

fn properties(common: &Functions, own: &OwnFunctions, device: c_int) -> Result<Properties> {
    let mut name = [0u8; 256];
    let mut total = 0;
    // SAFETY: both are written; the name is cut to the buffer.
    unsafe {
        common.check(own.device_name(name.as_mut_ptr().cast(), name.len() as c_int, device))?;
        common.check(own.total_memory(&mut total, device))?;
    }
    let attribute = |number| {
        let mut value = 0;
        // SAFETY: `value` is written.
        common.check(unsafe { own.attribute(&mut value, number, device) }).map(|()| value.max(0) as u32)
    };
    let text = name.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(Properties {
        name: String::from_utf8_lossy(text).into_owned(),
        target: format!("sm_{}{}", attribute(attribute::MAJOR)?, attribute(attribute::MINOR)?),
        total_memory: total as u64,
        num_processors: attribute(attribute::MULTIPROCESSOR_COUNT)?,
        wave_size: attribute(attribute::WARP_SIZE)?,
        max_block_threads: attribute(attribute::MAX_THREADS_PER_BLOCK)?,
        lds_per_block: attribute(attribute::MAX_SHARED_PER_BLOCK)?,
        integrated: attribute(attribute::INTEGRATED)? != 0,
        clock_khz: attribute(attribute::CLOCK_RATE)?,
        memory_clock_khz: attribute(attribute::MEMORY_CLOCK_RATE)?,
        memory_bus_bits: attribute(attribute::MEMORY_BUS_WIDTH)?,
        l2_cache: attribute(attribute::L2_CACHE_SIZE)?,
    })
}

impl Cuda {
    /// CUDA has a current context for each thread.
    pub(super) fn bind(&self, common: &Functions) -> Result<()> {
        if CURRENT.get() == self.context {
            return Ok(());
        }
        // SAFETY: the context lives as long as `self`.
        common.check(unsafe { self.functions.set_context(self.context as Handle) })?;
        CURRENT.set(self.context);
        Ok(())
    }

    /// PTX, which the driver compiles; what its compiler complains about is part of the error.
    pub(super) fn load_module(&self, common: &Functions, image: &[u8]) -> Result<Handle> {
        let text = CString::new(image).map_err(|_| taper_kernels::MetadataError::Format)?;
        let mut log = vec![0u8; LOG_BYTES];
        let mut options = [JIT_ERROR_LOG, JIT_ERROR_LOG_SIZE];
        // A number stands in the place of an address, as CUDA's interface asks.
        let mut values = [log.as_mut_ptr().cast::<c_void>(), LOG_BYTES as *mut c_void];
        let mut module = null_mut();
        // SAFETY: PTX is text ended by a zero; the log has as many bytes as is said; `module` is written.
        let status = unsafe {
            let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
            self.functions.load_module(&mut module, text.as_ptr().cast(), 2, options, values)
        };
        common.check(status).map_err(|error| with_log(error, &log))?;
        Ok(module)
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        // SAFETY: retained once in `open`. An error means that the driver is shutting down.
        let _ = unsafe { self.functions.release_context(self.device) };
    }
}

/// Adds what the compiler of PTX said.
fn with_log(error: DriverError, log: &[u8]) -> DriverError {
    let said = log.split(|byte| *byte == 0).next().unwrap_or_default();
    match error {
        DriverError::Call { call, code, message, kernel } if !said.is_empty() => {
            let message = format!("{message}: {}", String::from_utf8_lossy(said).trim());
            DriverError::Call { call, code, message, kernel }
        }
        other => other,
    }
}
