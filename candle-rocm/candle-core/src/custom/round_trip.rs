//! The way over the CPU for what a device does not implement: how it is counted, told and refused, and the copies it makes.
//! Which operation takes it is decided by the default methods of the traits.

use super::{cpu_storage_as_bytes, BoxedStorage, CustomStorage};
use crate::backend::BackendStorage;
use crate::{CpuStorage, DType, Result, Shape};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The round trips over the CPU that one device has made. A device owns one of these and shares it among its clones.
///
/// A round trip is what a program asks of the device and the CPU does instead, zeros and random numbers included. Transfers that
/// a program asks for are none: uploads and downloads, a tensor that moves between two devices, weights on the CPU that
/// are quantised onto the device. One end of those is elsewhere whatever a device implements.
#[derive(Debug, Default)]
pub struct RoundTrips {
    strict: AtomicBool,
    counts: Mutex<BTreeMap<&'static str, u64>>,
}

impl RoundTrips {
    /// None yet, and none refused.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on every round trip is an error (`true`) or a detour (`false`).
    pub fn set_strict(&self, strict: bool) {
        self.strict.store(strict, Ordering::Relaxed);
    }

    /// Whether round trips are errors.
    pub fn is_strict(&self) -> bool {
        self.strict.load(Ordering::Relaxed)
    }

    /// How many round trips each operation has made. Refused ones are not counted.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.lock().clone()
    }

    /// How many round trips there were in all.
    pub fn total(&self) -> u64 {
        self.lock().values().sum()
    }

    /// Called before operation `op` leaves the device named `device`: counts it and warns the first time, or refuses it.
    pub fn begin(&self, device: &str, op: &'static str) -> Result<()> {
        if self.is_strict() {
            bail!("{device} does not implement {op}, and is told to be strict, so that it is not computed on the CPU instead")
        }
        let count = {
            let mut counts = self.lock();
            let count = counts.entry(op).or_default();
            *count += 1;
            *count
        };
        if count == 1 {
            warn(device, op);
        }
        Ok(())
    }

    /// A thread that panicked while it counted leaves counts that are still right.
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// On the standard error where a program has nothing that receives events: nobody should find out from a profiler.
fn warn(device: &str, op: &str) {
    if tracing::dispatcher::has_been_set() {
        tracing::warn!(device, op, "not implemented on this device: computed on the CPU, with copies both ways");
    } else {
        eprintln!("warning: {device} does not implement {op}: computed on the CPU, with copies both ways");
    }
}

/// Runs `cpu_fwd` of a custom op on copies of its operands.
pub fn fwd_via_cpu<const N: usize>(
    op: &'static str,
    operands: [&dyn CustomStorage; N],
    cpu_fwd: impl FnOnce([&CpuStorage; N]) -> Result<(CpuStorage, Shape)>,
) -> Result<(BoxedStorage, Shape)> {
    let device = operands[0].device();
    device.round_trip(op)?;
    let copies = download(operands)?;
    let (result, shape) = cpu_fwd(std::array::from_fn(|i| &copies[i]))?;
    Ok((device.storage_from_cpu_storage_owned(result)?, shape))
}

/// The same for an op that works in place on `dst`, whose memory is overwritten, never replaced.
pub fn inplace_via_cpu<const N: usize, S: CustomStorage + ?Sized>(
    op: &'static str,
    dst: &mut S,
    operands: [&dyn CustomStorage; N],
    cpu_fwd: impl FnOnce(&mut CpuStorage, [&CpuStorage; N]) -> Result<()>,
) -> Result<()> {
    let mut result = leave(dst, op)?;
    let copies = download(operands)?;
    let before = what(&result);
    cpu_fwd(&mut result, std::array::from_fn(|i| &copies[i]))?;
    let after = what(&result);
    if after != before {
        let ((old, old_bytes), (new, new_bytes)) = (before, after);
        bail!("{op} works in place on {old_bytes} bytes of {old:?}, but left {new_bytes} bytes of {new:?}")
    }
    dst.write_cpu_storage(result)
}

/// What an op that works in place may not change: the type of the elements, and their size in bytes.
fn what(elements: &CpuStorage) -> (DType, usize) {
    (elements.dtype(), cpu_storage_as_bytes(elements).len())
}

/// An operation whose result is new elements, on copies of `operand` and `others`. A method that a device has for some types of
/// elements only calls it for the others.
pub fn via_cpu<const N: usize, S: CustomStorage + ?Sized>(
    op: &'static str,
    operand: &S,
    others: [&dyn CustomStorage; N],
    compute: impl FnOnce(&CpuStorage, [&CpuStorage; N]) -> Result<CpuStorage>,
) -> Result<BoxedStorage> {
    let copy = leave(operand, op)?;
    let copies = download(others)?;
    let result = compute(&copy, std::array::from_fn(|i| &copies[i]))?;
    operand.device().storage_from_cpu_storage_owned(result)
}

/// Begins a round trip with the copy of one operand.
pub(super) fn leave<S: CustomStorage + ?Sized>(operand: &S, op: &'static str) -> Result<CpuStorage> {
    let device = operand.device();
    device.round_trip(op)?;
    operand.to_cpu_storage()
}

fn download<const N: usize>(operands: [&dyn CustomStorage; N]) -> Result<Vec<CpuStorage>> {
    operands.iter().map(|operand| operand.to_cpu_storage()).collect()
}
