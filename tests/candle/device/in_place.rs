//! Ops that work in place: a device may take one by its name, over a round trip the memory stays the same, and an op that leaves
//! something else than it was given is refused.

use candle_core::backend::BackendStorage;
use candle_core::custom::{cpu_storage_as_bytes, cpu_storage_from_bytes, BoxedStorage, RoundTrips};
use candle_core::quantized::GgmlDType;
use candle_core::{
    CpuStorage, CustomDevice, CustomQStorage, CustomStorage, DType, Device, InplaceOp1, Layout, Result, Tensor,
};
use candle_reference_device::Reference;
use std::sync::Arc;
use taper_candle_tests::first_line;

/// A device that can do one thing itself: the op below.
#[derive(Debug, Clone, Default)]
struct Doubling(Arc<RoundTrips>);

impl CustomDevice for Doubling {
    fn name(&self) -> &'static str {
        "doubling"
    }
    fn ordinal(&self) -> usize {
        0
    }
    fn round_trips(&self) -> &RoundTrips {
        &self.0
    }
    fn storage_from_cpu_storage_owned(&self, src: CpuStorage) -> Result<BoxedStorage> {
        let bytes = cpu_storage_as_bytes(&src).to_vec();
        Ok(Box::new(Elements { dtype: src.dtype(), bytes, device: self.clone() }))
    }
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
    fn load_quantized(&self, _: &[u8], dtype: GgmlDType) -> Result<Box<dyn CustomQStorage>> {
        candle_core::bail!("no {dtype:?} here")
    }
    fn inplace_op1(&self, dst: &mut dyn CustomStorage, dst_l: &Layout, op: &dyn InplaceOp1) -> Result<()> {
        match (op.name(), dst.dtype(), dst.downcast_mut::<Elements>()) {
            ("double", DType::F32, Some(own)) => {
                for at in dst_l.offsets() {
                    let element = &mut own.bytes[at * 4..][..4];
                    let doubled = 2. * f32::from_ne_bytes([element[0], element[1], element[2], element[3]]);
                    element.copy_from_slice(&doubled.to_ne_bytes());
                }
                Ok(())
            }
            _ => op.custom_fwd(dst, dst_l),
        }
    }
}

#[derive(Debug)]
struct Elements {
    dtype: DType,
    bytes: Vec<u8>,
    device: Doubling,
}

impl CustomStorage for Elements {
    fn dtype(&self) -> DType {
        self.dtype
    }
    fn device(&self) -> Arc<dyn CustomDevice> {
        Arc::new(self.device.clone())
    }
    fn try_clone(&self, _: &Layout) -> Result<BoxedStorage> {
        self.device.storage_from_cpu_storage_owned(self.to_cpu_storage()?)
    }
    fn to_cpu_storage(&self) -> Result<CpuStorage> {
        cpu_storage_from_bytes(self.dtype, &self.bytes)
    }
    fn write_cpu_storage(&mut self, src: CpuStorage) -> Result<()> {
        self.bytes.copy_from_slice(cpu_storage_as_bytes(&src));
        Ok(())
    }
}

/// Knows no CPU, so that only a device can run it.
struct Double;
impl InplaceOp1 for Double {
    fn name(&self) -> &'static str {
        "double"
    }
    fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout) -> Result<()> {
        candle_core::bail!("not on the CPU")
    }
}

#[test]
fn a_device_takes_in_place_ops_by_name() -> Result<()> {
    let x = Tensor::new(&[1f32, 2., 3.], &Device::new_custom(Doubling::default()))?;
    x.narrow(0, 1, 2)?.inplace_op1(&Double)?;
    assert_eq!(x.to_vec1::<f32>()?, [1., 4., 6.]);
    let elsewhere = Tensor::new(&[1f32], &Reference::new(0).device())?;
    assert_eq!(first_line(elsewhere.inplace_op1(&Double)), "not on the CPU");
    Ok(())
}

/// Leaves what it holds, whatever it was given.
struct Leave(CpuStorage);
impl InplaceOp1 for Leave {
    fn name(&self) -> &'static str {
        "leave"
    }
    fn cpu_fwd(&self, storage: &mut CpuStorage, _: &Layout) -> Result<()> {
        *storage = self.0.clone();
        Ok(())
    }
}

#[test]
fn an_in_place_op_may_change_neither_type_nor_length() -> Result<()> {
    let x = Tensor::new(&[1f32, 2.], &Reference::new(0).device())?;
    for (left, said) in [
        (CpuStorage::F32(vec![5.]), "leave works in place on 8 bytes of F32, but left 4 bytes of F32"),
        // As many bytes, of another type.
        (CpuStorage::U32(vec![5, 6]), "leave works in place on 8 bytes of F32, but left 8 bytes of U32"),
    ] {
        assert_eq!(first_line(x.inplace_op1(&Leave(left))), said);
    }
    assert_eq!(x.to_vec1::<f32>()?, [1., 2.]);
    x.inplace_op1(&Leave(CpuStorage::F32(vec![5., 6.])))?;
    assert_eq!(x.to_vec1::<f32>()?, [5., 6.]);
    Ok(())
}
