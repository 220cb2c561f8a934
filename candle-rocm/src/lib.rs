//! The ROCm device for Candle.
//!
//! [`driver`] is what a GPU's driver offers: AMD's HIP and, for the same kernels on another vendor's silicon, NVIDIA's
//! CUDA. Both are libraries opened at run time; building needs neither.
//! [`Context`] makes it safe: memory, modules, streams, events and graphs that are given back when dropped.
//!
//! [`RocmDevice`] is the Candle device over it: `Device::new_rocm(0)`, with [`DeviceExt`] in scope.

mod arena;
mod context;
mod device;
pub mod driver;
mod memory;
mod storage;

pub use arena::MemoryStats;
pub use context::{Buffer, Context, Event, Graph, Stream};
pub use device::{DeviceExt, Options, RocmDevice};
pub use driver::{DriverError, MemoryInfo, Properties};
