//! The elements of a tensor on a device from another crate, and every operation that Candle has on them. The methods are those
//! of Candle's `BackendStorage`, made object-safe.

use super::round_trip::leave;
use super::{binary_name, cpu_binary, cpu_unary, inplace_via_cpu, unary_name, via_cpu, BoxedStorage, CustomDevice};
use crate::backend::BackendStorage;
use crate::conv::{ParamsConv1D, ParamsConv2D, ParamsConvTranspose1D, ParamsConvTranspose2D};
use crate::op::{BinaryOp, CmpOp, ReduceOp, UnaryOp};
use crate::scalar::Scalar;
use crate::{CpuStorage, DType, Layout, Result};
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// What to copy in [`CustomStorage::copy2d`]. Everything counts elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy2d {
    /// How many rows to copy.
    pub rows: usize,
    /// How many elements of each row to copy.
    pub columns: usize,
    /// From one row to the next, in the source.
    pub src_stride: usize,
    /// From one row to the next, in the destination.
    pub dst_stride: usize,
    /// Where the first row starts, in the source.
    pub src_offset: usize,
    /// Where the first row starts, in the destination.
    pub dst_offset: usize,
}

/// The elements of a tensor on a device from another crate.
///
/// A layout says where among the elements a tensor lies: it may be strided, offset and broadcast (stride 0). Results are new,
/// contiguous elements in the order of the result's shape. Operands are on the same device and, where Candle asks for
/// it, of the same type: this was checked.
pub trait CustomStorage: Any + Debug + Send + Sync {
    /// The type of the elements.
    fn dtype(&self) -> DType;

    /// The device that holds the elements.
    fn device(&self) -> Arc<dyn CustomDevice>;

    /// A copy of all elements, in memory of its own. `layout` is that of the tensor that is copied.
    fn try_clone(&self, layout: &Layout) -> Result<BoxedStorage>;

    /// Copies all elements to the CPU, after all work that writes them.
    fn to_cpu_storage(&self) -> Result<CpuStorage>;

    /// Overwrites all elements, in the memory they have: others may hold its address. `src` has the same type and length.
    fn write_cpu_storage(&mut self, src: CpuStorage) -> Result<()>;

    /// `x * mul + add`
    fn affine(&self, l: &Layout, mul: f64, add: f64) -> Result<BoxedStorage> {
        via_cpu("affine", self, [], |x, []| x.affine(l, mul, add))
    }

    /// `x` to the power of `exponent`
    fn powf(&self, l: &Layout, exponent: f64) -> Result<BoxedStorage> {
        via_cpu("powf", self, [], |x, []| x.powf(l, exponent))
    }

    /// `x` where it is positive, else `alpha * (exp(x) - 1)`
    fn elu(&self, l: &Layout, alpha: f64) -> Result<BoxedStorage> {
        via_cpu("elu", self, [], |x, []| x.elu(l, alpha))
    }

    /// Reduces over `dims`, which keep size 1. Indices (`ArgMin`, `ArgMax`) are u32 and count within the one reduced dimension.
    fn reduce_op(&self, op: ReduceOp, l: &Layout, dims: &[usize]) -> Result<BoxedStorage> {
        via_cpu(op.name(), self, [], |x, []| x.reduce_op(op, l, dims))
    }

    /// Compares element by element: u8, 1 or 0.
    fn cmp(&self, op: CmpOp, rhs: &dyn CustomStorage, ll: &Layout, rl: &Layout) -> Result<BoxedStorage> {
        via_cpu("cmp", self, [rhs], |a, [b]| a.cmp(op, b, ll, rl))
    }

    /// The elements as another type.
    fn to_dtype(&self, l: &Layout, dtype: DType) -> Result<BoxedStorage> {
        via_cpu("to_dtype", self, [], |x, []| x.to_dtype(l, dtype))
    }

    /// An operation on each element.
    fn unary(&self, op: UnaryOp, l: &Layout) -> Result<BoxedStorage> {
        via_cpu(unary_name(op), self, [], |x, []| cpu_unary(op, x, l))
    }

    /// An operation on each pair of elements. Both layouts have the same shape.
    fn binary(&self, op: BinaryOp, rhs: &dyn CustomStorage, ll: &Layout, rl: &Layout) -> Result<BoxedStorage> {
        via_cpu(binary_name(op), self, [rhs], |a, [b]| cpu_binary(op, a, b, ll, rl))
    }

