//! The elements of a tensor on the device, and Candle's operations on them. Each makes a launch in its own file; what has no
//! kernel yet goes over the CPU, counted, as [`candle_core::custom`] says.

mod elementwise;
pub(crate) mod fused;
mod matmul;
mod moves;
mod reduce;

use std::sync::Arc;

use candle_core::backend::BackendStorage;
use candle_core::custom::{
    BoxedStorage, Copy2d, binary_name, cpu_binary, cpu_storage_as_bytes, cpu_storage_from_bytes, cpu_unary,
    inplace_via_cpu, reduce_name, unary_name, via_cpu,
};
use candle_core::op::{BinaryOp, CmpOp, ReduceOp, UnaryOp};
use candle_core::scalar::Scalar;
use candle_core::{CpuStorage, CustomDevice, CustomStorage, DType, Layout, Result, bail};
use taper_kernels::{DevicePtr, Dtype, Launch, ShapeError};

use crate::RocmDevice;
use crate::memory::Memory;

/// Elements on the device.
pub struct RocmStorage {
    pub(crate) memory: Memory,
    pub(crate) dtype: DType,
    pub(crate) device: RocmDevice,
}

impl std::fmt::Debug for RocmStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes of {:?} on {:?}", self.memory.bytes(), self.dtype, self.device)
    }
}

/// What an operation came to: new elements, or nothing where there is no kernel for the types or the shape.
type Computed = Result<Option<RocmStorage>>;

/// The elements of an operand, which Candle has checked to be on this device.
fn of(storage: &dyn CustomStorage) -> Result<&RocmStorage> {
    storage.downcast_ref().ok_or_else(|| elsewhere(storage))
}

fn of_mut(storage: &mut dyn CustomStorage) -> Result<&mut RocmStorage> {
    let error = elsewhere(storage);
    storage.downcast_mut().ok_or(error)
}

fn elsewhere(storage: &dyn CustomStorage) -> candle_core::Error {
    candle_core::Error::Msg(format!("{storage:?} is on no GPU"))
}

/// Kernels know no f64 and none of the small floats.
fn kernel_dtype(dtype: DType) -> Option<Dtype> {
    Some(match dtype {
        DType::U8 => Dtype::U8,
        DType::U32 => Dtype::U32,
        DType::I16 => Dtype::I16,
        DType::I32 => Dtype::I32,
        DType::I64 => Dtype::I64,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::Bf16,
        DType::F32 => Dtype::F32,
        _ => return None,
    })
}

/// The floats that kernels know.
fn float_dtype(dtype: DType) -> Option<Dtype> {
    kernel_dtype(dtype).filter(|dtype| dtype.is_float())
}

/// Kernels that read and write several elements at once take addresses that are multiples of so many bytes.
const WIDE: u64 = 16;

/// Contiguous elements: those of a storage, or a copy of them.
struct Dense<'a> {
    ptr: DevicePtr,
    /// The copy, which lives until the work that reads it is queued.
    _copy: Option<RocmStorage>,
    _storage: &'a RocmStorage,
}

impl RocmStorage {
    pub(crate) fn duplicate(&self) -> Result<BoxedStorage> {
        let memory = self.device.alloc(self.memory.bytes())?;
        self.device.copy(&memory, &self.memory)?;
        Ok(Box::new(Self { memory, dtype: self.dtype, device: self.device.clone() }))
    }

    /// The address of an element.
    fn at(&self, index: usize) -> DevicePtr {
        self.memory.ptr().offset((index * self.dtype.size_in_bytes()) as u64)
    }

    /// The elements of a layout in its order, at an address that is a multiple of `align` bytes.
    fn dense(&self, l: &Layout, align: u64) -> Result<Option<Dense<'_>>> {
        let ptr = self.at(l.start_offset());
        if l.is_contiguous() && ptr.0.is_multiple_of(align) {
            return Ok(Some(Dense { ptr, _copy: None, _storage: self }));
        }
        let Some(copy) = self.copied(l)? else { return Ok(None) };
        Ok(Some(Dense { ptr: copy.memory.ptr(), _copy: Some(copy), _storage: self }))
    }

    /// New elements of `dtype`, as many as the layout has, written by the launch for their address.
    fn computed(
        &self,
        dtype: DType,
        l: &Layout,
        launch: impl FnOnce(DevicePtr) -> std::result::Result<Launch, ShapeError>,
    ) -> Computed {
        self.computed_count(dtype, l.shape().elem_count(), launch)
    }

    fn computed_count(
        &self,
        dtype: DType,
        count: usize,
        launch: impl FnOnce(DevicePtr) -> std::result::Result<Launch, ShapeError>,
    ) -> Computed {
        let result = self.device.storage(dtype, count)?;
        // Candle has tensors without elements; there is nothing to launch for them.
        if count > 0 {
            return Ok(self.launched(launch(result.memory.ptr()))?.then_some(result));
        }
        Ok(Some(result))
    }

    /// Launches, unless the shape is beyond what kernels take, such as seven dimensions of which none can be joined.
    fn launched(&self, launch: std::result::Result<Launch, ShapeError>) -> Result<bool> {
        let Ok(launch) = launch else { return Ok(false) };
        self.device.launch(&launch)?;
        Ok(true)
    }
}

/// The result of an operation, or what the CPU makes of it.
fn boxed(computed: Computed, otherwise: impl FnOnce() -> Result<BoxedStorage>) -> Result<BoxedStorage> {
    match computed? {
        Some(storage) => Ok(Box::new(storage)),
        None => otherwise(),
    }
}

