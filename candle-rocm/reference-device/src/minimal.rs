//! The least that makes a device: memory that can be written and read, a name, and a way to wait. Everything else is the
//! default of Candle's traits. Its memory is bytes in a vector; a real device would hold an address.

use candle_core::backend::BackendStorage;
use candle_core::custom::{BoxedStorage, RoundTrips, cpu_storage_as_bytes, cpu_storage_from_bytes};
use candle_core::quantized::GgmlDType;
use candle_core::{CpuStorage, CustomDevice, CustomQStorage, CustomStorage, DType, Device, Layout, Result};
use std::borrow::Cow;
use std::sync::Arc;

/// A device that implements no operation.
#[derive(Debug, Clone)]
pub struct Minimal {
    ordinal: usize,
    round_trips: Arc<RoundTrips>,
}

impl Minimal {
    /// A device that has made no round trip.
    pub fn new(ordinal: usize) -> Self {
        Self { ordinal, round_trips: Arc::default() }
    }

    /// This device for Candle.
    pub fn device(&self) -> Device {
        Device::new_custom(self.clone())
    }
}

impl CustomDevice for Minimal {
    fn name(&self) -> &'static str {
        "minimal"
    }

    fn ordinal(&self) -> usize {
        self.ordinal
    }

    fn round_trips(&self) -> &RoundTrips {
        &self.round_trips
    }

    /// Each has its own count of round trips, so that one number does not make two of them the same.
    fn same_device(&self, other: &dyn CustomDevice) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| Arc::ptr_eq(&self.round_trips, &other.round_trips))
    }

    fn storage_from_cpu_storage_owned(&self, src: CpuStorage) -> Result<BoxedStorage> {
        let bytes = cpu_storage_as_bytes(&src).to_vec();
        Ok(Box::new(MinimalStorage { dtype: src.dtype(), bytes, device: self.clone() }))
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn load_quantized(&self, data: &[u8], dtype: GgmlDType) -> Result<Box<dyn CustomQStorage>> {
        Ok(Box::new(MinimalQStorage { blocks: data.to_vec(), dtype, device: self.clone() }))
    }
}

#[derive(Debug)]
struct MinimalStorage {
    dtype: DType,
    bytes: Vec<u8>,
    device: Minimal,
}

impl CustomStorage for MinimalStorage {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn device(&self) -> Arc<dyn CustomDevice> {
        Arc::new(self.device.clone())
    }

    fn try_clone(&self, _: &Layout) -> Result<BoxedStorage> {
        Ok(Box::new(Self { dtype: self.dtype, bytes: self.bytes.clone(), device: self.device.clone() }))
    }

    fn to_cpu_storage(&self) -> Result<CpuStorage> {
        cpu_storage_from_bytes(self.dtype, &self.bytes)
    }

    fn write_cpu_storage(&mut self, src: CpuStorage) -> Result<()> {
        self.bytes.copy_from_slice(cpu_storage_as_bytes(&src));
        Ok(())
    }
}

#[derive(Debug)]
struct MinimalQStorage {
    blocks: Vec<u8>,
    dtype: GgmlDType,
    device: Minimal,
}

impl CustomQStorage for MinimalQStorage {
    fn dtype(&self) -> GgmlDType {
        self.dtype
    }

    fn device(&self) -> Arc<dyn CustomDevice> {
        Arc::new(self.device.clone())
    }

    fn storage_size_in_bytes(&self) -> usize {
        self.blocks.len()
    }

    fn data(&self) -> Result<Cow<'_, [u8]>> {
        Ok(Cow::Borrowed(&self.blocks))
    }

    fn write_data(&mut self, data: &[u8]) -> Result<()> {
        self.blocks.copy_from_slice(data);
        Ok(())
    }
}
