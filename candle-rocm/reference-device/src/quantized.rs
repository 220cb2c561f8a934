//! Quantised blocks in the memory of the reference device. It loads and gives them back itself; what is computed with them is
//! left to round trips.

use crate::device::Reference;
use crate::memory::Memory;
use candle_core::quantized::GgmlDType;
use candle_core::{CustomDevice, CustomQStorage, Result, bail};
use std::borrow::Cow;
use std::sync::Arc;

/// Quantised blocks on the reference device.
pub struct ReferenceQStorage {
    pub(crate) memory: Memory,
    pub(crate) dtype: GgmlDType,
    pub(crate) device: Reference,
}

impl std::fmt::Debug for ReferenceQStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes of {:?} on {:?}", self.memory.bytes().len(), self.dtype, self.device)
    }
}

impl CustomQStorage for ReferenceQStorage {
    fn dtype(&self) -> GgmlDType {
        self.dtype
    }

    fn device(&self) -> Arc<dyn CustomDevice> {
        Arc::new(self.device.clone())
    }

    fn storage_size_in_bytes(&self) -> usize {
        self.memory.bytes().len()
    }

    fn data(&self) -> Result<Cow<'_, [u8]>> {
        self.device.count("download_quantized")?;
        Ok(Cow::Borrowed(self.memory.bytes()))
    }

    fn write_data(&mut self, data: &[u8]) -> Result<()> {
        self.device.count("write_quantized")?;
        let memory = self.memory.bytes_mut();
        if memory.len() != data.len() {
            bail!("{} bytes do not fit quantised memory of {} bytes", data.len(), memory.len())
        }
        memory.copy_from_slice(data);
        Ok(())
    }
}
