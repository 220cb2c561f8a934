//! AMD's driver interface, HIP: our own binding of the functions we call, opened at run time.
//!
//! Device properties are read by offset from the structure of ROCm 6 and later (`hipGetDevicePropertiesR0600`); the
//! function without that suffix fills an older structure. `hipMallocAsync` is not used: several released versions
//! lose or corrupt its memory.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

use taper_kernels::DevicePtr;

use super::library::{self, functions};
use super::{
    Driver, DriverError, EventHandle, FunctionHandle, Geometry, GraphHandle, MemoryInfo, ModuleHandle, Properties,
    Result, StreamHandle,
};

/// Newest first. The plain name last: it is there where development files are installed.
const NAMES: [&str; 3] = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"];
const FIX: &str = "install ROCm 6 or later (the package hip-runtime-amd), or set ROCM_PATH to where it is";

type Handle = *mut c_void;

functions! {
    Functions {
        hipInit(c_uint);
        hipGetDeviceCount(*mut c_int);
        hipSetDevice(c_int);
        hipGetDevicePropertiesR0600(*mut c_void, c_int);
        hipMemGetInfo(*mut usize, *mut usize);
        hipMalloc(*mut *mut c_void, usize);
        hipFree(*mut c_void);
        hipMemcpyAsync(*mut c_void, *const c_void, usize, c_int, Handle);
        hipMemsetAsync(*mut c_void, c_int, usize, Handle);
        hipModuleLoadData(*mut Handle, *const c_void);
        hipModuleUnload(Handle);
        hipModuleGetFunction(*mut Handle, Handle, *const c_char);
        hipModuleLaunchKernel(Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void);
        hipStreamCreateWithFlags(*mut Handle, c_uint);
        hipStreamDestroy(Handle);
        hipStreamSynchronize(Handle);
        hipStreamWaitEvent(Handle, Handle, c_uint);
        hipEventCreateWithFlags(*mut Handle, c_uint);
        hipEventDestroy(Handle);
        hipEventRecord(Handle, Handle);
        hipEventSynchronize(Handle);
        hipEventElapsedTime(*mut f32, Handle, Handle);
        hipStreamBeginCapture(Handle, c_int);
        hipStreamEndCapture(Handle, *mut Handle);
        hipGraphInstantiate(*mut Handle, Handle, *mut Handle, *mut c_char, usize);
        hipGraphLaunch(Handle, Handle);
        hipGraphExecDestroy(Handle);
        hipGraphDestroy(Handle);
    }
}

/// Kinds of `hipMemcpyAsync`.
const HOST_TO_DEVICE: c_int = 1;
const DEVICE_TO_HOST: c_int = 2;
const DEVICE_TO_DEVICE: c_int = 3;
/// A stream that does not wait for the default stream.
const STREAM_NON_BLOCKING: c_uint = 1;
/// Other threads may call what capture forbids in this one.
const CAPTURE_RELAXED: c_int = 2;

/// One AMD device.
pub struct Hip {
    functions: Functions,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    ordinal: u32,
    properties: Properties,
}

thread_local! {
    /// The device that HIP has for this thread, as far as we know.
    static CURRENT: Cell<Option<u32>> = const { Cell::new(None) };
}

impl Hip {
    /// Opens the library, from `directory` alone if there is one, and takes a device by its number.
    pub fn open(directory: Option<&Path>, ordinal: u32) -> Result<Self> {
        let rocm = std::env::var_os("ROCM_PATH").map(|path| PathBuf::from(path).join("lib"));
        let elsewhere: Vec<PathBuf> = rocm.into_iter().chain([PathBuf::from("/opt/rocm/lib")]).collect();
        let (library, path) = library::open("ROCm's libamdhip64", &NAMES, directory, &elsewhere, FIX)?;
        let missing = |_| DriverError::NoSymbol { library: path.clone(), symbol: "hipGetErrorString", fix: FIX };
        // SAFETY: as in HIP's header; the library stays loaded in `functions`.
        let error_string = unsafe { *library.get(b"hipGetErrorString").map_err(missing)? };
        let functions = Functions::load(library, &path, FIX)?;
        let properties = Properties {
            name: String::new(),
            target: String::new(),
            total_memory: 0,
            num_processors: 0,
            wave_size: 0,
            max_block_threads: 0,
            lds_per_block: 0,
            integrated: false,
            clock_khz: 0,
            memory_clock_khz: 0,
            memory_bus_bits: 0,
            l2_cache: 0,
        };
        let mut hip = Self { functions, error_string, ordinal, properties };
        hip.start()?;
        Ok(hip)
    }

