//! What we ask of a GPU's driver, and of nothing else: AMD's HIP and NVIDIA's CUDA, which have the same calls under other
//! names. Handles are numbers here; [`crate::Context`] owns them and is the interface for everyone else.

#[cfg(feature = "nvidia")]
mod cuda;
mod error;
mod hip;
mod library;
mod table;

pub use error::DriverError;

use std::ffi::{CString, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr::null_mut;

use taper_kernels::{Args, DevicePtr};

use table::{Functions, Handle};

/// A stream that does not wait for the default stream.
const STREAM_NON_BLOCKING: c_uint = 1;
/// Other threads may call what capture forbids in this one.
const CAPTURE_RELAXED: c_int = 2;

pub type Result<T> = std::result::Result<T, DriverError>;

/// What a device says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Properties {
    pub name: String,
    /// What images are chosen by: `gfx1151`, `sm_90`.
    pub target: String,
    /// Bytes; what HIP says is unreliable on devices that share the host's memory.
    pub total_memory: u64,
    /// Compute units, work-group processors (HIP on RDNA) or multiprocessors.
    pub num_processors: u32,
    /// Lanes of a wave.
    pub wave_size: u32,
    pub max_block_threads: u32,
    /// Bytes.
    pub lds_per_block: u32,
    /// Whether the device shares the host's memory.
    pub integrated: bool,
    pub clock_khz: u32,
    pub memory_clock_khz: u32,
    pub memory_bus_bits: u32,
    /// Bytes.
    pub l2_cache: u32,
}

/// Bytes of device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryInfo {
    pub free: u64,
    pub total: u64,
}

// Numbers, not pointers: handles go from thread to thread.
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name(usize);

        impl $name {
            fn of(raw: Handle) -> Self {
                Self(raw as usize)
            }

            fn raw(self) -> Handle {
                self.0 as Handle
            }
        }
    )*};
}
handles! {
    /// A loaded image.
    ModuleHandle;
    /// A kernel of a module; valid as long as the module is loaded.
    FunctionHandle;
    /// A queue of work that runs in order.
    StreamHandle;
    /// A moment in a stream.
    EventHandle;
    /// A recorded sequence of work, ready to run.
    GraphHandle;
}

/// Blocks, threads of a block, dynamic LDS in bytes, and arguments.
#[derive(Debug, Clone, Copy)]
pub struct Geometry<'a> {
    pub grid: [u32; 3],
    pub block: u32,
    pub lds: u32,
    pub args: &'a Args,
}

/// One device through its driver. Every call may come from any thread.
///
/// # Safety
///
/// All unsafe methods ask that handles and addresses came from this driver and were not given back, that addresses
/// are good for as many bytes as the call touches until the stream has passed it, and that host memory stays until
/// then, too.
pub struct Driver {
    functions: Functions,
    vendor: Vendor,
    properties: Properties,
    image_target: String,
}

/// What the vendors do not have in common.
enum Vendor {
    Hip(hip::Hip),
    #[cfg(feature = "nvidia")]
    Cuda(cuda::Cuda),
}

impl Driver {
    /// An AMD device by its number. HIP is opened from `directory` alone if there is one.
    pub fn hip(directory: Option<&Path>, ordinal: u32) -> Result<Self> {
        hip::open(directory, ordinal)
    }

    /// An NVIDIA device by its number. CUDA's driver is opened from `directory` alone if there is one.
    #[cfg(feature = "nvidia")]
    pub fn cuda(directory: Option<&Path>, ordinal: u32) -> Result<Self> {
        cuda::open(directory, ordinal)
    }

    #[must_use]
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// The name of the embedded images that this device runs.
    #[must_use]
    pub fn image_target(&self) -> &str {
        &self.image_target
    }

    /// The functions, with the device made this thread's current one.
    fn bound(&self) -> Result<&Functions> {
        match &self.vendor {
            Vendor::Hip(hip) => hip.bind(&self.functions)?,
            #[cfg(feature = "nvidia")]
            Vendor::Cuda(cuda) => cuda.bind(&self.functions)?,
        }
        Ok(&self.functions)
    }

    pub fn memory_info(&self) -> Result<MemoryInfo> {
        let functions = self.bound()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are written.
        functions.check(unsafe { functions.memory_info(&mut free, &mut total) })?;
        Ok(MemoryInfo { free: free as u64, total: total as u64 })
    }

    pub fn alloc(&self, bytes: usize) -> Result<DevicePtr> {
        let functions = self.bound()?;
        let mut memory = 0;
        // SAFETY: `memory` is written.
        functions.check(unsafe { functions.alloc(&mut memory, bytes) })?;
        Ok(DevicePtr(memory))
    }

