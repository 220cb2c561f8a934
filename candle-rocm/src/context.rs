//! A device that was opened: safe ownership over a [`Driver`]. What it hands out keeps it alive and gives itself back
//! when dropped. Launching stays unsafe: only the caller knows that addresses in arguments are good.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use taper_kernels::{DevicePtr, Kernel, Launch, Metadata};

use crate::driver::{
    Driver, DriverError, EventHandle, FunctionHandle, Geometry, GraphHandle, MemoryInfo, ModuleHandle, Properties,
    Result, StreamHandle,
};

/// One device, its loaded kernels, and a stream.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    driver: Driver,
    stream: StreamHandle,
    modules: Mutex<HashMap<&'static str, Arc<Module>>>,
}

struct Module {
    handle: ModuleHandle,
    functions: HashMap<String, (FunctionHandle, Kernel)>,
}

impl Context {
    pub fn new(driver: Driver) -> Result<Self> {
        let stream = driver.create_stream()?;
        Ok(Self(Arc::new(Inner { driver, stream, modules: Mutex::default() })))
    }

    #[must_use]
    pub fn properties(&self) -> &Properties {
        self.0.driver.properties()
    }

    pub fn memory_info(&self) -> Result<MemoryInfo> {
        self.0.driver.memory_info()
    }

    /// Memory whose content is not defined.
    pub fn alloc(&self, bytes: usize) -> Result<Buffer> {
        // Drivers answer a request for nothing in different ways.
        let ptr = self.0.driver.alloc(bytes.max(1))?;
        Ok(Buffer { context: self.clone(), ptr, bytes })
    }

    /// Memory with this content.
    pub fn upload(&self, content: &[u8]) -> Result<Buffer> {
        let buffer = self.alloc(content.len())?;
        buffer.write(0, content)?;
        Ok(buffer)
    }

    /// Copies from the host, and waits for it.
    ///
    /// # Safety
    /// The address is of this context's memory, of at least so many bytes.
    pub(crate) unsafe fn write(&self, to: DevicePtr, content: &[u8]) -> Result<()> {
        if content.is_empty() {
            return Ok(());
        }
        let Inner { driver, stream, .. } = &*self.0;
        // SAFETY: the caller's promise; both sides outlive the wait.
        unsafe {
            driver.copy_to_device(to, content, *stream)?;
            driver.synchronize(*stream)
        }
    }

    /// Copies to the host after all that was queued, and waits for it.
    ///
    /// # Safety
    /// As [`Self::write`].
    pub(crate) unsafe fn read(&self, from: DevicePtr, to: &mut [u8]) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        let Inner { driver, stream, .. } = &*self.0;
        // SAFETY: the caller's promise; both sides outlive the wait.
        unsafe {
            driver.copy_to_host(to, from, *stream)?;
            driver.synchronize(*stream)
        }
    }

    /// Queues a copy.
    ///
    /// # Safety
    /// Both are of this context's memory, of at least so many bytes each, do not overlap, and live until the stream has passed it.
    pub(crate) unsafe fn copy(&self, to: DevicePtr, from: DevicePtr, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { self.0.driver.copy_on_device(to, from, bytes, self.0.stream) }
    }

    /// Queues a fill.
    ///
    /// # Safety
    /// The address is of this context's memory, of at least so many bytes, which lives until the stream has passed it.
    pub(crate) unsafe fn fill(&self, memory: DevicePtr, value: u8, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { self.0.driver.fill(memory, value, bytes, self.0.stream) }
    }

    /// The stream that the context's own copies and launches run on, in order.
    #[must_use]
    pub fn stream(&self) -> Stream {
        Stream { context: self.clone(), handle: self.0.stream, owned: false }
    }

    pub fn new_stream(&self) -> Result<Stream> {
        let handle = self.0.driver.create_stream()?;
        Ok(Stream { context: self.clone(), handle, owned: true })
    }

    pub fn new_event(&self) -> Result<Event> {
        Ok(Event { context: self.clone(), handle: self.0.driver.create_event()? })
    }

    /// Loads the module of a kernel, if it is not, so that no later launch waits for it. Capture needs this.
    pub fn load(&self, launch: &Launch) -> Result<()> {
        self.module(launch.module).map(drop)
    }

    /// What the loaded image says about a kernel.
    pub fn kernel(&self, launch: &Launch) -> Result<Kernel> {
        self.module(launch.module)?.find(launch).map(|(_, kernel)| kernel.clone())
    }

    /// Whether what another object belongs to is this context: a handle of another driver would be taken for a pointer.
    fn check(&self, what: &'static str, other: &Self) -> Result<()> {
        if Arc::ptr_eq(&self.0, &other.0) { Ok(()) } else { Err(DriverError::OtherContext { what }) }
    }

    fn module(&self, name: &'static str) -> Result<Arc<Module>> {
        let mut modules = self.0.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = modules.get(name) {
            return Ok(module.clone());
        }
        let module = Arc::new(Module::load(&self.0.driver, name)?);
        modules.insert(name, module.clone());
        Ok(module)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context({})", self.properties().name)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let modules = self.modules.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: nobody else has the context; the stream is waited for, so no kernel of a module runs. Errors mean
        // that the device is gone, and there is nobody to tell.
        unsafe {
            let _ = self.driver.synchronize(self.stream);
            for module in modules.values() {
                let _ = self.driver.unload_module(module.handle);
            }
            let _ = self.driver.destroy_stream(self.stream);
        }
    }
}