    /// `t` where these elements (u8, u32 or i64) are not 0, else `f`. All layouts have the same shape.
    fn where_cond(
        &self,
        l: &Layout,
        t: &dyn CustomStorage,
        tl: &Layout,
        f: &dyn CustomStorage,
        fl: &Layout,
    ) -> Result<BoxedStorage> {
        via_cpu("where_cond", self, [t, f], |condition, [t, f]| condition.where_cond(l, t, tl, f, fl))
    }

    /// Input `[b_size, c_in, l_in]`, kernel `[c_out, c_in, k_size]`, result `[b_size, c_out, l_out]`.
    fn conv1d(
        &self,
        l: &Layout,
        kernel: &dyn CustomStorage,
        kl: &Layout,
        params: &ParamsConv1D,
    ) -> Result<BoxedStorage> {
        via_cpu("conv1d", self, [kernel], |x, [k]| x.conv1d(l, k, kl, params))
    }

    /// Input `[b_size, c_in, l_in]`, kernel `[c_in, c_out, k_size]`, result `[b_size, c_out, l_out]`.
    fn conv_transpose1d(
        &self,
        l: &Layout,
        kernel: &dyn CustomStorage,
        kl: &Layout,
        params: &ParamsConvTranspose1D,
    ) -> Result<BoxedStorage> {
        via_cpu("conv_transpose1d", self, [kernel], |x, [k]| x.conv_transpose1d(l, k, kl, params))
    }

    /// Input `[b_size, c_in, i_h, i_w]`, kernel `[c_out, c_in, k_h, k_w]`, result `[b_size, c_out, out_h, out_w]`.
    fn conv2d(
        &self,
        l: &Layout,
        kernel: &dyn CustomStorage,
        kl: &Layout,
        params: &ParamsConv2D,
    ) -> Result<BoxedStorage> {
        via_cpu("conv2d", self, [kernel], |x, [k]| x.conv2d(l, k, kl, params))
    }

    /// Input `[b_size, c_in, i_h, i_w]`, kernel `[c_in, c_out, k_h, k_w]`, result `[b_size, c_out, out_h, out_w]`.
    fn conv_transpose2d(
        &self,
        l: &Layout,
        kernel: &dyn CustomStorage,
        kl: &Layout,
        params: &ParamsConvTranspose2D,
    ) -> Result<BoxedStorage> {
        via_cpu("conv_transpose2d", self, [kernel], |x, [k]| x.conv_transpose2d(l, k, kl, params))
    }

    /// Means of windows of `[b, c, h, w]`; `window` and `stride` are (height, width).
    fn avg_pool2d(&self, l: &Layout, window: (usize, usize), stride: (usize, usize)) -> Result<BoxedStorage> {
        via_cpu("avg_pool2d", self, [], |x, []| x.avg_pool2d(l, window, stride))
    }

    /// Largest elements of windows of `[b, c, h, w]`; `window` and `stride` are (height, width).
    fn max_pool2d(&self, l: &Layout, window: (usize, usize), stride: (usize, usize)) -> Result<BoxedStorage> {
        via_cpu("max_pool2d", self, [], |x, []| x.max_pool2d(l, window, stride))
    }

    /// `[b, c, l]` to `[b, c, size]`
    fn upsample_nearest1d(&self, l: &Layout, size: usize) -> Result<BoxedStorage> {
        via_cpu("upsample_nearest1d", self, [], |x, []| x.upsample_nearest1d(l, size))
    }

    /// `[b, c, h, w]` to `[b, c, height, width]`
    fn upsample_nearest2d(&self, l: &Layout, height: usize, width: usize) -> Result<BoxedStorage> {
        via_cpu("upsample_nearest2d", self, [], |x, []| x.upsample_nearest2d(l, height, width))
    }

    /// `[b, c, h, w]` to `[b, c, height, width]`; the factors of scale (height, width) replace the ratio of the sizes.
    fn upsample_bilinear2d(
        &self,
        l: &Layout,
        height: usize,
        width: usize,
        align_corners: bool,
        scale_h: Option<f64>,
        scale_w: Option<f64>,
    ) -> Result<BoxedStorage> {
        via_cpu("upsample_bilinear2d", self, [], |x, []| {
            x.upsample_bilinear2d(l, height, width, align_corners, scale_h, scale_w)
        })
    }

