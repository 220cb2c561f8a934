//! The ROCm device for Candle.
//!
//! [`driver`] is what a GPU's driver offers: AMD's HIP and, for the same kernels on another vendor's silicon, NVIDIA's
//! CUDA. Both are libraries opened at run time; building needs neither.
//! [`Context`] makes it safe: memory, modules, streams, events and graphs that are given back when dropped.

mod context;
pub mod driver;

pub use context::{Buffer, Context, Event, Graph, Stream};
pub use driver::{DriverError, MemoryInfo, Properties};