impl Module {
    fn load(driver: &Driver, name: &str) -> Result<Self> {
        let image = image(name, driver.image_target())?;
        let kernels = Metadata::parse(&image)?.kernels;
        // SAFETY: the build embedded the image as a whole.
        let handle = unsafe { driver.load_module(&image)? };
        let find = |kernel: Kernel| {
            // SAFETY: the module was just loaded.
            let function = unsafe { driver.function(handle, &kernel.name)? };
            Ok((kernel.name.clone(), (function, kernel)))
        };
        let functions = kernels.into_iter().map(find).collect::<Result<_>>().inspect_err(|_| {
            // SAFETY: nobody else has the module; the first error is the one to tell.
            let _ = unsafe { driver.unload_module(handle) };
        })?;
        Ok(Self { handle, functions })
    }

    fn find(&self, launch: &Launch) -> Result<&(FunctionHandle, Kernel)> {
        let unknown = || DriverError::NoKernel { module: launch.module, kernel: launch.kernel.clone() };
        self.functions.get(&launch.kernel).ok_or_else(unknown)
    }
}

#[cfg(feature = "images")]
fn image(module: &str, target: &str) -> Result<Vec<u8>> {
    use taper_kernels::images;
    images::image(module, target)
        .ok_or_else(|| DriverError::NoImage { target: target.to_owned(), built: images::targets() })
}

#[cfg(not(feature = "images"))]
fn image(_: &str, target: &str) -> Result<Vec<u8>> {
    Err(DriverError::NoImage { target: target.to_owned(), built: Vec::new() })
}

/// Device memory.
#[derive(Debug)]
pub struct Buffer {
    context: Context,
    ptr: DevicePtr,
    bytes: usize,
}

impl Buffer {
    #[must_use]
    pub fn ptr(&self) -> DevicePtr {
        self.ptr
    }

    /// In bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Copies from the host to `offset`, and waits for it.
    pub fn write(&self, offset: usize, content: &[u8]) -> Result<()> {
        self.check("write", offset, content.len())?;
        // SAFETY: within the buffer.
        unsafe { self.context.write(self.ptr.offset(offset as u64), content) }
    }

    /// Copies to the host from `offset` on, after all that was queued on the context's stream.
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.check("read", offset, to.len())?;
        // SAFETY: within the buffer.
        unsafe { self.context.read(self.ptr.offset(offset as u64), to) }
    }

    /// All bytes.
    pub fn download(&self) -> Result<Vec<u8>> {
        let mut content = vec![0; self.bytes];
        self.read(0, &mut content)?;
        Ok(content)
    }

    /// Sets every byte, in the order of the context's stream.
    pub fn fill(&self, value: u8) -> Result<()> {
        // SAFETY: the whole buffer, which waits for the stream before it is freed.
        unsafe { self.context.fill(self.ptr, value, self.bytes) }
    }

    /// Copies all of another buffer of at most this size here, in the order of the context's stream.
    pub fn copy_from(&self, from: &Self) -> Result<()> {
        self.context.check("a buffer to copy from is one", &from.context)?;
        self.check("copy", 0, from.bytes)?;
        if self.ptr == from.ptr {
            return Ok(());
        }
        // SAFETY: two buffers of this context, which wait for the stream before they are freed.
        unsafe { self.context.copy(self.ptr, from.ptr, from.bytes) }
    }

    fn check(&self, what: &'static str, offset: usize, bytes: usize) -> Result<()> {
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        if fits { Ok(()) } else { Err(DriverError::OutOfBounds { what, offset, bytes, len: self.bytes }) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Inner { driver, stream, .. } = &*self.context.0;
        // SAFETY: the memory is ours, and the context's stream has nothing under way with it. Whoever launches on
        // another stream keeps buffers until that work is done: it promised so to `Stream::launch`.
        unsafe {
            let _ = driver.synchronize(*stream);
            let _ = driver.free(self.ptr);
        }
    }
}

