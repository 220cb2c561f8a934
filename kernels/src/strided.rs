//! Strided tensors of one shape as kernels see them (`hip/strided.h`): few dimensions, and numbers that replace divisions.

use crate::{Args, ShapeError};

/// As in `hip/strided.h`.
const MAX_RANK: usize = 6;
/// Tensors that a kernel takes at most.
const MAX_TENSORS: usize = 3;

/// Where elements of N tensors lie: sizes and strides in elements, outermost dimension first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Strided<const N: usize> {
    /// Innermost first. No size is 1, and no two neighbours could be one dimension.
    dims: Vec<(u64, [u64; N])>,
}

impl<const N: usize> Strided<N> {
    /// Leaves out dimensions of one element and joins those that lie in one run in every tensor.
    pub(crate) fn new(shape: &[usize], strides: [&[usize]; N]) -> Self {
        let mut dims: Vec<(u64, [u64; N])> = Vec::with_capacity(shape.len());
        for (dim, &size) in shape.iter().enumerate().rev() {
            let (size, strides) = (size as u64, strides.map(|strides| strides[dim] as u64));
            match dims.last_mut() {
                _ if size == 1 => {}
                Some(inner) if inner.1.map(|stride| stride * inner.0) == strides => inner.0 *= size,
                _ => dims.push((size, strides)),
            }
        }
        Self { dims }
    }

    pub(crate) fn is_contiguous(&self) -> bool {
        match self.dims[..] {
            [] => true,
            [(_, strides)] => strides == [1; N],
            _ => false,
        }
    }

    /// The same bytes as elements that are `factor` times as large, if all runs and strides allow it.
    pub(crate) fn widened(&self, factor: u64) -> Option<Self> {
        let (&(size, strides), outer) = self.dims.split_first()?;
        let divides = |strides: &[u64; N]| strides.iter().all(|stride| stride.is_multiple_of(factor));
        let fits =
            strides == [1; N] && size.is_multiple_of(factor) && outer.iter().all(|(_, strides)| divides(strides));
        if !fits {
            return None;
        }
        let outer = outer.iter().map(|&(size, strides)| (size, strides.map(|stride| stride / factor)));
        let inner = Some((size / factor, [1; N])).filter(|(size, _)| *size > 1);
        Some(Self { dims: inner.into_iter().chain(outer).collect() })
    }

    /// Adds the structure that kernels take by value; with `contiguous`, the one that says that all tensors are.
    pub(crate) fn add_to(&self, op: &'static str, args: Args, contiguous: bool) -> Result<Args, ShapeError> {
        let rank = self.dims.len();
        if rank > MAX_RANK {
            let rule = "at most 6 dimensions that do not lie in one run";
            return Err(ShapeError::Value { op, what: "the rank", value: rank as u64, rule });
        }
        let words_of_dim = 3 + 2 * N;
        let mut words = [0; 1 + MAX_RANK * (3 + 2 * MAX_TENSORS)];
        if !contiguous {
            words[0] = rank as u32;
            for ((size, strides), to) in self.dims.iter().zip(words[1..].chunks_exact_mut(words_of_dim)) {
                // Sizes are below 2^31, as the number of elements is.
                let (multiplier, shift) = divider(*size as u32);
                to[..3].copy_from_slice(&[*size as u32, multiplier, shift]);
                for (stride, to) in strides.iter().zip(to[3..].chunks_exact_mut(2)) {
                    to.copy_from_slice(&[*stride as u32, (stride >> 32) as u32]);
                }
            }
        }
        Ok(args.words(&words[..1 + MAX_RANK * words_of_dim]))
    }
}

/// `x / divisor == (high(x * multiplier) + x) >> shift` for every x below 2^31, where `high` is the product's upper
/// word.
fn divider(divisor: u32) -> (u32, u32) {
    let shift = divisor.next_power_of_two().trailing_zeros();
    let multiplier = ((1u64 << 32) * ((1u64 << shift) - u64::from(divisor)) / u64::from(divisor)) + 1;
    (multiplier as u32, shift)
}

/// Elements of the tensor, which kernels count in 31 bits.
pub(crate) fn count(op: &'static str, shape: &[usize]) -> Result<u32, ShapeError> {
    let count = shape.iter().try_fold(1u64, |count, &size| count.checked_mul(size as u64)).unwrap_or(u64::MAX);
    if count == 0 || count > i32::MAX as u64 {
        let rule = "it must be between 1 and 2147483647";
        return Err(ShapeError::Value { op, what: "the number of elements", value: count, rule });
    }
    Ok(count as u32)
}

#[cfg(test)]
mod tests {
    use super::{Strided, divider};

    #[test]
    fn a_divider_divides() {
        for divisor in (1..2000).chain([4096, 65535, 65537, 1 << 30, (1 << 31) - 1]) {
            let (multiplier, shift) = divider(divisor);
            for x in [0, 1, divisor - 1, divisor, divisor.saturating_add(1), 123_456_789, (1 << 31) - 1] {
                let high = ((u64::from(x) * u64::from(multiplier)) >> 32) as u32;
                assert_eq!((high + x) >> shift, x / divisor, "{x} / {divisor}");
            }
        }
    }

    #[test]
    fn dimensions_in_one_run_become_one() {
        assert!(Strided::new(&[2, 1, 3, 4], [&[12, 99, 4, 1]]).is_contiguous());
        assert_eq!(Strided::new(&[2, 3, 4], [&[24, 4, 1]]).dims, [(12, [1]), (2, [24])]);
        assert_eq!(Strided::new(&[4, 3], [&[1, 4]]).dims, [(3, [4]), (4, [1])]);
    }

    #[test]
    fn dimensions_are_joined_where_every_tensor_allows_it() {
        assert!(Strided::new(&[2, 3], [&[3, 1], &[3, 1]]).is_contiguous());
        assert_eq!(Strided::new(&[2, 3], [&[3, 1], &[0, 1]]).dims, [(3, [1, 1]), (2, [3, 0])]);
        assert_eq!(Strided::new(&[2, 3], [&[0, 0], &[3, 1]]).dims, [(6, [0, 1])]);
    }

    #[test]
    fn widening_needs_every_run_and_stride_to_divide() {
        let rows = Strided::new(&[3, 8], [&[12, 1]]);
        assert_eq!(rows.widened(4).map(|wide| wide.dims), Some(vec![(2, [1]), (3, [3])]));
        assert_eq!(rows.widened(8), None);
    }
}
