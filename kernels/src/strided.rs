//! A strided tensor as kernels see it (`hip/strided.h`): few dimensions, and numbers that replace divisions.

use crate::ShapeError;

/// As in `hip/strided.h`.
const MAX_RANK: usize = 6;
const WORDS: usize = 1 + 5 * MAX_RANK;

/// Where elements lie: sizes and strides in elements, outermost dimension first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Strided {
    /// Innermost first. No size is 1, and no two neighbours could be one dimension.
    dims: Vec<(u64, u64)>,
}

impl Strided {
    /// Leaves out dimensions of one element and joins those that lie in one run.
    pub(crate) fn new(shape: &[usize], strides: &[usize]) -> Self {
        let mut dims: Vec<(u64, u64)> = Vec::with_capacity(shape.len());
        for (&size, &stride) in shape.iter().zip(strides).rev() {
            let (size, stride) = (size as u64, stride as u64);
            match dims.last_mut() {
                _ if size == 1 => {}
                Some(inner) if inner.0 * inner.1 == stride => inner.0 *= size,
                _ => dims.push((size, stride)),
            }
        }
        Self { dims }
    }

    pub(crate) fn is_contiguous(&self) -> bool {
        matches!(self.dims[..], [] | [(_, 1)])
    }

    /// The same bytes as elements that are `factor` times as large, if all runs and strides allow it.
    pub(crate) fn widened(&self, factor: u64) -> Option<Self> {
        let (&(size, stride), outer) = self.dims.split_first()?;
        let fits =
            stride == 1 && size.is_multiple_of(factor) && outer.iter().all(|(_, stride)| stride.is_multiple_of(factor));
        if !fits {
            return None;
        }
        let outer = outer.iter().map(|&(size, stride)| (size, stride / factor));
        let inner = Some((size / factor, 1)).filter(|(size, _)| *size > 1);
        Some(Self { dims: inner.into_iter().chain(outer).collect() })
    }

    /// The structure that kernels take by value.
    pub(crate) fn words(&self, op: &'static str) -> Result<[u32; WORDS], ShapeError> {
        let rank = self.dims.len();
        if rank > MAX_RANK {
            let rule = "at most 6 dimensions that do not lie in one run";
            return Err(ShapeError::Value { op, what: "the rank", value: rank as u64, rule });
        }
        let mut words = [0; WORDS];
        words[0] = rank as u32;
        for (&(size, stride), to) in self.dims.iter().zip(words[1..].chunks_exact_mut(5)) {
            // Sizes are below 2^31, as the number of elements is.
            let (multiplier, shift) = divider(size as u32);
            to.copy_from_slice(&[size as u32, multiplier, shift, stride as u32, (stride >> 32) as u32]);
        }
        Ok(words)
    }

    /// The structure that says "contiguous".
    pub(crate) fn contiguous_words() -> [u32; WORDS] {
        [0; WORDS]
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
        assert!(Strided::new(&[2, 1, 3, 4], &[12, 99, 4, 1]).is_contiguous());
        assert_eq!(Strided::new(&[2, 3, 4], &[24, 4, 1]).dims, [(12, 1), (2, 24)]);
        assert_eq!(Strided::new(&[4, 3], &[1, 4]).dims, [(3, 4), (4, 1)]);
    }

    #[test]
    fn widening_needs_every_run_and_stride_to_divide() {
        let rows = Strided::new(&[3, 8], &[12, 1]);
        assert_eq!(rows.widened(4).map(|wide| wide.dims), Some(vec![(2, 1), (3, 3)]));
        assert_eq!(rows.widened(8), None);
    }
}
