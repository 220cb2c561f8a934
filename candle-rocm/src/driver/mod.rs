//! What we ask of a GPU's driver, and of nothing else: one trait, implemented over HIP and over CUDA. Handles are
//! numbers here; [`crate::Context`] owns them and is the interface for everyone else.

#[cfg(feature = "nvidia")]
pub mod cuda;
mod error;
pub mod hip;
mod library;

pub use error::DriverError;

use std::ffi::c_void;

use taper_kernels::{Args, DevicePtr};

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

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name(pub(crate) usize);
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
pub trait Driver: Send + Sync {
    fn properties(&self) -> &Properties;
    fn memory_info(&self) -> Result<MemoryInfo>;

    fn alloc(&self, bytes: usize) -> Result<DevicePtr>;
    /// # Safety
    /// See the trait. No work that uses the memory may be under way.
    unsafe fn free(&self, memory: DevicePtr) -> Result<()>;
    /// # Safety
    /// See the trait.
    unsafe fn copy_to_device(&self, to: DevicePtr, from: &[u8], stream: StreamHandle) -> Result<()>;
    /// # Safety
    /// See the trait.
    unsafe fn copy_to_host(&self, to: &mut [u8], from: DevicePtr, stream: StreamHandle) -> Result<()>;
    /// # Safety
    /// See the trait. The ranges do not overlap.
    unsafe fn copy_on_device(&self, to: DevicePtr, from: DevicePtr, bytes: usize, stream: StreamHandle) -> Result<()>;
    /// # Safety
    /// See the trait.
    unsafe fn fill(&self, memory: DevicePtr, value: u8, bytes: usize, stream: StreamHandle) -> Result<()>;

    /// The name of the embedded images that this device runs.
    fn image_target(&self) -> &str;
    fn load_module(&self, image: &[u8]) -> Result<ModuleHandle>;
    /// # Safety
    /// See the trait. None of its kernels may be running.
    unsafe fn unload_module(&self, module: ModuleHandle) -> Result<()>;
    /// # Safety
    /// See the trait.
    unsafe fn function(&self, module: ModuleHandle, name: &str) -> Result<FunctionHandle>;
    /// # Safety
    /// See the trait. The arguments are those of the kernel, and what it does with them is sound.
    unsafe fn launch(&self, function: FunctionHandle, geometry: Geometry, stream: StreamHandle) -> Result<()>;

    fn create_stream(&self) -> Result<StreamHandle>;
    /// # Safety
    /// See the trait.
    unsafe fn destroy_stream(&self, stream: StreamHandle) -> Result<()>;
    /// Waits until the stream's work is done.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn synchronize(&self, stream: StreamHandle) -> Result<()>;
    /// Makes what is queued on `stream` from here on wait for the event.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn wait_for_event(&self, stream: StreamHandle, event: EventHandle) -> Result<()>;

    fn create_event(&self) -> Result<EventHandle>;
    /// # Safety
    /// See the trait.
    unsafe fn destroy_event(&self, event: EventHandle) -> Result<()>;
    /// # Safety
    /// See the trait.
    unsafe fn record(&self, event: EventHandle, stream: StreamHandle) -> Result<()>;
    /// Waits until the stream has passed the event.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn wait(&self, event: EventHandle) -> Result<()>;
    /// Milliseconds from one passed event to another.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn elapsed(&self, from: EventHandle, to: EventHandle) -> Result<f32>;

    /// From here on, the stream records instead of running.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn begin_capture(&self, stream: StreamHandle) -> Result<()>;
    /// # Safety
    /// See the trait.
    unsafe fn end_capture(&self, stream: StreamHandle) -> Result<GraphHandle>;
    /// # Safety
    /// See the trait, for all that was recorded.
    unsafe fn launch_graph(&self, graph: GraphHandle, stream: StreamHandle) -> Result<()>;
    /// # Safety
    /// See the trait. The graph may not be running.
    unsafe fn destroy_graph(&self, graph: GraphHandle) -> Result<()>;
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
