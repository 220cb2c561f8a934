//! The elements of a tensor on the reference device. Moves of memory work for every type, arithmetic for `f32`, `f64`, `u8`, `u32`
//! and `i64`, matrix products, convolutions in two dimensions and special functions for `f32`; the rest, pooling among it, is left to
//! round trips.

use crate::arithmetic::{self, Number};
use crate::device::Reference;
use crate::fused;
use crate::memory::{Element, Memory};
use candle_core::backend::BackendStorage;
use candle_core::conv::ParamsConv2D;
use candle_core::custom::{
    BoxedStorage, Copy2d, binary_name, cpu_binary, cpu_storage_as_bytes, cpu_storage_from_bytes, cpu_unary,
    reduce_name, unary_name, via_cpu,
};
use candle_core::op::{BinaryOp, CmpOp, ReduceOp, UnaryOp};
use candle_core::scalar::Scalar;
use candle_core::{CpuStorage, CustomDevice, CustomStorage, DType, Layout, Result, bail};
use std::sync::Arc;

/// Elements on the reference device.
pub struct ReferenceStorage {
    pub(crate) dtype: DType,
    pub(crate) memory: Memory,
    pub(crate) device: Reference,
}

impl std::fmt::Debug for ReferenceStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes of {:?} on {:?}", self.memory.bytes().len(), self.dtype, self.device)
    }
}

/// The elements of an operand, which the caller has checked to be on this device.
pub(crate) fn of(storage: &dyn CustomStorage) -> Result<&ReferenceStorage> {
    storage.downcast_ref().ok_or_else(|| elsewhere(storage))
}

fn of_mut(storage: &mut dyn CustomStorage) -> Result<&mut ReferenceStorage> {
    let error = elsewhere(storage);
    storage.downcast_mut().ok_or(error)
}

fn elsewhere(storage: &dyn CustomStorage) -> candle_core::Error {
    candle_core::Error::Msg(format!("{storage:?} is not on the reference device"))
}

/// Runs code for the type of the elements, or other code where the device has none for it.
macro_rules! with_numbers {
    ($dtype:expr, $t:ident => $own:expr, else $other:expr) => {
        match $dtype {
            DType::F32 => {
                type $t = f32;
                $own
            }
            DType::F64 => {
                type $t = f64;
                $own
            }
            DType::U8 => {
                type $t = u8;
                $own
            }
            DType::U32 => {
                type $t = u32;
                $own
            }
            DType::I64 => {
                type $t = i64;
                $own
            }
            _ => $other,
        }
    };
}

impl ReferenceStorage {
    /// Where the elements lie: it stays the same for as long as they live.
    pub fn address(&self) -> *const u8 {
        self.memory.bytes().as_ptr()
    }

    /// The elements of a layout, in its order.
    pub(crate) fn in_order<T: Element>(&self, l: &Layout) -> Vec<T> {
        let elements = self.memory.elements::<T>();
        l.offsets().map(|at| elements[at]).collect()
    }

    fn map<T: Element, U: Element>(&self, l: &Layout, f: impl Fn(T) -> U) -> BoxedStorage {
        let elements = self.memory.elements::<T>();
        self.device.collect(l.shape().elem_count(), l.offsets().map(|at| f(elements[at])))
    }

    fn zip<T: Element, U: Element>(
        &self,
        l: &Layout,
        other: &Self,
        ol: &Layout,
        f: impl Fn(T, T) -> U,
    ) -> BoxedStorage {
        let (a, b) = (self.memory.elements::<T>(), other.memory.elements::<T>());
        let pairs = l.offsets().zip(ol.offsets());
        self.device.collect(l.shape().elem_count(), pairs.map(|(i, j)| f(a[i], b[j])))
    }

