//! The device itself: where memory comes from, and which custom ops it takes.

use super::{BoxedStorage, CustomQStorage, CustomStorage, Operand, RoundTrips};
use crate::backend::BackendDevice;
use crate::cpu_backend::CpuDevice;
use crate::quantized::GgmlDType;
use crate::{
    CpuStorage, CustomOp1, CustomOp2, CustomOp3, DType, DeviceLocation, InplaceOp1, InplaceOp2, InplaceOp3, Layout,
    Result, Shape, WithDType,
};
use std::any::Any;
use std::fmt::Debug;

/// A device that lives in another crate. [`Device::new_custom`](crate::Device::new_custom) makes a Candle device of it.
///
/// Required are a name, memory and a way to wait; every other method has a default that is right, see the
/// [module](super).
pub trait CustomDevice: Any + Debug + Send + Sync {
    /// The kind of device, in one lower-case word. It shows in errors and when tensors are displayed.
    fn name(&self) -> &'static str;

    /// Which of several devices of this kind, from 0.
    fn ordinal(&self) -> usize;

    /// The round trips over the CPU that this device has made; the same for all clones of the device.
    fn round_trips(&self) -> &RoundTrips;

    /// Copies elements from the CPU.
    fn storage_from_cpu_storage_owned(&self, src: CpuStorage) -> Result<BoxedStorage>;

    /// Blocks until all work on the device is done. Errors are those of that work.
    fn synchronize(&self) -> Result<()>;

    /// Copies quantised blocks as they lie in a GGUF file; `data` has any alignment.
    fn load_quantized(&self, data: &[u8], dtype: GgmlDType) -> Result<Box<dyn CustomQStorage>>;

    /// Where tensors on this device are said to be.
    fn location(&self) -> DeviceLocation {
        DeviceLocation::Custom { name: self.name(), ordinal: self.ordinal() }
    }

    /// Whether tensors of both devices may meet in one operation.
    fn same_device(&self, other: &dyn CustomDevice) -> bool {
        self.location() == other.location()
    }

    /// Called before each round trip: by default counts it, and warns of it or refuses it. A device may add what it wants to
    /// know or to forbid.
    fn round_trip(&self, op: &'static str) -> Result<()> {
        self.round_trips().begin(self.name(), op)
    }

    /// The same as [`Self::storage_from_cpu_storage_owned`], for elements that are still needed.
    fn storage_from_cpu_storage(&self, src: &CpuStorage) -> Result<BoxedStorage> {
        self.storage_from_cpu_storage_owned(src.clone())
    }

    /// Copies elements of `dtype` as they lie in memory, at any alignment. Weights of safetensors files come this way, straight
    /// from the mapped file.
    fn storage_from_bytes(&self, dtype: DType, src: &[u8]) -> Result<BoxedStorage> {
        self.storage_from_cpu_storage_owned(cpu_storage_from_bytes(dtype, src)?)
    }

    /// Copies the elements of another device that is not Candle's own, by default through the CPU. Like every transfer that a
    /// program asks for, it counts as no round trip.
    fn storage_from_custom(&self, src: &dyn CustomStorage) -> Result<BoxedStorage> {
        self.storage_from_cpu_storage_owned(src.to_cpu_storage()?)
    }

    /// Zeros, as many as `shape` has elements.
    fn zeros(&self, shape: &Shape, dtype: DType) -> Result<BoxedStorage> {
        self.round_trip("zeros")?;
        self.storage_from_cpu_storage_owned(CpuDevice.zeros_impl(shape, dtype)?)
    }

    /// Memory for as many elements as `shape` has, by default [`Self::zeros`].
    ///
    /// # Safety
    /// The memory is not initialised: the caller writes every element before any is read.
    unsafe fn alloc_uninit(&self, shape: &Shape, dtype: DType) -> Result<BoxedStorage> {
        self.zeros(shape, dtype)
    }

    /// Random numbers, uniform in `lo..up`.
    fn rand_uniform(&self, shape: &Shape, dtype: DType, lo: f64, up: f64) -> Result<BoxedStorage> {
        self.round_trip("rand_uniform")?;
        self.storage_from_cpu_storage_owned(CpuDevice.rand_uniform(shape, dtype, lo, up)?)
    }

    /// Random numbers of a normal distribution.
    fn rand_normal(&self, shape: &Shape, dtype: DType, mean: f64, std: f64) -> Result<BoxedStorage> {
        self.round_trip("rand_normal")?;
        self.storage_from_cpu_storage_owned(CpuDevice.rand_normal(shape, dtype, mean, std)?)
    }

    /// Seeds the random numbers.
    fn set_seed(&self, seed: u64) -> Result<()> {
        bail!(
            "{} cannot be seeded with {seed}: it draws random numbers on the CPU, whose generator takes no seed",
            self.name()
        )
    }

    /// The seed that was set last.
    fn get_current_seed(&self) -> Result<u64> {
        bail!("{} has no seed: it draws random numbers on the CPU", self.name())
    }

    /// Quantised zeros; `elem_count` is a multiple of the block size of `dtype`.
    fn qzeros(&self, elem_count: usize, dtype: GgmlDType) -> Result<Box<dyn CustomQStorage>> {
        self.round_trip("qzeros")?;
        let bytes = elem_count / dtype.block_size() * dtype.type_size();
        self.load_quantized(&vec![0; bytes], dtype)
    }

    /// Whether models should prefer bf16 on this device.
    fn supports_bf16(&self) -> bool {
        true
    }

