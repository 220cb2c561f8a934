//! Elements to other places, whatever their type: copies, rows, one value, and slices by their numbers.

use candle_core::custom::Copy2d;
use candle_core::scalar::Scalar;
use candle_core::{DType, Layout, Result};
use taper_kernels::DevicePtr;
use taper_kernels::copy::{self, Copy, CopyBetween, Fill};
use taper_kernels::index::{self, IndexSelect};

use super::{Computed, RocmStorage, kernel_dtype};

impl RocmStorage {
    fn element_size(&self) -> u64 {
        self.dtype.size_in_bytes() as u64
    }

    /// The elements of a layout, in its order, in memory of their own.
    pub(super) fn copied(&self, l: &Layout) -> Computed {
        let (element_size, x) = (self.element_size(), self.at(l.start_offset()));
        let (shape, strides) = (l.dims(), l.stride());
        self.computed(self.dtype, l, |y| copy::copy(&Copy { element_size, shape, strides, x, y }))
    }

    /// Whether the layout is one that a kernel takes.
    pub(super) fn copy_to(&self, dst: &mut Self, dst_offset: usize, l: &Layout) -> Result<bool> {
        if l.shape().elem_count() == 0 {
            return Ok(true);
        }
        let (element_size, x, y) = (self.element_size(), self.at(l.start_offset()), dst.at(dst_offset));
        let launch = copy::copy(&Copy { element_size, shape: l.dims(), strides: l.stride(), x, y });
        self.launched(launch)
    }

    pub(super) fn copy_rows_to(&self, dst: &mut Self, copy: Copy2d) -> Result<bool> {
        let Copy2d { rows, columns, src_stride, dst_stride, src_offset, dst_offset } = copy;
        if rows == 0 || columns == 0 {
            return Ok(true);
        }
        let launch = copy::copy_between(&CopyBetween {
            element_size: self.element_size(),
            shape: &[rows, columns],
            x: self.at(src_offset),
            strides_x: &[src_stride, 1],
            y: dst.at(dst_offset),
            strides_y: &[dst_stride, 1],
        });
        self.launched(launch)
    }

    pub(super) fn set_all(&mut self, value: Scalar, l: &Layout) -> Result<bool> {
        if l.shape().elem_count() == 0 {
            return Ok(true);
        }
        let Some(value) = bits(value, self.dtype) else { return Ok(false) };
        let (element_size, y) = (self.element_size(), self.at(l.start_offset()));
        let launch = copy::fill(&Fill { element_size, value, shape: l.dims(), strides: l.stride(), y });
        self.launched(launch)
    }

    pub(super) fn selected(&self, (ids, idl): (&Self, &Layout), l: &Layout, dim: usize) -> Computed {
        let Some(ids_dtype) = kernel_dtype(ids.dtype) else { return Ok(None) };
        let (Some(x), Some(on_device)) = (self.dense(l, 1)?, ids.dense(idl, 1)?) else { return Ok(None) };
        let (left, size) = (l.dims()[..dim].iter().product::<usize>(), l.dims()[dim]);
        let (right, ids_count) = (l.dims()[dim + 1..].iter().product::<usize>(), idl.shape().elem_count());
        let count = left * ids_count * right;
        // The kernel counts in 31 bits, and divides by none of these where there is nothing to do.
        let [Ok(left), Ok(size), Ok(right), Ok(ids_count)] = [left, size, right, ids_count].map(u32::try_from) else {
            return Ok(None);
        };
        let (element_size, x, ids) = (self.element_size(), x.ptr, on_device.ptr);
        self.device.at_fault(|fault| {
            let select = IndexSelect {
                element_size,
                ids_dtype,
                left,
                size,
                right,
                ids_count,
                x,
                ids,
                y: DevicePtr::NULL,
                fault,
            };
            self.computed_count(self.dtype, count, |y| index::index_select(&IndexSelect { y, ..select }))
        })
    }

    /// A copy of the elements with the last two dimensions exchanged.
    pub(super) fn transposed(&self, l: &Layout) -> Computed {
        let rank = l.dims().len();
        self.copied(&l.transpose(rank - 2, rank - 1)?)
    }
}

/// A number as it lies in memory, in the low bytes; nothing where it is not of the type.
fn bits(value: Scalar, dtype: DType) -> Option<u64> {
    Some(match (value, dtype) {
        (Scalar::U8(x), DType::U8) => x.into(),
        (Scalar::U32(x), DType::U32) => x.into(),
        (Scalar::I16(x), DType::I16) => (x as u16).into(),
        (Scalar::I32(x), DType::I32) => (x as u32).into(),
        (Scalar::I64(x), DType::I64) => x as u64,
        (Scalar::BF16(x), DType::BF16) => x.to_bits().into(),
        (Scalar::F16(x), DType::F16) => x.to_bits().into(),
        (Scalar::F32(x), DType::F32) => x.to_bits().into(),
        (Scalar::F64(x), DType::F64) => x.to_bits(),
        _ => return None,
    })
}