    /// Indices of the types that Candle allows. The largest value of a type stands for no element.
    fn indices(&self, l: &Layout) -> Result<Vec<Option<usize>>> {
        Ok(match self.dtype {
            DType::U8 => self.in_order::<u8>(l).iter().map(|&i| (i != u8::MAX).then_some(usize::from(i))).collect(),
            DType::U32 => self.in_order::<u32>(l).iter().map(|&i| (i != u32::MAX).then_some(i as usize)).collect(),
            DType::I64 => self.in_order::<i64>(l).iter().map(|&i| (i != i64::MAX).then_some(i as usize)).collect(),
            dtype => bail!("indices must be u8, u32 or i64, not {dtype:?}"),
        })
    }

    /// Moves whole elements of any type: those at `from` (`None` leaves zeros), one after the other.
    fn collect_bytes(&self, from: &[Option<usize>]) -> BoxedStorage {
        let size = self.dtype.size_in_bytes();
        let mut bytes = vec![0; from.len() * size];
        for (target, from) in bytes.chunks_mut(size).zip(from) {
            if let Some(from) = from {
                target.copy_from_slice(&self.memory.bytes()[from * size..][..size]);
            }
        }
        self.device.storage(self.dtype, self.device.memory_from(&bytes))
    }

    /// `self[places[i]] = change(self[places[i]], src[i])` for every element of `src`, in order.
    fn update<T: Element>(&mut self, places: &[usize], src: &Self, sl: &Layout, change: impl Fn(T, T) -> T) {
        let elements = self.memory.elements_mut::<T>();
        for (&place, value) in places.iter().zip(src.in_order::<T>(sl)) {
            elements[place] = change(elements[place], value);
        }
    }
}

/// Where `l` has the element at these coordinates, when `ids`, of the layout `idl`, replaces the one along `dim`. In the order of
/// `idl`; `None` where an index stands for no element.
fn places(l: &Layout, ids: &ReferenceStorage, idl: &Layout, dim: usize) -> Result<Vec<Option<usize>>> {
    let indices = ids.indices(idl)?;
    coordinates(idl.dims())
        .zip(indices)
        .map(|(coordinates, index)| index.map(|index| place(l, &coordinates, dim, index)).transpose())
        .collect()
}

/// The same where `ids` has one dimension and names whole slices: in the order of the result.
fn slice_places(l: &Layout, ids: &ReferenceStorage, idl: &Layout, dim: usize) -> Result<Vec<Option<usize>>> {
    let indices = ids.indices(idl)?;
    let mut dims = l.dims().to_vec();
    dims[dim] = indices.len();
    coordinates(&dims)
        .map(|coordinates| indices[coordinates[dim]].map(|index| place(l, &coordinates, dim, index)).transpose())
        .collect()
}

fn place(l: &Layout, coordinates: &[usize], dim: usize, index: usize) -> Result<usize> {
    if index >= l.dims()[dim] {
        bail!("index {index} is out of range for dimension {dim} of {:?}", l.shape())
    }
    let along = |d: usize| if d == dim { index } else { coordinates[d] };
    Ok(l.start_offset() + l.stride().iter().enumerate().map(|(d, stride)| along(d) * stride).sum::<usize>())
}

/// All coordinates of a shape, the last dimension first.
fn coordinates(dims: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    (0..dims.iter().product()).map(move |at: usize| {
        let mut rest = at;
        let mut coordinates = vec![0; dims.len()];
        for (coordinate, dim) in coordinates.iter_mut().zip(dims).rev() {
            (*coordinate, rest) = (rest % dim, rest / dim);
        }
        coordinates
    })
}

impl CustomStorage for ReferenceStorage {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn device(&self) -> Arc<dyn CustomDevice> {
        Arc::new(self.device.clone())
    }

    fn try_clone(&self, _: &Layout) -> Result<BoxedStorage> {
        self.device.count("try_clone")?;
        Ok(self.device.storage(self.dtype, self.device.memory_from(self.memory.bytes())))
    }

    fn to_cpu_storage(&self) -> Result<CpuStorage> {
        self.device.count("download")?;
        cpu_storage_from_bytes(self.dtype, self.memory.bytes())
    }

