//! NVIDIA's driver interface: our own binding, opened at run time. It mirrors HIP call for call, so our table of
//! functions in the same form is shorter than the wrapping of a general binding would be, and neither adds a
//! dependency nor picks a version of CUDA. It is here to run our kernels on silicon that can be reached, and serves
//! on NVIDIA, too.
//!
//! All threads share the device's primary context. Our images are PTX, which the driver compiles at load.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

use taper_kernels::DevicePtr;

use super::library::{self, functions};
use super::{
    Driver, DriverError, EventHandle, FunctionHandle, Geometry, GraphHandle, MemoryInfo, ModuleHandle, Properties,
    Result, StreamHandle,
};

const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
const FIX: &str = "install NVIDIA's driver (530 or later, for CUDA 12.1); no CUDA toolkit is needed";

type Handle = *mut c_void;

functions! {
    Functions {
        cuInit(c_uint);
        cuGetErrorString(c_int, *mut *const c_char);
        cuDeviceGetCount(*mut c_int);
        cuDeviceGet(*mut c_int, c_int);
        cuDeviceGetName(*mut c_char, c_int, c_int);
        cuDeviceTotalMem_v2(*mut usize, c_int);
        cuDeviceGetAttribute(*mut c_int, c_int, c_int);
        cuDevicePrimaryCtxRetain(*mut Handle, c_int);
        cuDevicePrimaryCtxRelease_v2(c_int);
        cuCtxSetCurrent(Handle);
        cuMemGetInfo_v2(*mut usize, *mut usize);
        cuMemAlloc_v2(*mut u64, usize);
        cuMemFree_v2(u64);
        cuMemcpyHtoDAsync_v2(u64, *const c_void, usize, Handle);
        cuMemcpyDtoHAsync_v2(*mut c_void, u64, usize, Handle);
        cuMemcpyDtoDAsync_v2(u64, u64, usize, Handle);
        cuMemsetD8Async(u64, u8, usize, Handle);
        cuModuleLoadDataEx(*mut Handle, *const c_void, c_uint, *mut c_int, *mut *mut c_void);
        cuModuleUnload(Handle);
        cuModuleGetFunction(*mut Handle, Handle, *const c_char);
        cuLaunchKernel(Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void);
        cuStreamCreate(*mut Handle, c_uint);
        cuStreamDestroy_v2(Handle);
        cuStreamSynchronize(Handle);
        cuStreamWaitEvent(Handle, Handle, c_uint);
        cuEventCreate(*mut Handle, c_uint);
        cuEventDestroy_v2(Handle);
        cuEventRecord(Handle, Handle);
        cuEventSynchronize(Handle);
        cuEventElapsedTime(*mut f32, Handle, Handle);
        cuStreamBeginCapture_v2(Handle, c_int);
        cuStreamEndCapture(Handle, *mut Handle);
        cuGraphInstantiateWithFlags(*mut Handle, Handle, u64);
        cuGraphLaunch(Handle, Handle);
        cuGraphExecDestroy(Handle);
        cuGraphDestroy(Handle);
    }
}

const STREAM_NON_BLOCKING: c_uint = 1;
const CAPTURE_RELAXED: c_int = 2;
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
pub struct Cuda {
    functions: Functions,
    device: c_int,
    /// The primary context; a number, since it is shared between threads.
    context: usize,
    properties: Properties,
    image_target: String,
}

