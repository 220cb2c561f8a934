//! Scalar mathematics written so that a compiler can vectorise the loops around it.

/// `a * b + c`, in one rounding where the target has the instruction; without it `mul_add` would be a library call.
#[inline(always)]
pub(crate) fn fma(a: f32, b: f32, c: f32) -> f32 {
    if cfg!(any(target_feature = "fma", target_arch = "aarch64")) { a.mul_add(b, c) } else { a * b + c }
}

/// `e^x` within 2 units in the last place over the normal range; 0 below it (and for -inf), infinity above it.
///
/// Splits `x = n ln 2 + r` with `|r| <= ln 2 / 2` (ln 2 in two parts, after Cody and Waite), takes the Taylor
/// polynomial of `e^r` and puts `n` into the exponent.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Adding and taking away 1.5 * 2^23 rounds to the nearest integer without a branch.
    const ROUND: f32 = 12_582_912.0;
    let clamped = x.clamp(-87.3, 88.7);
    let n = clamped * std::f32::consts::LOG2_E + ROUND - ROUND;
    let r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, clamped));
    let p = fma(r, 1.0 / 5040.0, 1.0 / 720.0);
    let p = fma(r, p, 1.0 / 120.0);
    let p = fma(r, p, 1.0 / 24.0);
    let p = fma(r, p, 1.0 / 6.0);
    let p = fma(r, p, 0.5);
    let p = fma(r, p, 1.0);
    let p = fma(r, p, 1.0);
    // Two factors, since 2^128 itself is not a number of this type.
    let half = (n as i32) >> 1;
    let scale = |n: i32| f32::from_bits(((n + 127) << 23) as u32);
    let value = p * scale(half) * scale(n as i32 - half);
    if x < -87.3 {
        0.0
    } else if x > 88.7 {
        f32::INFINITY
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::exp;

    #[test]
    fn exp_is_within_two_ulp_of_the_double_precision_one() {
        for i in -87_000..88_000 {
            let x = i as f32 / 1000.0;
            let exact = f64::from(x).exp();
            let error = (f64::from(exp(x)) - exact).abs() / exact;
            assert!(error < 2.0 * f64::from(f32::EPSILON), "exp({x}) = {} but {exact}", exp(x));
        }
    }

    #[test]
    fn exp_saturates() {
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(-1e30), 0.0);
        assert_eq!(exp(1e30), f32::INFINITY);
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f32::NAN).is_nan());
    }
}