    fn write_cpu_storage(&mut self, src: CpuStorage) -> Result<()> {
        self.device.count("write")?;
        let bytes = cpu_storage_as_bytes(&src);
        if bytes.len() != self.memory.bytes().len() {
            bail!("{} bytes do not fit memory of {} bytes", bytes.len(), self.memory.bytes().len())
        }
        self.memory.bytes_mut().copy_from_slice(bytes);
        Ok(())
    }

    fn affine(&self, l: &Layout, mul: f64, add: f64) -> Result<BoxedStorage> {
        with_numbers!(self.dtype, T => {
            self.device.count("affine")?;
            let (mul, add) = (<T as Number>::from_f64(mul), <T as Number>::from_f64(add));
            Ok(self.map(l, |x: T| Number::add(Number::mul(x, mul), add)))
        }, else via_cpu("affine", self, [], |x, []| x.affine(l, mul, add)))
    }

    fn reduce_op(&self, op: ReduceOp, l: &Layout, dims: &[usize]) -> Result<BoxedStorage> {
        with_numbers!(self.dtype, T => {
            self.device.count(reduce_name(op))?;
            Ok(self.reduce::<T>(op, l, dims))
        }, else via_cpu(reduce_name(op), self, [], |x, []| x.reduce_op(op, l, dims)))
    }

    fn cmp(&self, op: CmpOp, rhs: &dyn CustomStorage, ll: &Layout, rl: &Layout) -> Result<BoxedStorage> {
        with_numbers!(self.dtype, T => {
            self.device.count("cmp")?;
            Ok(self.zip(ll, of(rhs)?, rl, |a: T, b: T| arithmetic::compare(op, a, b)))
        }, else via_cpu("cmp", self, [rhs], |a, [b]| BackendStorage::cmp(a, op, b, ll, rl)))
    }

    fn unary(&self, op: UnaryOp, l: &Layout) -> Result<BoxedStorage> {
        match (self.dtype, arithmetic::unary(op)) {
            (DType::F32, Some(f)) => {
                self.device.count(unary_name(op))?;
                Ok(self.map(l, f))
            }
            _ => via_cpu(unary_name(op), self, [], |x, []| cpu_unary(op, x, l)),
        }
    }

    fn binary(&self, op: BinaryOp, rhs: &dyn CustomStorage, ll: &Layout, rl: &Layout) -> Result<BoxedStorage> {
        with_numbers!(self.dtype, T => {
            self.device.count(binary_name(op))?;
            Ok(self.zip(ll, of(rhs)?, rl, |a: T, b: T| arithmetic::binary(op, a, b)))
        }, else via_cpu(binary_name(op), self, [rhs], |a, [b]| cpu_binary(op, a, b, ll, rl)))
    }

    fn where_cond(
        &self,
        l: &Layout,
        t: &dyn CustomStorage,
        tl: &Layout,
        f: &dyn CustomStorage,
        fl: &Layout,
    ) -> Result<BoxedStorage> {
        self.device.count("where_cond")?;
        let (t, f) = (of(t)?, of(f)?);
        let size = t.dtype.size_in_bytes();
        let chosen: Vec<bool> = match self.dtype {
            DType::U8 => self.in_order::<u8>(l).iter().map(|&c| c != 0).collect(),
            DType::U32 => self.in_order::<u32>(l).iter().map(|&c| c != 0).collect(),
            DType::I64 => self.in_order::<i64>(l).iter().map(|&c| c != 0).collect(),
            dtype => bail!("a condition must be u8, u32 or i64, not {dtype:?}"),
        };
        let mut bytes = Vec::with_capacity(chosen.len() * size);
        for (chosen, (i, j)) in chosen.iter().zip(tl.offsets().zip(fl.offsets())) {
            let (from, at) = if *chosen { (t, i) } else { (f, j) };
            bytes.extend_from_slice(&from.memory.bytes()[at * size..][..size]);
        }
        Ok(self.device.storage(t.dtype, self.device.memory_from(&bytes)))
    }