thread_local! {
    /// The context that CUDA has for this thread, as far as we know.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

impl Cuda {
    /// Opens the driver, from `directory` alone if there is one, and takes a device by its number.
    pub fn open(directory: Option<&Path>, ordinal: u32) -> Result<Self> {
        let (library, path) = library::open("NVIDIA's libcuda", &NAMES, directory, &[], FIX)?;
        let functions = Functions::load(library, &path, FIX)?;
        let device = device(&functions, ordinal)?;
        let properties = properties(&functions, device)?;
        let mut context = null_mut();
        // SAFETY: `context` is written; it is released when dropped.
        let code = unsafe { (functions.cuDevicePrimaryCtxRetain)(&mut context, device) };
        check(&functions, "cuDevicePrimaryCtxRetain", code)?;
        let capability = properties.target.trim_start_matches("sm_").parse().unwrap_or(0);
        let image_target = taper_kernels::images::ptx_target(capability).unwrap_or(&properties.target).to_owned();
        Ok(Self { functions, device, context: context as usize, properties, image_target })
    }

    /// CUDA has a current context for each thread.
    fn bind(&self) -> Result<()> {
        if CURRENT.get() == self.context {
            return Ok(());
        }
        // SAFETY: the context lives as long as `self`.
        self.check("cuCtxSetCurrent", unsafe { (self.functions.cuCtxSetCurrent)(self.context as Handle) })?;
        CURRENT.set(self.context);
        Ok(())
    }

    fn check(&self, call: &'static str, code: i32) -> Result<()> {
        check(&self.functions, call, code)
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        // SAFETY: retained once in `open`. An error means that the driver is shutting down.
        let _ = unsafe { (self.functions.cuDevicePrimaryCtxRelease_v2)(self.device) };
    }
}

fn check(functions: &Functions, call: &'static str, code: i32) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    let mut text = null();
    // SAFETY: `text` is written, or stays null for an unknown code.
    unsafe { (functions.cuGetErrorString)(code, &mut text) };
    let message = if text.is_null() {
        "an unknown error".to_owned()
    } else {
        // SAFETY: not null, ended by a zero, and never freed.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    Err(DriverError::Call { call, code, message, kernel: None })
}

fn device(functions: &Functions, ordinal: u32) -> Result<c_int> {
    let (mut count, mut device) = (0, 0);
    // SAFETY: plain calls; the numbers are written.
    unsafe {
        check(functions, "cuInit", (functions.cuInit)(0))?;
        check(functions, "cuDeviceGetCount", (functions.cuDeviceGetCount)(&mut count))?;
    }
    let count = count.max(0) as u32;
    if ordinal >= count {
        return Err(DriverError::NoDevice { driver: "CUDA", ordinal, count });
    }
    // SAFETY: the device exists; its handle is written.
    check(functions, "cuDeviceGet", unsafe { (functions.cuDeviceGet)(&mut device, ordinal as c_int) })?;
    Ok(device)
}

fn properties(functions: &Functions, device: c_int) -> Result<Properties> {
    let mut name = [0u8; 256];
    let mut total = 0;
    // SAFETY: both are written; the name is cut to the buffer.
    unsafe {
        let code = (functions.cuDeviceGetName)(name.as_mut_ptr().cast(), name.len() as c_int, device);
        check(functions, "cuDeviceGetName", code)?;
        check(functions, "cuDeviceTotalMem_v2", (functions.cuDeviceTotalMem_v2)(&mut total, device))?;
    }
    let attribute = |number| {
        let mut value = 0;
        // SAFETY: `value` is written.
        let code = unsafe { (functions.cuDeviceGetAttribute)(&mut value, number, device) };
        check(functions, "cuDeviceGetAttribute", code).map(|()| value.max(0) as u32)
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

impl Driver for Cuda {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn memory_info(&self) -> Result<MemoryInfo> {
        self.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are written.
        self.check("cuMemGetInfo_v2", unsafe { (self.functions.cuMemGetInfo_v2)(&mut free, &mut total) })?;
        Ok(MemoryInfo { free: free as u64, total: total as u64 })
    }

    fn alloc(&self, bytes: usize) -> Result<DevicePtr> {
        self.bind()?;
        let mut memory = 0;
        // SAFETY: `memory` is written.
        self.check("cuMemAlloc_v2", unsafe { (self.functions.cuMemAlloc_v2)(&mut memory, bytes) })?;
        Ok(DevicePtr(memory))
    }

    unsafe fn free(&self, memory: DevicePtr) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        self.check("cuMemFree_v2", unsafe { (self.functions.cuMemFree_v2)(memory.0) })
    }

    unsafe fn copy_to_device(&self, to: DevicePtr, from: &[u8], stream: StreamHandle) -> Result<()> {
        self.bind()?;
        let (source, stream) = (from.as_ptr().cast(), stream.0 as Handle);
        // SAFETY: the caller's promise.
        let code = unsafe { (self.functions.cuMemcpyHtoDAsync_v2)(to.0, source, from.len(), stream) };
        self.check("cuMemcpyHtoDAsync_v2", code)
    }

    unsafe fn copy_to_host(&self, to: &mut [u8], from: DevicePtr, stream: StreamHandle) -> Result<()> {
        self.bind()?;
        let (target, stream) = (to.as_mut_ptr().cast(), stream.0 as Handle);
        // SAFETY: the caller's promise.
        let code = unsafe { (self.functions.cuMemcpyDtoHAsync_v2)(target, from.0, to.len(), stream) };
        self.check("cuMemcpyDtoHAsync_v2", code)
    }

    unsafe fn copy_on_device(&self, to: DevicePtr, from: DevicePtr, bytes: usize, stream: StreamHandle) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        let code = unsafe { (self.functions.cuMemcpyDtoDAsync_v2)(to.0, from.0, bytes, stream.0 as Handle) };
        self.check("cuMemcpyDtoDAsync_v2", code)
    }

    unsafe fn fill(&self, memory: DevicePtr, value: u8, bytes: usize, stream: StreamHandle) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        let code = unsafe { (self.functions.cuMemsetD8Async)(memory.0, value, bytes, stream.0 as Handle) };
        self.check("cuMemsetD8Async", code)
    }

    fn image_target(&self) -> &str {
        &self.image_target
    }

    fn load_module(&self, image: &[u8]) -> Result<ModuleHandle> {
        self.bind()?;
        let text = CString::new(image).map_err(|_| taper_kernels::MetadataError::Format)?;
        let mut log = vec![0u8; LOG_BYTES];
        let mut options = [JIT_ERROR_LOG, JIT_ERROR_LOG_SIZE];
        // A number stands in the place of an address, as CUDA's interface asks.
        let mut values = [log.as_mut_ptr().cast::<c_void>(), LOG_BYTES as *mut c_void];
        let mut module = null_mut();
        // SAFETY: PTX is text ended by a zero; the log has as many bytes as is said; `module` is written.
        let code = unsafe {
            let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
            (self.functions.cuModuleLoadDataEx)(&mut module, text.as_ptr().cast(), 2, options, values)
        };
        self.check("cuModuleLoadDataEx", code).map_err(|error| with_log(error, &log))?;
        Ok(ModuleHandle(module as usize))
    }

    unsafe fn unload_module(&self, module: ModuleHandle) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        self.check("cuModuleUnload", unsafe { (self.functions.cuModuleUnload)(module.0 as Handle) })
    }

    unsafe fn function(&self, module: ModuleHandle, name: &str) -> Result<FunctionHandle> {
        self.bind()?;
        let text = CString::new(name).expect("names of kernels hold no zero");
        let mut function = null_mut();
        // SAFETY: the caller's promise; `function` is written.
        let code = unsafe { (self.functions.cuModuleGetFunction)(&mut function, module.0 as Handle, text.as_ptr()) };
        self.check("cuModuleGetFunction", code).map_err(|error| error.of_kernel(name))?;
        Ok(FunctionHandle(function as usize))
    }

    unsafe fn launch(&self, function: FunctionHandle, geometry: Geometry, stream: StreamHandle) -> Result<()> {
        self.bind()?;
        let [x, y, z] = geometry.grid;
        let mut args = super::arg_pointers(geometry.args);
        let (function, stream) = (function.0 as Handle, stream.0 as Handle);
        // SAFETY: the caller's promise; CUDA copies the arguments before it returns.
        let code = unsafe {
            (self.functions.cuLaunchKernel)(
                function,
                x,
                y,
                z,
                geometry.block,
                1,
                1,
                geometry.lds,
                stream,
                args.as_mut_ptr(),
                null_mut(),
            )
        };
        self.check("cuLaunchKernel", code)
    }

    fn create_stream(&self) -> Result<StreamHandle> {
        self.bind()?;
        let mut stream = null_mut();
        // SAFETY: `stream` is written.
        let code = unsafe { (self.functions.cuStreamCreate)(&mut stream, STREAM_NON_BLOCKING) };
        self.check("cuStreamCreate", code)?;
        Ok(StreamHandle(stream as usize))
    }

    unsafe fn destroy_stream(&self, stream: StreamHandle) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        self.check("cuStreamDestroy_v2", unsafe { (self.functions.cuStreamDestroy_v2)(stream.0 as Handle) })
    }

    unsafe fn synchronize(&self, stream: StreamHandle) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        self.check("cuStreamSynchronize", unsafe { (self.functions.cuStreamSynchronize)(stream.0 as Handle) })
    }

    unsafe fn wait_for_event(&self, stream: StreamHandle, event: EventHandle) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        let code = unsafe { (self.functions.cuStreamWaitEvent)(stream.0 as Handle, event.0 as Handle, 0) };
        self.check("cuStreamWaitEvent", code)
    }

    fn create_event(&self) -> Result<EventHandle> {
        self.bind()?;
        let mut event = null_mut();
        // SAFETY: `event` is written.
        self.check("cuEventCreate", unsafe { (self.functions.cuEventCreate)(&mut event, 0) })?;
        Ok(EventHandle(event as usize))
    }

    unsafe fn destroy_event(&self, event: EventHandle) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        self.check("cuEventDestroy_v2", unsafe { (self.functions.cuEventDestroy_v2)(event.0 as Handle) })
    }

    unsafe fn record(&self, event: EventHandle, stream: StreamHandle) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        let code = unsafe { (self.functions.cuEventRecord)(event.0 as Handle, stream.0 as Handle) };
        self.check("cuEventRecord", code)
    }

    unsafe fn wait(&self, event: EventHandle) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        self.check("cuEventSynchronize", unsafe { (self.functions.cuEventSynchronize)(event.0 as Handle) })
    }

    unsafe fn elapsed(&self, from: EventHandle, to: EventHandle) -> Result<f32> {
        self.bind()?;
        let mut milliseconds = 0.0;
        let (from, to) = (from.0 as Handle, to.0 as Handle);
        // SAFETY: the caller's promise; the number is written.
        let code = unsafe { (self.functions.cuEventElapsedTime)(&mut milliseconds, from, to) };
        self.check("cuEventElapsedTime", code)?;
        Ok(milliseconds)
    }

    unsafe fn begin_capture(&self, stream: StreamHandle) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        let code = unsafe { (self.functions.cuStreamBeginCapture_v2)(stream.0 as Handle, CAPTURE_RELAXED) };
        self.check("cuStreamBeginCapture_v2", code)
    }

    unsafe fn end_capture(&self, stream: StreamHandle) -> Result<GraphHandle> {
        self.bind()?;
        let (mut graph, mut ready) = (null_mut(), null_mut());
        // SAFETY: the caller's promise; both handles are written before they are used, and the recording is not needed
        // once it was made ready.
        unsafe {
            self.check("cuStreamEndCapture", (self.functions.cuStreamEndCapture)(stream.0 as Handle, &mut graph))?;
            let code = (self.functions.cuGraphInstantiateWithFlags)(&mut ready, graph, 0);
            (self.functions.cuGraphDestroy)(graph);
            self.check("cuGraphInstantiateWithFlags", code)?;
        }
        Ok(GraphHandle(ready as usize))
    }

    unsafe fn launch_graph(&self, graph: GraphHandle, stream: StreamHandle) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        let code = unsafe { (self.functions.cuGraphLaunch)(graph.0 as Handle, stream.0 as Handle) };
        self.check("cuGraphLaunch", code)
    }

    unsafe fn destroy_graph(&self, graph: GraphHandle) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        self.check("cuGraphExecDestroy", unsafe { (self.functions.cuGraphExecDestroy)(graph.0 as Handle) })
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