    fn start(&mut self) -> Result<()> {
        let mut count = 0;
        // SAFETY: plain calls; `count` is written.
        unsafe {
            self.check("hipInit", (self.functions.hipInit)(0))?;
            self.check("hipGetDeviceCount", (self.functions.hipGetDeviceCount)(&mut count))?;
        }
        let count = count.max(0) as u32;
        if self.ordinal >= count {
            return Err(DriverError::NoDevice { driver: "HIP", ordinal: self.ordinal, count });
        }
        let mut raw = RawProperties([0; 4096]);
        let to = (&raw mut raw).cast();
        // SAFETY: the structure has 1472 bytes in every version so far; there is room for more than twice as many.
        let code = unsafe { (self.functions.hipGetDevicePropertiesR0600)(to, self.ordinal as c_int) };
        self.check("hipGetDevicePropertiesR0600", code)?;
        self.properties = raw.read();
        self.bind()
    }

    /// HIP has a current device for each thread.
    fn bind(&self) -> Result<()> {
        if CURRENT.get() == Some(self.ordinal) {
            return Ok(());
        }
        // SAFETY: the device exists.
        self.check("hipSetDevice", unsafe { (self.functions.hipSetDevice)(self.ordinal as c_int) })?;
        CURRENT.set(Some(self.ordinal));
        Ok(())
    }

    fn check(&self, call: &'static str, code: i32) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the function takes any number and returns a text that is never freed.
        let text = unsafe { (self.error_string)(code) };
        let message = if text.is_null() {
            "an unknown error".to_owned()
        } else {
            // SAFETY: not null, and ended by a zero.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        Err(DriverError::Call { call, code, message, kernel: None })
    }

    unsafe fn copy(
        &self,
        to: Handle,
        from: *const c_void,
        bytes: usize,
        kind: c_int,
        stream: StreamHandle,
    ) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        let code = unsafe { (self.functions.hipMemcpyAsync)(to, from, bytes, kind, stream.0 as Handle) };
        self.check("hipMemcpyAsync", code)
    }
}

/// `hipDeviceProp_tR0600`, with room to spare.
#[repr(C, align(16))]
struct RawProperties([u8; 4096]);

impl RawProperties {
    /// Offsets as in the headers of HIP 7.1.
    fn read(&self) -> Properties {
        Properties {
            name: self.text(0, 256),
            // May go on like `:sramecc+:xnack-`.
            target: self.text(1160, 256).split(':').next().unwrap_or_default().to_owned(),
            total_memory: u64::from(self.word(288)) | u64::from(self.word(292)) << 32,
            num_processors: self.word(388),
            wave_size: self.word(308),
            max_block_threads: self.word(320),
            lds_per_block: self.word(296),
            integrated: self.word(396) != 0,
            clock_khz: self.word(348),
            memory_clock_khz: self.word(608),
            memory_bus_bits: self.word(612),
            l2_cache: self.word(616),
        }
    }

    fn word(&self, at: usize) -> u32 {
        let bytes = &self.0[at..at + 4];
        u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    fn text(&self, at: usize, len: usize) -> String {
        let bytes = self.0[at..at + len].split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }
}

impl Driver for Hip {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn memory_info(&self) -> Result<MemoryInfo> {
        self.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are written.
        self.check("hipMemGetInfo", unsafe { (self.functions.hipMemGetInfo)(&mut free, &mut total) })?;
        Ok(MemoryInfo { free: free as u64, total: total as u64 })
    }

    fn alloc(&self, bytes: usize) -> Result<DevicePtr> {
        self.bind()?;
        let mut memory = null_mut();
        // SAFETY: `memory` is written.
        self.check("hipMalloc", unsafe { (self.functions.hipMalloc)(&mut memory, bytes) })?;
        Ok(DevicePtr(memory as u64))
    }