    fn conv2d(
        &self,
        l: &Layout,
        kernel: &dyn CustomStorage,
        kl: &Layout,
        params: &ParamsConv2D,
    ) -> Result<BoxedStorage> {
        if self.dtype != DType::F32 {
            return via_cpu("conv2d", self, [kernel], |x, [k]| x.conv2d(l, k, kl, params));
        }
        self.device.count("conv2d")?;
        let result = fused::conv2d(&self.in_order(l), &of(kernel)?.in_order(kl), params);
        Ok(self.device.collect(result.len(), result))
    }

    fn gather(&self, l: &Layout, ids: &dyn CustomStorage, idl: &Layout, dim: usize) -> Result<BoxedStorage> {
        self.device.count("gather")?;
        Ok(self.collect_bytes(&places(l, of(ids)?, idl, dim)?))
    }

    fn index_select(&self, ids: &dyn CustomStorage, l: &Layout, idl: &Layout, dim: usize) -> Result<BoxedStorage> {
        self.device.count("index_select")?;
        Ok(self.collect_bytes(&slice_places(l, of(ids)?, idl, dim)?))
    }

    fn scatter_set(
        &mut self,
        l: &Layout,
        ids: &dyn CustomStorage,
        idl: &Layout,
        src: &dyn CustomStorage,
        sl: &Layout,
        dim: usize,
    ) -> Result<()> {
        self.device.count("scatter_set")?;
        let size = self.dtype.size_in_bytes();
        let (places, src) = (places(l, of(ids)?, idl, dim)?, of(src)?);
        for (place, from) in places.iter().zip(sl.offsets()) {
            if let Some(place) = place {
                self.memory.bytes_mut()[place * size..][..size]
                    .copy_from_slice(&src.memory.bytes()[from * size..][..size]);
            }
        }
        Ok(())
    }

    fn index_add(
        &self,
        l: &Layout,
        ids: &dyn CustomStorage,
        idl: &Layout,
        src: &dyn CustomStorage,
        sl: &Layout,
        dim: usize,
    ) -> Result<BoxedStorage> {
        let (contiguous, ids, from) = (Layout::contiguous(l.shape()), of(ids)?, of(src)?);
        let places: Option<Vec<usize>> = slice_places(&contiguous, ids, idl, dim)?.into_iter().collect();
        let everything: Vec<_> = l.offsets().map(Some).collect();
        match (places, self.dtype) {
            (Some(places), DType::F32) => {
                self.device.count("index_add")?;
                let mut result = self.collect_bytes(&everything);
                of_mut(result.as_mut())?.update::<f32>(&places, from, sl, |a, b| a + b);
                Ok(result)
            }
            _ => via_cpu("index_add", self, [ids, src], |x, [ids, src]| x.index_add(l, ids, idl, src, sl, dim)),
        }
    }

    fn matmul(
        &self,
        rhs: &dyn CustomStorage,
        bmnk: (usize, usize, usize, usize),
        ll: &Layout,
        rl: &Layout,
    ) -> Result<BoxedStorage> {
        if self.dtype != DType::F32 {
            return via_cpu("matmul", self, [rhs], |a, [b]| a.matmul(b, bmnk, ll, rl));
        }
        self.device.count("matmul")?;
        let (batch, m, n, k) = bmnk;
        let (a, b) = (self.in_order::<f32>(ll), of(rhs)?.in_order::<f32>(rl));
        let mut result = vec![0f32; batch * m * n];
        for (row, sums) in result.chunks_mut(n).enumerate() {
            let right = &b[row / m * k * n..][..k * n];
            for (x, line) in a[row * k..][..k].iter().zip(right.chunks(n)) {
                sums.iter_mut().zip(line).for_each(|(sum, y)| *sum += x * y);
            }
        }
        Ok(self.device.collect(result.len(), result))
    }