/// A queue of work that runs in order.
pub struct Stream {
    context: Context,
    handle: StreamHandle,
    owned: bool,
}

impl Stream {
    fn driver(&self) -> &Driver {
        &self.context.0.driver
    }

    /// Queues a launch, after comparing it with the metadata of the loaded kernel.
    ///
    /// # Safety
    ///
    /// Every address among the arguments is good for the shapes that the launch was made with, until the stream has
    /// passed it, and nothing else writes there meanwhile.
    pub unsafe fn launch(&self, launch: &Launch) -> Result<()> {
        let module = self.context.module(launch.module)?;
        let (function, kernel) = module.find(launch)?;
        launch.check(kernel)?;
        let geometry = Geometry { grid: launch.grid, block: launch.block, lds: launch.lds, args: &launch.args };
        // SAFETY: arguments and block fit the kernel, as was just checked; the rest is the caller's promise.
        unsafe { self.driver().launch(*function, geometry, self.handle) }
            .map_err(|error| error.of_kernel(&launch.kernel))
    }

    /// Waits until all that was queued is done.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream lives as long as `self`.
        unsafe { self.driver().synchronize(self.handle) }
    }

    pub fn record(&self, event: &Event) -> Result<()> {
        self.context.check("an event to record is one", &event.context)?;
        // SAFETY: both live and are this driver's.
        unsafe { self.driver().record(event.handle, self.handle) }
    }

    /// What is queued from here on waits for the event.
    pub fn wait_for(&self, event: &Event) -> Result<()> {
        self.context.check("an event to wait for is one", &event.context)?;
        // SAFETY: both live and are this driver's.
        unsafe { self.driver().wait_for_event(self.handle, event.handle) }
    }

    /// Records what `queue` queues on this stream, instead of running it. Modules must be loaded, and nothing may be
    /// allocated, written or read meanwhile. An error of `queue` is the one that is returned.
    pub fn capture(&self, queue: impl FnOnce(&Self) -> Result<()>) -> Result<Graph> {
        // SAFETY: the stream lives.
        unsafe { self.driver().begin_capture(self.handle)? };
        let recording = Recording(Some(self));
        let queued = queue(self);
        let graph = recording.end();
        queued.and(graph)
    }

    /// Queues all that a graph recorded.
    ///
    /// # Safety
    ///
    /// As for all that was recorded, at this time: launches, fills, and copies between buffers.
    pub unsafe fn replay(&self, graph: &Graph) -> Result<()> {
        self.context.check("a graph to replay is one", &graph.context)?;
        // SAFETY: both live and are this driver's; the rest is the caller's promise.
        unsafe { self.driver().launch_graph(graph.handle, self.handle) }
    }
}

/// A stream that records, until it is told to end, or whoever queues on it panics.
struct Recording<'a>(Option<&'a Stream>);

impl Recording<'_> {
    fn end(mut self) -> Result<Graph> {
        let stream = self.0.take().expect("ended once");
        // SAFETY: the stream lives and records.
        let handle = unsafe { stream.driver().end_capture(stream.handle)? };
        Ok(Graph { context: stream.context.clone(), handle })
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if self.0.is_some() {
            let _ = Recording(self.0.take()).end();
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: ours, and waited for.
            unsafe {
                let _ = self.driver().synchronize(self.handle);
                let _ = self.driver().destroy_stream(self.handle);
            }
        }
    }
}

/// A moment in a stream.
pub struct Event {
    context: Context,
    handle: EventHandle,
}

impl Event {
    /// Milliseconds from another event to this one; waits until both have passed.
    pub fn elapsed_since(&self, from: &Self) -> Result<f32> {
        self.context.check("an event to measure from is one", &from.context)?;
        let driver = &self.context.0.driver;
        // SAFETY: both live and are this driver's.
        unsafe {
            driver.wait(from.handle)?;
            driver.wait(self.handle)?;
            driver.elapsed(from.handle, self.handle)
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: ours.
        let _ = unsafe { self.context.0.driver.destroy_event(self.handle) };
    }
}

/// Recorded work.
pub struct Graph {
    context: Context,
    handle: GraphHandle,
}

impl Drop for Graph {
    fn drop(&mut self) {
        let Inner { driver, stream, .. } = &*self.context.0;
        // SAFETY: ours; the context's stream is waited for, others by whoever replayed on them.
        unsafe {
            let _ = driver.synchronize(*stream);
            let _ = driver.destroy_graph(self.handle);
        }
    }
}
