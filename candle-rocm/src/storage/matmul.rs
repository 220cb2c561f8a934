//! Matrix products. f16 and bf16 with enough rows go to the kernel of matrix instructions, which wants the second matrix with its
//! rows along k; the rest to the plain kernel, which takes any strides.

use candle_core::{Layout, Result};
use taper_kernels::gemm::{Gemm, Kind, gemm};
use taper_kernels::matmul::{Matmul, Matrix, matmul};

use super::{Computed, RocmStorage, float_dtype};

/// With fewer rows a matrix instruction is mostly idle, and a copy of the second matrix would cost more than it saves.
const FEWEST_ROWS: usize = 8;

type Sizes = (usize, usize, usize, usize);

impl RocmStorage {
    /// `[b, m, k]` by `[b, k, n]`.
    pub(super) fn product(&self, (other, other_l): (&Self, &Layout), bmnk: Sizes, l: &Layout) -> Computed {
        let (b, m, n, k) = bmnk;
        if b * m * n == 0 || k == 0 {
            let zeros = self.device.storage(self.dtype, b * m * n)?;
            self.device.fill_zero(&zeros.memory)?;
            return Ok(Some(zeros));
        }
        let kind = match self.dtype {
            candle_core::DType::F16 => Some(Kind::F16),
            candle_core::DType::BF16 => Some(Kind::Bf16),
            _ => None,
        };
        if let Some(kind) = kind.filter(|_| m >= FEWEST_ROWS)
            && let Some(product) = self.product_by_matrix_instructions(kind, (other, other_l), bmnk, l)?
        {
            return Ok(Some(product));
        }
        self.plain_product((other, other_l), bmnk, l)
    }

    fn product_by_matrix_instructions(
        &self,
        kind: Kind,
        (other, other_l): (&Self, &Layout),
        (batch, m, n, k): Sizes,
        l: &Layout,
    ) -> Computed {
        let Some(a) = self.dense(l, self.dtype.size_in_bytes() as u64)? else { return Ok(None) };
        let rank = other_l.dims().len();
        let along_k = other_l.transpose(rank - 2, rank - 1)?;
        let copy = if along_k.is_contiguous() { None } else { other.transposed(other_l)? };
        if copy.is_none() && !along_k.is_contiguous() {
            return Ok(None);
        }
        let b = copy.as_ref().map_or_else(|| other.at(other_l.start_offset()), |copy| copy.memory.ptr());
        let sizes = [batch, m, n, k].map(u32::try_from);
        let [Ok(batch), Ok(m), Ok(n), Ok(k)] = sizes else { return Ok(None) };
        let stride = |rows: u32, columns: u32| u64::from(rows) * u64::from(columns);
        let (stride_a, stride_b, stride_c) = (stride(m, k), stride(n, k), stride(m, n));
        self.computed_count(self.dtype, stride_c as usize * batch as usize, |c| {
            gemm(&Gemm { kind, batch, m, n, k, a: a.ptr, stride_a, b, stride_b, c, stride_c })
        })
    }

    fn plain_product(&self, (other, other_l): (&Self, &Layout), (batch, m, n, k): Sizes, l: &Layout) -> Computed {
        let Some(dtype) = float_dtype(self.dtype) else { return Ok(None) };
        let (Some(a), Some(b)) = (self.batch_of_matrices(l)?, other.batch_of_matrices(other_l)?) else {
            return Ok(None);
        };
        let count = batch * m * n;
        let sizes = [batch, m, n, k].map(u32::try_from);
        let [Ok(batch), Ok(m), Ok(n), Ok(k)] = sizes else { return Ok(None) };
        let ((a, _copy_a), (b, _copy_b)) = (a, b);
        self.computed_count(self.dtype, count, |c| matmul(&Matmul { dtype, batch, m, n, k, a, b, c }))
    }

    /// The matrices of a layout, whose batch dimensions are one; a copy where they are not.
    fn batch_of_matrices(&self, l: &Layout) -> Result<Option<(Matrix, Option<Self>)>> {
        let (dims, strides) = (l.dims(), l.stride());
        let rank = dims.len();
        if let Some(batch) = joined(&dims[..rank - 2], &strides[..rank - 2]) {
            let [row, column] = [strides[rank - 2], strides[rank - 1]].map(|stride| stride as u64);
            return Ok(Some((Matrix { ptr: self.at(l.start_offset()), row, column, batch }, None)));
        }
        let Some(copy) = self.copied(l)? else { return Ok(None) };
        let (rows, columns) = (dims[rank - 2] as u64, dims[rank - 1] as u64);
        let matrix = Matrix { ptr: copy.memory.ptr(), row: columns, column: 1, batch: rows * columns };
        Ok(Some((matrix, Some(copy))))
    }
}

/// The one stride of several dimensions, if they have one: that of the innermost.
fn joined(dims: &[usize], strides: &[usize]) -> Option<u64> {
    let mut run: Option<(usize, usize)> = None;
    for (&size, &stride) in dims.iter().zip(strides).rev().filter(|(size, _)| **size != 1) {
        run = match run {
            None => Some((size, stride)),
            Some((length, inner)) if stride == length * inner => Some((length * size, inner)),
            Some(_) => return None,
        };
    }
    Some(run.map_or(0, |(_, stride)| stride as u64))
}
