//! `to_device` where either end is a device from another crate.

use crate::backend::{BackendDevice, BackendStorage};
use crate::{Device, Result, Storage};

/// A copy of `src` on `dst`. Two devices of the same kind may have a way of their own; all others meet on the CPU.
pub(crate) fn transfer(src: &Storage, dst: &Device) -> Result<Storage> {
    match (src, dst) {
        (Storage::Custom(src), Device::Custom(dst)) => Ok(Storage::Custom(dst.storage_from_custom(src.as_ref())?)),
        (Storage::Cpu(src), Device::Custom(dst)) => Ok(Storage::Custom(dst.storage_from_cpu_storage(src)?)),
        _ => through_cpu(src, dst),
    }
}

fn through_cpu(src: &Storage, dst: &Device) -> Result<Storage> {
    let copy = match src {
        Storage::Custom(src) => src.to_cpu_storage()?,
        Storage::Cuda(src) => src.to_cpu_storage()?,
        Storage::Metal(src) => src.to_cpu_storage()?,
        Storage::Cpu(src) => src.clone(),
    };
    Ok(match dst {
        Device::Cpu => Storage::Cpu(copy),
        Device::Cuda(dst) => Storage::Cuda(dst.storage_from_cpu_storage_owned(copy)?),
        Device::Metal(dst) => Storage::Metal(dst.storage_from_cpu_storage_owned(copy)?),
        Device::Custom(dst) => Storage::Custom(dst.storage_from_cpu_storage_owned(copy)?),
    })
}
