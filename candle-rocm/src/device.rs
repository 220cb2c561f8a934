//! The Candle device: a context with an allocator, and what a program can ask of it. Operations are in [`crate::storage`].

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::custom::{BoxedStorage, Operand, RoundTrips, cpu_storage_as_bytes};
use candle_core::quantized::GgmlDType;
use candle_core::{
    CpuStorage, CustomDevice, CustomOp1, CustomOp2, CustomQStorage, CustomStorage, DType, Device, Result, Shape, bail,
};
use taper_kernels::{DevicePtr, Launch};

use crate::arena::MemoryStats;
use crate::driver::Driver;
use crate::memory::{Allocator, Memory};
use crate::storage::{RocmStorage, fused};
use crate::{Context, DriverError, MemoryInfo, Properties};

/// How a device is opened.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where the driver's library is looked for, and nowhere else.
    pub library_directory: Option<PathBuf>,
    /// Every tensor is an allocation of its own: slow, and what is read behind its end is found by tools that watch memory.
    /// [`RocmDevice::memory_stats`] counts nothing then.
    pub exact_allocations: bool,
}

/// One GPU. Clones are the same device.
#[derive(Clone)]
pub struct RocmDevice(Arc<State>);

struct State {
    name: &'static str,
    ordinal: usize,
    context: Context,
    allocator: Allocator,
    round_trips: RoundTrips,
    fault: Mutex<Fault>,
}

/// Where kernels write an index that is out of range; holds [`NO_FAULT`] until then.
struct Fault {
    memory: Memory,
    /// Whether a kernel that may have written there was launched since it was last read.
    is_possible: bool,
}

/// No index: kernels write those.
const NO_FAULT: u64 = u64::from_le_bytes([0x80; 8]);

impl RocmDevice {
    /// An AMD device by its number.
    pub fn new(ordinal: u32, options: &Options) -> std::result::Result<Self, DriverError> {
        Self::over(Driver::hip(options.library_directory.as_deref(), ordinal)?, "rocm", ordinal, options)
    }

    /// An NVIDIA device by its number.
    #[cfg(feature = "nvidia")]
    pub fn new_nvidia(ordinal: u32, options: &Options) -> std::result::Result<Self, DriverError> {
        Self::over(Driver::cuda(options.library_directory.as_deref(), ordinal)?, "nvidia", ordinal, options)
    }

    fn over(
        driver: Driver,
        name: &'static str,
        ordinal: u32,
        options: &Options,
    ) -> std::result::Result<Self, DriverError> {
        let context = Context::new(driver)?;
        let allocator = Allocator::new(context.clone(), options.exact_allocations);
        let fault = Fault { memory: allocator.alloc(size_of::<u64>())?, is_possible: false };
        let (round_trips, ordinal, fault) = (RoundTrips::new(), ordinal as usize, Mutex::new(fault));
        let device = Self(Arc::new(State { name, ordinal, context, allocator, round_trips, fault }));
        device.write_raw(&device.lock_fault().memory, &NO_FAULT.to_le_bytes())?;
        Ok(device)
    }

    /// This device for Candle.
    #[must_use]
    pub fn device(&self) -> Device {
        Device::new_custom(self.clone())
    }

    #[must_use]
    pub fn properties(&self) -> &Properties {
        self.0.context.properties()
    }

    /// What the driver says is free.
    pub fn memory_info(&self) -> std::result::Result<MemoryInfo, DriverError> {
        self.0.context.memory_info()
    }

    /// What this device's tensors hold.
    #[must_use]
    pub fn memory_stats(&self) -> MemoryStats {
        self.0.allocator.stats()
    }

    /// Gives memory back to the driver that no tensor uses.
    pub fn trim_memory(&self) {
        self.0.allocator.trim();
    }

    pub(crate) fn alloc(&self, bytes: usize) -> Result<Memory> {
        self.0.allocator.alloc(bytes).map_err(|error| self.out_of_memory(bytes, error))
    }