    fn copy_strided_src(&self, dst: &mut dyn CustomStorage, dst_offset: usize, src_l: &Layout) -> Result<()> {
        self.device.count("copy_strided_src")?;
        let size = self.dtype.size_in_bytes();
        let target = &mut of_mut(dst)?.memory.bytes_mut()[dst_offset * size..];
        // Candle asks for more than fits where the destination is a part of a tensor: what fits is copied.
        for (target, from) in target.chunks_exact_mut(size).zip(src_l.offsets()) {
            target.copy_from_slice(&self.memory.bytes()[from * size..][..size]);
        }
        Ok(())
    }

    fn copy2d(&self, dst: &mut dyn CustomStorage, copy: Copy2d) -> Result<()> {
        self.device.count("copy2d")?;
        let size = self.dtype.size_in_bytes();
        let target = of_mut(dst)?.memory.bytes_mut();
        for row in 0..copy.rows {
            let from = &self.memory.bytes()[(copy.src_offset + row * copy.src_stride) * size..][..copy.columns * size];
            target[(copy.dst_offset + row * copy.dst_stride) * size..][..copy.columns * size].copy_from_slice(from);
        }
        Ok(())
    }

    fn const_set(&mut self, value: Scalar, l: &Layout) -> Result<()> {
        self.device.count("const_set")?;
        let size = self.dtype.size_in_bytes();
        let value = match value {
            Scalar::U8(x) => vec![x],
            Scalar::U32(x) => x.to_ne_bytes().into(),
            Scalar::I16(x) => x.to_ne_bytes().into(),
            Scalar::I32(x) => x.to_ne_bytes().into(),
            Scalar::I64(x) => x.to_ne_bytes().into(),
            Scalar::BF16(x) => x.to_ne_bytes().into(),
            Scalar::F16(x) => x.to_ne_bytes().into(),
            Scalar::F32(x) => x.to_ne_bytes().into(),
            Scalar::F64(x) => x.to_ne_bytes().into(),
            Scalar::F8E4M3(x) => vec![x.to_bits()],
        };
        for at in l.offsets() {
            self.memory.bytes_mut()[at * size..][..size].copy_from_slice(&value);
        }
        Ok(())
    }
}

impl ReferenceStorage {
    /// Visits the elements in order; each belongs to the result whose coordinates are 0 where they are reduced.
    fn reduce<T: Element + Number>(&self, op: ReduceOp, l: &Layout, dims: &[usize]) -> BoxedStorage {
        let kept: Vec<usize> =
            l.dims().iter().enumerate().map(|(d, &n)| if dims.contains(&d) { 1 } else { n }).collect();
        let mut best: Vec<Option<(T, u32)>> = vec![None; kept.iter().product()];
        for (coordinates, value) in coordinates(l.dims()).zip(self.in_order::<T>(l)) {
            let result = coordinates.iter().zip(&kept).fold(0, |at, (&c, &n)| at * n + if n == 1 { 0 } else { c });
            // An index counts along the one dimension that is reduced.
            let index = dims.first().map_or(0, |&d| coordinates[d] as u32);
            best[result] = Some(match (best[result], op) {
                (None, _) => (value, index),
                (Some((sum, _)), ReduceOp::Sum) => (Number::add(sum, value), 0),
                (Some((old, _)), ReduceOp::Max | ReduceOp::ArgMax) if value > old => (value, index),
                (Some((old, _)), ReduceOp::Min | ReduceOp::ArgMin) if value < old => (value, index),
                (Some(old), _) => old,
            });
        }
        let reduced = best.into_iter().map(|best| best.unwrap_or((<T as Number>::ZERO, 0)));
        match op {
            ReduceOp::ArgMin | ReduceOp::ArgMax => self.device.collect(reduced.len(), reduced.map(|(_, index)| index)),
            _ => self.device.collect(reduced.len(), reduced.map(|(value, _)| value)),
        }
    }
}