    /// # Safety
    /// See the type. No work that uses the memory may be under way.
    pub unsafe fn free(&self, memory: DevicePtr) -> Result<()> {
        let functions = self.bound()?;
        // SAFETY: the caller's promise.
        functions.check(unsafe { functions.free(memory.0) })
    }

    /// # Safety
    /// See the type.
    pub unsafe fn copy_to_device(&self, to: DevicePtr, from: &[u8], stream: StreamHandle) -> Result<()> {
        let functions = self.bound()?;
        // SAFETY: the caller's promise.
        functions.check(unsafe { functions.copy_to_device(to.0, from.as_ptr().cast(), from.len(), stream.raw()) })
    }

    /// # Safety
    /// See the type.
    pub unsafe fn copy_to_host(&self, to: &mut [u8], from: DevicePtr, stream: StreamHandle) -> Result<()> {
        let functions = self.bound()?;
        // SAFETY: the caller's promise.
        functions.check(unsafe { functions.copy_to_host(to.as_mut_ptr().cast(), from.0, to.len(), stream.raw()) })
    }

    /// # Safety
    /// See the type. The ranges do not overlap.
    pub unsafe fn copy_on_device(
        &self,
        to: DevicePtr,
        from: DevicePtr,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()> {
        let functions = self.bound()?;
        // SAFETY: the caller's promise.
        functions.check(unsafe { functions.copy_on_device(to.0, from.0, bytes, stream.raw()) })
    }

    /// # Safety
    /// See the type.
    pub unsafe fn fill(&self, memory: DevicePtr, value: u8, bytes: usize, stream: StreamHandle) -> Result<()> {
        let functions = self.bound()?;
        // SAFETY: the caller's promise.
        functions.check(unsafe { functions.fill(memory.0, value, bytes, stream.raw()) })
    }

    /// # Safety
    /// The image is whole: HIP gets its address alone, and reads as far as its headers say.
    pub unsafe fn load_module(&self, image: &[u8]) -> Result<ModuleHandle> {
        let functions = self.bound()?;
        let module = match &self.vendor {
            // SAFETY: the caller's promise.
            Vendor::Hip(hip) => unsafe { hip.load_module(functions, image) },
            #[cfg(feature = "nvidia")]
            Vendor::Cuda(cuda) => cuda.load_module(functions, image),
        };
        module.map(ModuleHandle::of)
    }

    /// # Safety
    /// See the type. None of its kernels may be running.
    pub unsafe fn unload_module(&self, module: ModuleHandle) -> Result<()> {
        let functions = self.bound()?;
        // SAFETY: the caller's promise.
        functions.check(unsafe { functions.unload_module(module.raw()) })
    }

    /// # Safety
    /// See the type.
    pub unsafe fn function(&self, module: ModuleHandle, name: &str) -> Result<FunctionHandle> {
        let functions = self.bound()?;
        let text = CString::new(name).expect("names of kernels hold no zero");
        let mut function = null_mut();
        // SAFETY: the caller's promise; `function` is written.
        let status = unsafe { functions.function(&mut function, module.raw(), text.as_ptr()) };
        functions.check(status).map_err(|error| error.of_kernel(name))?;
        Ok(FunctionHandle::of(function))
    }

    /// # Safety
    /// See the type. The arguments are those of the kernel, and what it does with them is sound.
    pub unsafe fn launch(&self, function: FunctionHandle, geometry: Geometry, stream: StreamHandle) -> Result<()> {
        let functions = self.bound()?;
        let Geometry { grid: [x, y, z], block, lds, args } = geometry;
        let mut args = arg_pointers(args);
        let (function, stream) = (function.raw(), stream.raw());
        // SAFETY: the caller's promise; arguments are copied before the call returns.
        functions.check(unsafe {
            functions.launch(function, x, y, z, block, 1, 1, lds, stream, args.as_mut_ptr(), null_mut())
        })
    }

    pub fn create_stream(&self) -> Result<StreamHandle> {
        let functions = self.bound()?;
        let mut stream = null_mut();
        // SAFETY: `stream` is written.
        functions.check(unsafe { functions.create_stream(&mut stream, STREAM_NON_BLOCKING) })?;
        Ok(StreamHandle::of(stream))
    }

    /// # Safety
    /// See the type.
    pub unsafe fn destroy_stream(&self, stream: StreamHandle) -> Result<()> {
        let functions = self.bound()?;
        // SAFETY: the caller's promise.
        functions.check(unsafe { functions.destroy_stream(stream.raw()) })
    }

    /// Waits until the stream's work is done.
    ///
    /// # Safety
    /// See the type.
    pub unsafe fn synchronize(&self, stream: StreamHandle) -> Result<()> {
        let functions = self.bound()?;
        // SAFETY: the caller's promise.
        functions.check(unsafe { functions.synchronize(stream.raw()) })
    }

    /// Makes what is queued on `stream` from here on wait for the event.
    ///
    /// # Safety
    /// See the type.
    pub unsafe fn wait_for_event(&self, stream: StreamHandle, event: EventHandle) -> Result<()> {
        let functions = self.bound()?;
        // SAFETY: the caller's promise.
        functions.check(unsafe { functions.wait_for_event(stream.raw(), event.raw(), 0) })
    }

    pub fn create_event(&self) -> Result<EventHandle> {
        let functions = self.bound()?;
        let mut event = null_mut();
        // SAFETY: `event` is written.
        functions.check(unsafe { functions.create_event(&mut event, 0) })?;
        Ok(EventHandle::of(event))
    }

    /// # Safety
    /// See the type.
    pub unsafe fn destroy_event(&self, event: EventHandle) -> Result<()> {
        let functions = self.bound()?;
        // SAFETY: the caller's promise.
        functions.check(unsafe { functions.destroy_event(event.raw()) })
    }

    /// # Safety
    /// See the type.
    pub unsafe fn record(&self, event: EventHandle, stream: StreamHandle) -> Result<()> {
        let functions = self.bound()?;
        // SAFETY: the caller's promise.
        functions.check(unsafe { functions.record(event.raw(), stream.raw()) })
    }

    /// Waits until the stream has passed the event.
    ///
    /// # Safety
    /// See the type.
    pub unsafe fn wait(&self, event: EventHandle) -> Result<()> {
        let functions = self.bound()?;
        // SAFETY: the caller's promise.
        functions.check(unsafe { functions.wait(event.raw()) })
    }

    /// Milliseconds from one passed event to another.
    ///
    /// # Safety
    /// See the type.
    pub unsafe fn elapsed(&self, from: EventHandle, to: EventHandle) -> Result<f32> {
        let functions = self.bound()?;
        let mut milliseconds = 0.0;
        // SAFETY: the caller's promise; the number is written.
        functions.check(unsafe { functions.elapsed(&mut milliseconds, from.raw(), to.raw()) })?;
        Ok(milliseconds)
    }

    /// From here on, the stream records instead of running.
    ///
    /// # Safety
    /// See the type.
    pub unsafe fn begin_capture(&self, stream: StreamHandle) -> Result<()> {
        let functions = self.bound()?;
        // SAFETY: the caller's promise.
        functions.check(unsafe { functions.begin_capture(stream.raw(), CAPTURE_RELAXED) })
    }

    /// # Safety
    /// See the type.
    pub unsafe fn end_capture(&self, stream: StreamHandle) -> Result<GraphHandle> {
        let functions = self.bound()?;
        let (mut graph, mut ready) = (null_mut(), null_mut());
        // SAFETY: the caller's promise; both handles are written before they are used, and the recording is not needed
        // once it was made ready.
        unsafe {
            functions.check(functions.end_capture(stream.raw(), &mut graph))?;
            let instantiated = functions.instantiate(&mut ready, graph, 0);
            functions.check(functions.destroy_graph(graph))?;
            functions.check(instantiated)?;
        }
        Ok(GraphHandle::of(ready))
    }

    /// # Safety
    /// See the type, for all that was recorded.
    pub unsafe fn launch_graph(&self, graph: GraphHandle, stream: StreamHandle) -> Result<()> {
        let functions = self.bound()?;
        // SAFETY: the caller's promise.
        functions.check(unsafe { functions.launch_graph(graph.raw(), stream.raw()) })
    }

    /// # Safety
    /// See the type. The graph may not be running.
    pub unsafe fn destroy_graph(&self, graph: GraphHandle) -> Result<()> {
        let functions = self.bound()?;
        // SAFETY: the caller's promise.
        functions.check(unsafe { functions.destroy_ready(graph.raw()) })
    }
}

/// The array of addresses of arguments that both drivers' launches take.
fn arg_pointers(args: &Args) -> [*mut c_void; taper_kernels::MAX_ARGS] {
    let mut pointers = [std::ptr::null_mut(); taper_kernels::MAX_ARGS];
    let bytes = args.bytes();
    for (to, (offset, _)) in pointers.iter_mut().zip(args.places()) {
        *to = bytes[offset as usize..].as_ptr().cast_mut().cast();
    }
    pointers
}