    fn out_of_memory(&self, bytes: usize, error: DriverError) -> candle_core::Error {
        let MemoryStats { allocated, reserved, .. } = self.memory_stats();
        let free = self.memory_info().map_or_else(|_| "an unknown number of".to_owned(), |info| info.free.to_string());
        candle_core::Error::Msg(format!(
            "no memory for {bytes} bytes on {self:?}: {error}. Tensors hold {allocated} bytes, of {reserved} that were taken; the \
             driver has {free} bytes free"
        ))
    }

    /// New elements, to be written by what is queued next.
    pub(crate) fn storage(&self, dtype: DType, count: usize) -> Result<RocmStorage> {
        // Layouts of broadcast tensors have more elements than any memory.
        let bytes = count.checked_mul(dtype.size_in_bytes()).filter(|bytes| *bytes <= isize::MAX as usize);
        let Some(bytes) = bytes else { bail!("{count} elements of {dtype:?} fit into no memory of {self:?}") };
        let memory = self.alloc(bytes)?;
        Ok(RocmStorage { memory, dtype, device: self.clone() })
    }

    /// Queues a launch. Its maker vouches for the shapes: the kernel stays within the elements of the storages whose addresses are
    /// in it.
    pub(crate) fn launch(&self, launch: &Launch) -> Result<()> {
        // SAFETY: within bounds by the maker's word; memory is given back to the allocator only, and reused by what is queued later on
        // the same stream.
        unsafe { self.0.context.stream().launch(launch) }.map_err(candle_core::Error::wrap)
    }

    pub(crate) fn write(&self, to: &Memory, content: &[u8]) -> Result<()> {
        self.write_raw(to, content).map_err(candle_core::Error::wrap)
    }

    fn write_raw(&self, to: &Memory, content: &[u8]) -> std::result::Result<(), DriverError> {
        assert!(content.len() <= to.bytes(), "{} bytes into memory of {}", content.len(), to.bytes());
        // SAFETY: the memory is ours and holds as many.
        unsafe { self.0.context.write(to.ptr(), content) }
    }

    /// Reads after all that was queued; an index that was out of range is told here.
    pub(crate) fn read(&self, from: &Memory, content: &mut [u8]) -> Result<()> {
        self.read_raw(from, content)?;
        self.check_fault()
    }

    fn read_raw(&self, from: &Memory, content: &mut [u8]) -> Result<()> {
        assert!(content.len() <= from.bytes(), "{} bytes from memory of {}", content.len(), from.bytes());
        // SAFETY: the memory is ours and holds as many.
        unsafe { self.0.context.read(from.ptr(), content) }.map_err(candle_core::Error::wrap)
    }

    pub(crate) fn copy(&self, to: &Memory, from: &Memory) -> Result<()> {
        let bytes = to.bytes().min(from.bytes());
        // SAFETY: both hold as many bytes, and are reused by later work of the same stream only.
        unsafe { self.0.context.copy(to.ptr(), from.ptr(), bytes) }.map_err(candle_core::Error::wrap)
    }

    pub(crate) fn fill_zero(&self, memory: &Memory) -> Result<()> {
        // SAFETY: as in `copy`.
        unsafe { self.0.context.fill(memory.ptr(), 0, memory.bytes()) }.map_err(candle_core::Error::wrap)
    }

    /// Launches what may find an index that is out of range, and writes it to the address. Nobody reads there meanwhile: a fault
    /// between a read and the write that clears it would be lost.
    pub(crate) fn at_fault<T>(&self, launch: impl FnOnce(DevicePtr) -> Result<T>) -> Result<T> {
        let mut fault = self.lock_fault();
        let launched = launch(fault.memory.ptr());
        fault.is_possible = true;
        launched
    }

    fn lock_fault(&self) -> MutexGuard<'_, Fault> {
        self.0.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever reads first after the kernel ran is told, and the others are not.
    fn check_fault(&self) -> Result<()> {
        let mut fault = self.lock_fault();
        if !fault.is_possible {
            return Ok(());
        }
        let mut bytes = [0; size_of::<u64>()];
        self.read_raw(&fault.memory, &mut bytes)?;
        if bytes != NO_FAULT.to_le_bytes() {
            self.write(&fault.memory, &NO_FAULT.to_le_bytes())?;
            bail!("index_select on {self:?}: the index {} is out of range", i64::from_le_bytes(bytes))
        }
        fault.is_possible = false;
        Ok(())
    }
}