impl CustomStorage for RocmStorage {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn device(&self) -> Arc<dyn CustomDevice> {
        Arc::new(self.device.clone())
    }

    fn try_clone(&self, _: &Layout) -> Result<BoxedStorage> {
        self.duplicate()
    }

    fn to_cpu_storage(&self) -> Result<CpuStorage> {
        let mut bytes = vec![0; self.memory.bytes()];
        self.device.read(&self.memory, &mut bytes)?;
        cpu_storage_from_bytes(self.dtype, &bytes)
    }

    fn write_cpu_storage(&mut self, src: CpuStorage) -> Result<()> {
        let bytes = cpu_storage_as_bytes(&src);
        if bytes.len() != self.memory.bytes() {
            bail!("{} bytes do not overwrite {self:?}", bytes.len())
        }
        self.device.write(&self.memory, bytes)
    }

    fn affine(&self, l: &Layout, mul: f64, add: f64) -> Result<BoxedStorage> {
        boxed(self.affine_of(l, mul, add), || via_cpu("affine", self, [], |x, []| x.affine(l, mul, add)))
    }

    fn powf(&self, l: &Layout, exponent: f64) -> Result<BoxedStorage> {
        boxed(self.powf_of(l, exponent), || via_cpu("powf", self, [], |x, []| x.powf(l, exponent)))
    }

    fn elu(&self, l: &Layout, alpha: f64) -> Result<BoxedStorage> {
        boxed(self.elu_of(l, alpha), || via_cpu("elu", self, [], |x, []| x.elu(l, alpha)))
    }

    fn unary(&self, op: UnaryOp, l: &Layout) -> Result<BoxedStorage> {
        boxed(self.unary_of(op, l), || via_cpu(unary_name(op), self, [], |x, []| cpu_unary(op, x, l)))
    }

    fn binary(&self, op: BinaryOp, rhs: &dyn CustomStorage, ll: &Layout, rl: &Layout) -> Result<BoxedStorage> {
        boxed(self.binary_of(op, ll, of(rhs)?, rl), || {
            via_cpu(binary_name(op), self, [rhs], |a, [b]| cpu_binary(op, a, b, ll, rl))
        })
    }

    fn cmp(&self, op: CmpOp, rhs: &dyn CustomStorage, ll: &Layout, rl: &Layout) -> Result<BoxedStorage> {
        boxed(self.cmp_of(op, ll, of(rhs)?, rl), || via_cpu("cmp", self, [rhs], |a, [b]| a.cmp(op, b, ll, rl)))
    }

    fn where_cond(
        &self,
        l: &Layout,
        t: &dyn CustomStorage,
        tl: &Layout,
        f: &dyn CustomStorage,
        fl: &Layout,
    ) -> Result<BoxedStorage> {
        boxed(self.where_of(l, (of(t)?, tl), (of(f)?, fl)), || {
            via_cpu("where_cond", self, [t, f], |condition, [t, f]| condition.where_cond(l, t, tl, f, fl))
        })
    }

    fn to_dtype(&self, l: &Layout, dtype: DType) -> Result<BoxedStorage> {
        boxed(self.as_dtype(l, dtype), || via_cpu("to_dtype", self, [], |x, []| x.to_dtype(l, dtype)))
    }

    fn reduce_op(&self, op: ReduceOp, l: &Layout, dims: &[usize]) -> Result<BoxedStorage> {
        boxed(self.reduced(op, l, dims), || via_cpu(reduce_name(op), self, [], |x, []| x.reduce_op(op, l, dims)))
    }

    fn matmul(
        &self,
        rhs: &dyn CustomStorage,
        bmnk: (usize, usize, usize, usize),
        ll: &Layout,
        rl: &Layout,
    ) -> Result<BoxedStorage> {
        boxed(self.product((of(rhs)?, rl), bmnk, ll), || {
            via_cpu("matmul", self, [rhs], |a, [b]| a.matmul(b, bmnk, ll, rl))
        })
    }

    fn index_select(&self, ids: &dyn CustomStorage, l: &Layout, idl: &Layout, dim: usize) -> Result<BoxedStorage> {
        boxed(self.selected((of(ids)?, idl), l, dim), || {
            via_cpu("index_select", self, [ids], |x, [ids]| x.index_select(ids, l, idl, dim))
        })
    }

    fn copy_strided_src(&self, dst: &mut dyn CustomStorage, dst_offset: usize, src_l: &Layout) -> Result<()> {
        if self.copy_to(of_mut(dst)?, dst_offset, src_l)? {
            return Ok(());
        }
        inplace_via_cpu("copy_strided_src", dst, [self], |dst, [src]| src.copy_strided_src(dst, dst_offset, src_l))
    }

    fn copy2d(&self, dst: &mut dyn CustomStorage, copy: Copy2d) -> Result<()> {
        if self.copy_rows_to(of_mut(dst)?, copy)? {
            return Ok(());
        }
        let Copy2d { rows, columns, src_stride, dst_stride, src_offset, dst_offset } = copy;
        inplace_via_cpu("copy2d", dst, [self], |dst, [src]| {
            src.copy2d(dst, rows, columns, src_stride, dst_stride, src_offset, dst_offset)
        })
    }

    fn const_set(&mut self, value: Scalar, l: &Layout) -> Result<()> {
        if self.set_all(value, l)? {
            return Ok(());
        }
        inplace_via_cpu("const_set", self, [], |x, []| x.const_set(value, l))
    }
}
