//! The functions that HIP and CUDA both have, with the same parameters: HIP mirrors CUDA's driver interface, so one table
//! with two columns of symbols serves both.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null;

use super::library::{Opened, Status, functions};
use super::{DriverError, Result};

/// Streams, events, modules and the like are pointers that we never look behind.
pub(super) type Handle = *mut c_void;

/// Columns of the table.
pub(super) const HIP: usize = 0;
#[cfg(feature = "nvidia")]
pub(super) const CUDA: usize = 1;

functions! {
    Functions {
        init = "hipInit" | "cuInit" (flags: c_uint);
        error_string = "hipDrvGetErrorString" | "cuGetErrorString" (code: c_int, text: *mut *const c_char);
        num_devices = "hipGetDeviceCount" | "cuDeviceGetCount" (count: *mut c_int);
        memory_info = "hipMemGetInfo" | "cuMemGetInfo_v2" (free: *mut usize, total: *mut usize);
        alloc = "hipMalloc" | "cuMemAlloc_v2" (memory: *mut u64, bytes: usize);
        free = "hipFree" | "cuMemFree_v2" (memory: u64);
        copy_to_device = "hipMemcpyHtoDAsync" | "cuMemcpyHtoDAsync_v2" (to: u64, from: *const c_void, bytes: usize, stream: Handle);
        copy_to_host = "hipMemcpyDtoHAsync" | "cuMemcpyDtoHAsync_v2" (to: *mut c_void, from: u64, bytes: usize, stream: Handle);
        copy_on_device = "hipMemcpyDtoDAsync" | "cuMemcpyDtoDAsync_v2" (to: u64, from: u64, bytes: usize, stream: Handle);
        fill = "hipMemsetD8Async" | "cuMemsetD8Async" (memory: u64, value: u8, bytes: usize, stream: Handle);
        unload_module = "hipModuleUnload" | "cuModuleUnload" (module: Handle);
        function = "hipModuleGetFunction" | "cuModuleGetFunction" (function: *mut Handle, module: Handle, name: *const c_char);
        launch = "hipModuleLaunchKernel" | "cuLaunchKernel" (
            function: Handle,
            grid_x: c_uint,
            grid_y: c_uint,
            grid_z: c_uint,
            block_x: c_uint,
            block_y: c_uint,
            block_z: c_uint,
            lds: c_uint,
            stream: Handle,
            args: *mut *mut c_void,
            extra: *mut *mut c_void,
        );
        create_stream = "hipStreamCreateWithFlags" | "cuStreamCreate" (stream: *mut Handle, flags: c_uint);
        destroy_stream = "hipStreamDestroy" | "cuStreamDestroy_v2" (stream: Handle);
        synchronize = "hipStreamSynchronize" | "cuStreamSynchronize" (stream: Handle);
        wait_for_event = "hipStreamWaitEvent" | "cuStreamWaitEvent" (stream: Handle, event: Handle, flags: c_uint);
        create_event = "hipEventCreateWithFlags" | "cuEventCreate" (event: *mut Handle, flags: c_uint);
        destroy_event = "hipEventDestroy" | "cuEventDestroy_v2" (event: Handle);
        record = "hipEventRecord" | "cuEventRecord" (event: Handle, stream: Handle);
        wait = "hipEventSynchronize" | "cuEventSynchronize" (event: Handle);
        elapsed = "hipEventElapsedTime" | "cuEventElapsedTime" (milliseconds: *mut f32, from: Handle, to: Handle);
        begin_capture = "hipStreamBeginCapture" | "cuStreamBeginCapture_v2" (stream: Handle, mode: c_int);
        end_capture = "hipStreamEndCapture" | "cuStreamEndCapture" (stream: Handle, graph: *mut Handle);
        instantiate = "hipGraphInstantiateWithFlags" | "cuGraphInstantiateWithFlags" (ready: *mut Handle, graph: Handle, flags: u64);
        launch_graph = "hipGraphLaunch" | "cuGraphLaunch" (ready: Handle, stream: Handle);
        destroy_ready = "hipGraphExecDestroy" | "cuGraphExecDestroy" (ready: Handle);
        destroy_graph = "hipGraphDestroy" | "cuGraphDestroy" (graph: Handle);
    }
}

impl Functions {
    /// Takes the functions, starts the driver, and sees whether it has the device.
    pub(super) fn start(opened: &Opened, vendor: usize, driver: &'static str, ordinal: u32) -> Result<Self> {
        let functions = Self::load(opened, vendor)?;
        let mut count = 0;
        // SAFETY: plain calls; `count` is written.
        unsafe {
            functions.check(functions.init(0))?;
            functions.check(functions.num_devices(&mut count))?;
        }
        let count = count.max(0) as u32;
        if ordinal < count { Ok(functions) } else { Err(DriverError::NoDevice { driver, ordinal, count }) }
    }

    /// A failed call in the driver's words.
    pub(super) fn check(&self, Status { call, code }: Status) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let mut text = null();
        // SAFETY: `text` is written, or stays null for an unknown code.
        let _ = unsafe { self.error_string(code, &mut text) };
        let message = if text.is_null() {
            "an unknown error".to_owned()
        } else {
            // SAFETY: not null, ended by a zero, and never freed.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        Err(DriverError::Call { call, code, message, kernel: None })
    }
}