impl std::fmt::Debug for RocmDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.0.name, self.0.ordinal)
    }
}

/// `Device::new_rocm(0)`.
pub trait DeviceExt: Sized {
    /// An AMD GPU by its number.
    fn new_rocm(ordinal: u32) -> Result<Self>;
    /// An NVIDIA GPU by its number.
    #[cfg(feature = "nvidia")]
    fn new_nvidia(ordinal: u32) -> Result<Self>;
}

impl DeviceExt for Device {
    fn new_rocm(ordinal: u32) -> Result<Self> {
        let device = RocmDevice::new(ordinal, &Options::default()).map_err(candle_core::Error::wrap)?;
        Ok(device.device())
    }

    #[cfg(feature = "nvidia")]
    fn new_nvidia(ordinal: u32) -> Result<Self> {
        let device = RocmDevice::new_nvidia(ordinal, &Options::default()).map_err(candle_core::Error::wrap)?;
        Ok(device.device())
    }
}

impl CustomDevice for RocmDevice {
    fn name(&self) -> &'static str {
        self.0.name
    }

    fn ordinal(&self) -> usize {
        self.0.ordinal
    }

    fn round_trips(&self) -> &RoundTrips {
        &self.0.round_trips
    }

    fn same_device(&self, other: &dyn CustomDevice) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| Arc::ptr_eq(&self.0, &other.0))
    }

    fn storage_from_cpu_storage_owned(&self, src: CpuStorage) -> Result<BoxedStorage> {
        self.storage_from_cpu_storage(&src)
    }

    fn storage_from_cpu_storage(&self, src: &CpuStorage) -> Result<BoxedStorage> {
        self.storage_from_bytes(candle_core::backend::BackendStorage::dtype(src), cpu_storage_as_bytes(src))
    }

    fn storage_from_bytes(&self, dtype: DType, src: &[u8]) -> Result<BoxedStorage> {
        let memory = self.alloc(src.len())?;
        self.write(&memory, src)?;
        Ok(Box::new(RocmStorage { memory, dtype, device: self.clone() }))
    }

    fn storage_from_custom(&self, src: &dyn CustomStorage) -> Result<BoxedStorage> {
        match src.downcast_ref::<RocmStorage>() {
            Some(src) if self.same_device(&src.device) => src.duplicate(),
            _ => self.storage_from_cpu_storage_owned(src.to_cpu_storage()?),
        }
    }

    fn zeros(&self, shape: &Shape, dtype: DType) -> Result<BoxedStorage> {
        let storage = self.storage(dtype, shape.elem_count())?;
        self.fill_zero(&storage.memory)?;
        Ok(Box::new(storage))
    }

    unsafe fn alloc_uninit(&self, shape: &Shape, dtype: DType) -> Result<BoxedStorage> {
        Ok(Box::new(self.storage(dtype, shape.elem_count())?))
    }

    fn synchronize(&self) -> Result<()> {
        self.0.context.stream().synchronize().map_err(candle_core::Error::wrap)?;
        self.check_fault()
    }

    fn load_quantized(&self, _: &[u8], dtype: GgmlDType) -> Result<Box<dyn CustomQStorage>> {
        bail!("{self:?} does not hold quantised weights ({dtype:?}) yet")
    }

    fn custom_op1(&self, (x, l): Operand, op: &dyn CustomOp1) -> Result<(BoxedStorage, Shape)> {
        match fused::op1((x, l), op)? {
            Some(result) => Ok(result),
            None => op.custom_fwd(x, l),
        }
    }

    fn custom_op2(&self, [(x1, l1), (x2, l2)]: [Operand; 2], op: &dyn CustomOp2) -> Result<(BoxedStorage, Shape)> {
        match fused::op2([(x1, l1), (x2, l2)], op)? {
            Some(result) => Ok(result),
            None => op.custom_fwd(x1, l1, x2, l2),
        }
    }
}
