//! Reductions over any dimensions: those are moved to the end, and each row becomes one element.

use candle_core::op::ReduceOp;
use candle_core::{DType, Layout, Shape};
use taper_kernels::reduce::{self, Reduce, Reduction};

use super::{Computed, RocmStorage, WIDE, float_dtype};

impl RocmStorage {
    pub(super) fn reduced(&self, op: ReduceOp, l: &Layout, dims: &[usize]) -> Computed {
        let (reduction, dtype_of_result) = match op {
            ReduceOp::Sum => (Reduction::Sum, self.dtype),
            ReduceOp::Max => (Reduction::Max, self.dtype),
            ReduceOp::Min => (Reduction::Min, self.dtype),
            ReduceOp::ArgMax => (Reduction::ArgMax, DType::U32),
            ReduceOp::ArgMin => return Ok(None),
        };
        let Some(dtype) = float_dtype(self.dtype) else { return Ok(None) };
        let n: usize = dims.iter().map(|dim| l.dims()[*dim]).product();
        let rows = l.shape().elem_count().checked_div(n).unwrap_or(0);
        // An empty row has a sum and no maximum; Candle's own code knows which.
        if n == 0 {
            return Ok(None);
        }
        let Some(x) = self.dense(&with_last(l, dims), WIDE)? else { return Ok(None) };
        let (Ok(num_rows), Ok(n)) = (u32::try_from(rows), u32::try_from(n)) else { return Ok(None) };
        self.computed_count(dtype_of_result, rows, |y| {
            reduce::reduce(&Reduce { reduction, dtype, rows: num_rows, n, x: x.ptr, y })
        })
    }
}

/// The same elements with these dimensions behind all others, in order.
fn with_last(l: &Layout, dims: &[usize]) -> Layout {
    let mut order: Vec<usize> = (0..l.dims().len()).filter(|dim| !dims.contains(dim)).collect();
    order.extend((0..l.dims().len()).filter(|dim| dims.contains(dim)));
    let shape: Vec<usize> = order.iter().map(|dim| l.dims()[*dim]).collect();
    let strides: Vec<usize> = order.iter().map(|dim| l.stride()[*dim]).collect();
    Layout::new(Shape::from(shape), strides, l.start_offset())
}