    /// Runs a custom op. A device may know an op by its name and [parameters](CustomOp1::params); every other runs its own
    /// [`custom_fwd`](CustomOp1::custom_fwd).
    fn custom_op1(&self, (x, l): Operand, op: &dyn CustomOp1) -> Result<(BoxedStorage, Shape)> {
        op.custom_fwd(x, l)
    }

    /// The same for two operands.
    fn custom_op2(&self, [(x1, l1), (x2, l2)]: [Operand; 2], op: &dyn CustomOp2) -> Result<(BoxedStorage, Shape)> {
        op.custom_fwd(x1, l1, x2, l2)
    }

    /// The same for three operands.
    fn custom_op3(
        &self,
        [(x1, l1), (x2, l2), (x3, l3)]: [Operand; 3],
        op: &dyn CustomOp3,
    ) -> Result<(BoxedStorage, Shape)> {
        op.custom_fwd(x1, l1, x2, l2, x3, l3)
    }

    /// Runs a custom op that works in place on `dst`.
    fn inplace_op1(&self, dst: &mut dyn CustomStorage, dst_l: &Layout, op: &dyn InplaceOp1) -> Result<()> {
        op.custom_fwd(dst, dst_l)
    }

    /// The same with another operand.
    fn inplace_op2(
        &self,
        dst: &mut dyn CustomStorage,
        dst_l: &Layout,
        (x, l): Operand,
        op: &dyn InplaceOp2,
    ) -> Result<()> {
        op.custom_fwd(dst, dst_l, x, l)
    }

    /// The same with two other operands.
    fn inplace_op3(
        &self,
        dst: &mut dyn CustomStorage,
        dst_l: &Layout,
        [(x1, l1), (x2, l2)]: [Operand; 2],
        op: &dyn InplaceOp3,
    ) -> Result<()> {
        op.custom_fwd(dst, dst_l, x1, l1, x2, l2)
    }
}

impl dyn CustomDevice {
    /// The device as its own type.
    pub fn downcast_ref<T: CustomDevice>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// Whether both are on the same device, where a copy from one to the other needs no transfer.
pub(crate) fn meet(a: &dyn CustomStorage, b: &dyn CustomStorage) -> bool {
    a.device().same_device(b.device().as_ref())
}

/// Elements that a program has as a slice.
pub(crate) fn storage_from_slice<T: WithDType>(device: &dyn CustomDevice, src: &[T]) -> Result<BoxedStorage> {
    device.storage_from_bytes(T::DTYPE, bytes_of(src))
}

/// Elements on the CPU as they lie in memory: what a device copies.
pub fn cpu_storage_as_bytes(src: &CpuStorage) -> &[u8] {
    match src {
        CpuStorage::U8(v) => v,
        CpuStorage::U32(v) => bytes_of(v),
        CpuStorage::I16(v) => bytes_of(v),
        CpuStorage::I32(v) => bytes_of(v),
        CpuStorage::I64(v) => bytes_of(v),
        CpuStorage::BF16(v) => bytes_of(v),
        CpuStorage::F16(v) => bytes_of(v),
        CpuStorage::F32(v) => bytes_of(v),
        CpuStorage::F64(v) => bytes_of(v),
        CpuStorage::F8E4M3(v) => bytes_of(v),
        CpuStorage::F6E2M3(v) | CpuStorage::F6E3M2(v) | CpuStorage::F4(v) | CpuStorage::F8E8M0(v) => v,
    }
}

fn bytes_of<T: WithDType>(elements: &[T]) -> &[u8] {
    // SAFETY: the types of elements are numbers without padding, so all their bytes are initialised.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast::<u8>(), std::mem::size_of_val(elements)) }
}

/// Elements of `dtype` as they lie in memory, at any alignment, as Candle's CPU code takes them.
pub fn cpu_storage_from_bytes(dtype: DType, src: &[u8]) -> Result<CpuStorage> {
    let size = dtype.size_in_bytes();
    if size > 0 && src.len() % size != 0 {
        bail!("{} bytes are no whole number of {dtype:?}, each of {size} bytes", src.len())
    }
    Ok(match dtype {
        DType::U8 => elements::<u8>(src),
        DType::U32 => elements::<u32>(src),
        DType::I16 => elements::<i16>(src),
        DType::I32 => elements::<i32>(src),
        DType::I64 => elements::<i64>(src),
        DType::BF16 => elements::<half::bf16>(src),
        DType::F16 => elements::<half::f16>(src),
        DType::F32 => elements::<f32>(src),
        DType::F64 => elements::<f64>(src),
        DType::F8E4M3 => elements::<float8::F8E4M3>(src),
        DType::F6E2M3 => CpuStorage::F6E2M3(src.to_vec()),
        DType::F6E3M2 => CpuStorage::F6E3M2(src.to_vec()),
        DType::F4 => CpuStorage::F4(src.to_vec()),
        DType::F8E8M0 => CpuStorage::F8E8M0(src.to_vec()),
    })
}

fn elements<T: WithDType>(src: &[u8]) -> CpuStorage {
    let size = std::mem::size_of::<T>();
    let count = src.len() / size;
    let mut elements = Vec::<T>::with_capacity(count);
    // SAFETY: `count` elements were reserved and `src` has that many, every bit pattern is a number, and the copy goes by bytes,
    // so that `src` need not be aligned.
    unsafe {
        std::ptr::copy_nonoverlapping(src.as_ptr(), elements.as_mut_ptr().cast::<u8>(), count * size);
        elements.set_len(count);
    }
    T::to_cpu_storage_owned(elements)
}
