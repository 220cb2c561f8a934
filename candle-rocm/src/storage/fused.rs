//! Operations of candle-nn that are one kernel here: softmax of the last dimension, and RMS norm. They are known by name and
//! parameters; every other one runs itself.

use candle_core::custom::{BoxedStorage, Operand};
use candle_core::{CustomOp1, CustomOp2, Result, Shape};
use taper_kernels::norm::{RmsNorm, rms_norm};
use taper_kernels::softmax::{Softmax, softmax};

use super::{Computed, WIDE, float_dtype, of};

/// New elements and their shape, or nothing where the operation is not known.
type Known = Result<Option<(BoxedStorage, Shape)>>;

pub(crate) fn op1((x, l): Operand, op: &dyn CustomOp1) -> Known {
    match (op.name(), &op.params().numbers[..]) {
        ("softmax-last-dim", []) => known(softmax_last_dim((x, l)), l),
        _ => Ok(None),
    }
}

pub(crate) fn op2([(x, l), weight]: [Operand; 2], op: &dyn CustomOp2) -> Known {
    match (op.name(), &op.params().numbers[..]) {
        ("rms-norm", &[epsilon]) => known(rms_norm_of((x, l), weight, epsilon as f32), l),
        _ => Ok(None),
    }
}

fn known(computed: Computed, l: &candle_core::Layout) -> Known {
    Ok(computed?.map(|storage| (Box::new(storage) as BoxedStorage, l.shape().clone())))
}

fn softmax_last_dim((x, l): Operand) -> Computed {
    let x = of(x)?;
    let Some(dtype) = float_dtype(x.dtype) else { return Ok(None) };
    let Some((rows, n)) = rows(l) else { return Ok(None) };
    let Some(dense) = x.dense(l, WIDE)? else { return Ok(None) };
    x.computed(x.dtype, l, |y| softmax(&Softmax { dtype, rows, n, x: dense.ptr, y }))
}

fn rms_norm_of((x, l): Operand, (weight, weight_l): Operand, eps: f32) -> Computed {
    let (x, weight) = (of(x)?, of(weight)?);
    let Some(dtype) = float_dtype(x.dtype) else { return Ok(None) };
    let Some((rows, n)) = rows(l) else { return Ok(None) };
    // An operation of another crate may have the same name.
    if weight.dtype != x.dtype || weight_l.shape().elem_count() != n as usize {
        return Ok(None);
    }
    let (Some(dense), Some(weights)) = (x.dense(l, WIDE)?, weight.dense(weight_l, WIDE)?) else { return Ok(None) };
    let (x_ptr, weight) = (dense.ptr, weights.ptr);
    x.computed(x.dtype, l, |y| rms_norm(&RmsNorm { dtype, rows, n, eps, x: x_ptr, weight, y, residual: None }))
}

/// How many rows a tensor has, and how long they are.
fn rows(l: &candle_core::Layout) -> Option<(u32, u32)> {
    let n = *l.dims().last()?;
    let rows = l.shape().elem_count().checked_div(n)?;
    Some((u32::try_from(rows).ok()?, u32::try_from(n).ok()?))
}