    unsafe fn free(&self, memory: DevicePtr) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        self.check("hipFree", unsafe { (self.functions.hipFree)(memory.0 as Handle) })
    }

    unsafe fn copy_to_device(&self, to: DevicePtr, from: &[u8], stream: StreamHandle) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.copy(to.0 as Handle, from.as_ptr().cast(), from.len(), HOST_TO_DEVICE, stream) }
    }

    unsafe fn copy_to_host(&self, to: &mut [u8], from: DevicePtr, stream: StreamHandle) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.copy(to.as_mut_ptr().cast(), from.0 as Handle, to.len(), DEVICE_TO_HOST, stream) }
    }

    unsafe fn copy_on_device(&self, to: DevicePtr, from: DevicePtr, bytes: usize, stream: StreamHandle) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.copy(to.0 as Handle, from.0 as Handle, bytes, DEVICE_TO_DEVICE, stream) }
    }

    unsafe fn fill(&self, memory: DevicePtr, value: u8, bytes: usize, stream: StreamHandle) -> Result<()> {
        self.bind()?;
        let (memory, stream) = (memory.0 as Handle, stream.0 as Handle);
        // SAFETY: the caller's promise.
        let code = unsafe { (self.functions.hipMemsetAsync)(memory, c_int::from(value), bytes, stream) };
        self.check("hipMemsetAsync", code)
    }

    fn image_target(&self) -> &str {
        &self.properties.target
    }

    fn load_module(&self, image: &[u8]) -> Result<ModuleHandle> {
        self.bind()?;
        let mut module = null_mut();
        // SAFETY: the image is whole, which its metadata's reader saw; `module` is written.
        let code = unsafe { (self.functions.hipModuleLoadData)(&mut module, image.as_ptr().cast()) };
        self.check("hipModuleLoadData", code)?;
        Ok(ModuleHandle(module as usize))
    }

    unsafe fn unload_module(&self, module: ModuleHandle) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        self.check("hipModuleUnload", unsafe { (self.functions.hipModuleUnload)(module.0 as Handle) })
    }

    unsafe fn function(&self, module: ModuleHandle, name: &str) -> Result<FunctionHandle> {
        self.bind()?;
        let text = CString::new(name).expect("names of kernels hold no zero");
        let mut function = null_mut();
        // SAFETY: the caller's promise; `function` is written.
        let code = unsafe { (self.functions.hipModuleGetFunction)(&mut function, module.0 as Handle, text.as_ptr()) };
        self.check("hipModuleGetFunction", code).map_err(|error| error.of_kernel(name))?;
        Ok(FunctionHandle(function as usize))
    }

    unsafe fn launch(&self, function: FunctionHandle, geometry: Geometry, stream: StreamHandle) -> Result<()> {
        self.bind()?;
        let [x, y, z] = geometry.grid;
        let mut args = super::arg_pointers(geometry.args);
        let (function, stream) = (function.0 as Handle, stream.0 as Handle);
        // SAFETY: the caller's promise; HIP copies the arguments before it returns.
        let code = unsafe {
            (self.functions.hipModuleLaunchKernel)(
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
        self.check("hipModuleLaunchKernel", code)
    }

    fn create_stream(&self) -> Result<StreamHandle> {
        self.bind()?;
        let mut stream = null_mut();
        // SAFETY: `stream` is written.
        let code = unsafe { (self.functions.hipStreamCreateWithFlags)(&mut stream, STREAM_NON_BLOCKING) };
        self.check("hipStreamCreateWithFlags", code)?;
        Ok(StreamHandle(stream as usize))
    }

    unsafe fn destroy_stream(&self, stream: StreamHandle) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        self.check("hipStreamDestroy", unsafe { (self.functions.hipStreamDestroy)(stream.0 as Handle) })
    }

    unsafe fn synchronize(&self, stream: StreamHandle) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        self.check("hipStreamSynchronize", unsafe { (self.functions.hipStreamSynchronize)(stream.0 as Handle) })
    }

    unsafe fn wait_for_event(&self, stream: StreamHandle, event: EventHandle) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        let code = unsafe { (self.functions.hipStreamWaitEvent)(stream.0 as Handle, event.0 as Handle, 0) };
        self.check("hipStreamWaitEvent", code)
    }

    fn create_event(&self) -> Result<EventHandle> {
        self.bind()?;
        let mut event = null_mut();
        // SAFETY: `event` is written.
        let code = unsafe { (self.functions.hipEventCreateWithFlags)(&mut event, 0) };
        self.check("hipEventCreateWithFlags", code)?;
        Ok(EventHandle(event as usize))
    }

    unsafe fn destroy_event(&self, event: EventHandle) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        self.check("hipEventDestroy", unsafe { (self.functions.hipEventDestroy)(event.0 as Handle) })
    }

    unsafe fn record(&self, event: EventHandle, stream: StreamHandle) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        let code = unsafe { (self.functions.hipEventRecord)(event.0 as Handle, stream.0 as Handle) };
        self.check("hipEventRecord", code)
    }

    unsafe fn wait(&self, event: EventHandle) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        self.check("hipEventSynchronize", unsafe { (self.functions.hipEventSynchronize)(event.0 as Handle) })
    }

    unsafe fn elapsed(&self, from: EventHandle, to: EventHandle) -> Result<f32> {
        self.bind()?;
        let mut milliseconds = 0.0;
        let (from, to) = (from.0 as Handle, to.0 as Handle);
        // SAFETY: the caller's promise; the number is written.
        let code = unsafe { (self.functions.hipEventElapsedTime)(&mut milliseconds, from, to) };
        self.check("hipEventElapsedTime", code)?;
        Ok(milliseconds)
    }

    unsafe fn begin_capture(&self, stream: StreamHandle) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        let code = unsafe { (self.functions.hipStreamBeginCapture)(stream.0 as Handle, CAPTURE_RELAXED) };
        self.check("hipStreamBeginCapture", code)
    }

    unsafe fn end_capture(&self, stream: StreamHandle) -> Result<GraphHandle> {
        self.bind()?;
        let (mut graph, mut ready) = (null_mut(), null_mut());
        // SAFETY: the caller's promise; both handles are written before they are used, and the recording is not needed
        // once it was made ready.
        unsafe {
            self.check("hipStreamEndCapture", (self.functions.hipStreamEndCapture)(stream.0 as Handle, &mut graph))?;
            let code =
                (self.functions.hipGraphInstantiate)(&mut ready, graph, null_mut(), null::<c_char>().cast_mut(), 0);
            (self.functions.hipGraphDestroy)(graph);
            self.check("hipGraphInstantiate", code)?;
        }
        Ok(GraphHandle(ready as usize))
    }

    unsafe fn launch_graph(&self, graph: GraphHandle, stream: StreamHandle) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        let code = unsafe { (self.functions.hipGraphLaunch)(graph.0 as Handle, stream.0 as Handle) };
        self.check("hipGraphLaunch", code)
    }

    unsafe fn destroy_graph(&self, graph: GraphHandle) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        self.check("hipGraphExecDestroy", unsafe { (self.functions.hipGraphExecDestroy)(graph.0 as Handle) })
    }
}

#[cfg(test)]
mod tests {
    use super::RawProperties;

    #[test]
    fn properties_are_read_where_hip_7_puts_them() {
        let mut raw = RawProperties([0; 4096]);
        let mut put = |at: usize, bytes: &[u8]| raw.0[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"AMD Radeon Graphics");
        put(288, &(96u64 << 30).to_le_bytes());
        put(308, &32u32.to_le_bytes());
        put(388, &20u32.to_le_bytes());
        put(396, &1u32.to_le_bytes());
        put(1160, b"gfx1151:sramecc-:xnack-");
        let read = raw.read();
        assert_eq!((read.name.as_str(), read.target.as_str()), ("AMD Radeon Graphics", "gfx1151"));
        assert_eq!((read.total_memory, read.wave_size, read.num_processors), (96 << 30, 32, 20));
        assert!(read.integrated);
    }
}