    /// Takes along `dim` the element that `ids` (u8, u32 or i64) names; the result has the shape of `ids`. An index of the largest
    /// value of its type stands for 0.
    fn gather(&self, l: &Layout, ids: &dyn CustomStorage, idl: &Layout, dim: usize) -> Result<BoxedStorage> {
        via_cpu("gather", self, [ids], |x, [ids]| x.gather(l, ids, idl, dim))
    }

    /// Writes each element of `src` to where `ids`, of the same shape, says along `dim`.
    fn scatter_set(
        &mut self,
        l: &Layout,
        ids: &dyn CustomStorage,
        idl: &Layout,
        src: &dyn CustomStorage,
        sl: &Layout,
        dim: usize,
    ) -> Result<()> {
        inplace_via_cpu("scatter_set", self, [ids, src], |x, [ids, src]| x.scatter_set(l, ids, idl, src, sl, dim))
    }

    /// Adds each element of `src` to where `ids`, of the same shape, says along `dim`.
    fn scatter_add_set(
        &mut self,
        l: &Layout,
        ids: &dyn CustomStorage,
        idl: &Layout,
        src: &dyn CustomStorage,
        sl: &Layout,
        dim: usize,
    ) -> Result<()> {
        inplace_via_cpu("scatter_add", self, [ids, src], |x, [ids, src]| x.scatter_add_set(l, ids, idl, src, sl, dim))
    }

    /// The slices along `dim` that `ids`, of one dimension, names.
    fn index_select(&self, ids: &dyn CustomStorage, l: &Layout, idl: &Layout, dim: usize) -> Result<BoxedStorage> {
        via_cpu("index_select", self, [ids], |x, [ids]| x.index_select(ids, l, idl, dim))
    }

    /// A copy to which each slice of `src` along `dim` is added where `ids`, of one dimension, says.
    fn index_add(
        &self,
        l: &Layout,
        ids: &dyn CustomStorage,
        idl: &Layout,
        src: &dyn CustomStorage,
        sl: &Layout,
        dim: usize,
    ) -> Result<BoxedStorage> {
        via_cpu("index_add", self, [ids, src], |x, [ids, src]| x.index_add(l, ids, idl, src, sl, dim))
    }

    /// `[b, m, k]` by `[b, k, n]` to `[b, m, n]`; `bmnk` is (b, m, n, k). The layouts may have several batch dimensions.
    fn matmul(
        &self,
        rhs: &dyn CustomStorage,
        bmnk: (usize, usize, usize, usize),
        ll: &Layout,
        rl: &Layout,
    ) -> Result<BoxedStorage> {
        via_cpu("matmul", self, [rhs], |a, [b]| a.matmul(b, bmnk, ll, rl))
    }

    /// Copies the elements of `src_l`, in its order, to `dst` from `dst_offset` on.
    fn copy_strided_src(&self, dst: &mut dyn CustomStorage, dst_offset: usize, src_l: &Layout) -> Result<()> {
        let src = leave(self, "copy_strided_src")?;
        overwrite(dst, |dst| src.copy_strided_src(dst, dst_offset, src_l))
    }

    /// Copies rows to `dst`.
    fn copy2d(&self, dst: &mut dyn CustomStorage, copy: Copy2d) -> Result<()> {
        let src = leave(self, "copy2d")?;
        let Copy2d { rows, columns, src_stride, dst_stride, src_offset, dst_offset } = copy;
        overwrite(dst, |dst| src.copy2d(dst, rows, columns, src_stride, dst_stride, src_offset, dst_offset))
    }

    /// Writes `value`, which has the type of the elements, to every element of the layout.
    fn const_set(&mut self, value: Scalar, l: &Layout) -> Result<()> {
        inplace_via_cpu("const_set", self, [], |x, []| x.const_set(value, l))
    }
}

impl dyn CustomStorage {
    /// The elements as their own type.
    pub fn downcast_ref<T: CustomStorage>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    /// The elements as their own type.
    pub fn downcast_mut<T: CustomStorage>(&mut self) -> Option<&mut T> {
        (self as &mut dyn Any).downcast_mut()
    }
}

/// Changes a copy of `dst` and writes it back.
fn overwrite(dst: &mut dyn CustomStorage, change: impl FnOnce(&mut CpuStorage) -> Result<()>) -> Result<()> {
    let mut copy = dst.to_cpu_storage()?;
    change(&mut copy)?;
    dst.write_cpu_storage(copy)
}
