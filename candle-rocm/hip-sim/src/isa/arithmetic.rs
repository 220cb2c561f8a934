//! What do the arithmetic instructions compute where Rust's operators do not say it? Minimum and maximum with NaNs,
//! functions that the hardware approximates, conversions with their own rounding, division steps.

use half::f16;

/// The larger number; a NaN only if both are; +0 above -0.
pub fn max_num(a: f32, b: f32) -> f32 {
    if a > b || b.is_nan() || (a == b && a.is_sign_positive()) { a } else { b }
}

pub fn min_num(a: f32, b: f32) -> f32 {
    if a < b || b.is_nan() || (a == b && a.is_sign_negative()) { a } else { b }
}

/// The larger number; a NaN if either is.
pub fn maximum(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() { f32::NAN } else { max_num(a, b) }
}

pub fn minimum(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() { f32::NAN } else { min_num(a, b) }
}

/// The middle one of three; with a NaN among them the smallest.
pub fn median(a: f32, b: f32, c: f32) -> f32 {
    if a.is_nan() || b.is_nan() || c.is_nan() {
        return min_num(min_num(a, b), c);
    }
    max_num(min_num(a, b), min_num(max_num(a, b), c))
}

/// Functions of the transcendental unit take and give subnormals as zeros, whatever the float mode says.
pub fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
}

pub fn reciprocal(x: f32) -> f32 {
    flush(1.0 / flush(x))
}

pub fn reciprocal_sqrt(x: f32) -> f32 {
    let x = flush(x);
    if x == 0.0 { f32::INFINITY.copysign(x) } else { (1.0 / f64::from(x).sqrt()) as f32 }
}

pub fn square_root(x: f32) -> f32 {
    flush(x).sqrt()
}

/// In f64 and without branches, so that a loop over lanes becomes vector code; right but for rare ties of rounding.
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    /// Adding it leaves the nearest integer in the low bits of an f64.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    /// ln(2)^k / k!
    const TERMS: [f64; 12] = [
        1.0,
        std::f64::consts::LN_2,
        0.240_226_506_959_100_7,
        0.055_504_108_664_821_58,
        0.009_618_129_107_628_477,
        0.001_333_355_814_642_844_3,
        1.540_353_039_338_161e-4,
        1.525_273_380_405_984e-5,
        1.321_548_679_014_431e-6,
        1.017_808_600_923_969_9e-7,
        7.054_911_620_801_123e-9,
        4.445_538_271_870_812e-10,
    ];
    let x = f64::from(flush(x)).clamp(-1000.0, 1000.0);
    let shifted = x + ROUND;
    let fraction = x - (shifted - ROUND);
    let power = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    let series = TERMS.iter().rev().fold(0.0, |sum: f64, term| sum.mul_add(fraction, *term));
    flush((series * power) as f32)
}

pub fn log2(x: f32) -> f32 {
    flush(flush(x).log2())
}

/// The fraction above the floor, always below 1.
pub fn fract(x: f32) -> f32 {
    below_one(x - x.floor(), 1.0 - f32::EPSILON / 2.0)
}

/// A fraction that rounding made 1 is the largest number below it.
pub fn below_one<T: PartialOrd + From<u8>>(fraction: T, largest: T) -> T {
    if fraction >= T::from(1) { largest } else { fraction }
}

/// The larger number; a NaN only if both are; +0 above -0.
pub fn max_num_f64(a: f64, b: f64) -> f64 {
    if a > b || b.is_nan() || (a == b && a.is_sign_positive()) { a } else { b }
}

pub fn min_num_f64(a: f64, b: f64) -> f64 {
    if a < b || b.is_nan() || (a == b && a.is_sign_negative()) { a } else { b }
}

/// `x * 2^exponent`, rounded once.
pub fn ldexp(x: f64, exponent: i32) -> f64 {
    let mut exponent = exponent.clamp(-2200, 2200);
    let mut x = x;
    // Powers of two outside the range of f64 are multiplied in steps; only the last one can round.
    while exponent > 1000 {
        x *= 2f64.powi(1000);
        exponent -= 1000;
    }
    while exponent < -900 && x.abs() >= 2f64.powi(-100) {
        x *= 2f64.powi(-900);
        exponent += 900;
    }
    if exponent < -1022 {
        x * 2f64.powi(-1022) * 2f64.powi((exponent + 1022).max(-1022))
    } else {
        x * 2f64.powi(exponent)
    }
}

/// f32 to f16, rounded towards zero.
pub fn to_f16_towards_zero(x: f32) -> u32 {
    let nearest = f16::from_f32(x);
    let is_too_large = nearest.to_f32().abs() > x.abs();
    // One less in magnitude is the next number towards zero; infinity becomes the largest finite one.
    u32::from(nearest.to_bits()) - u32::from(is_too_large)
}

/// Number of leading bits that are equal to the sign, or -1 where all are.
pub fn count_sign_bits(x: i32) -> i32 {
    let same = (x ^ (x >> 31)).leading_zeros() as i32;
    if same == 32 { -1 } else { same }
}

/// Bytes of `{high, low}` picked by the four selectors of the third operand.
pub fn permute_bytes(high: u32, low: u32, selectors: u32) -> u32 {
    let bytes = (u64::from(high) << 32 | u64::from(low)).to_le_bytes();
    let pick = |selector: u8| match selector {
        0..=7 => bytes[selector as usize],
        8..=11 => {
            // The sign of a 16-bit half, in all bits.
            let half = (selector - 8) as usize;
            if bytes[2 * half + 1] & 0x80 != 0 { 0xFF } else { 0 }
        }
        12 => 0,
        _ => 0xFF,
    };
    u32::from_le_bytes(selectors.to_le_bytes().map(pick))
}

/// The steps of a division that a reciprocal alone cannot do, for one float type.
macro_rules! division_steps {
    ($type:ty, $scale:ident, $fixup:ident, $fmas:ident, bits: $bits:expr, exponent: $mask:expr, power: $power:expr,
     far: $far:expr, tiny: $tiny:expr) => {
        /// `v_div_scale`: the numerator or denominator (`value` is one of them), scaled so that the quotient's steps
        /// neither overflow nor lose bits, and whether the quotient has to be scaled back.
        pub fn $scale(value: $type, denominator: $type, numerator: $type) -> ($type, bool) {
            let exponent = |x: $type| (x.to_bits() >> $bits & $mask) as i32;
            let up = |x: $type| x * <$type>::powi(2.0, $power);
            let up_if = |other: $type| if value.to_bits() == other.to_bits() { up(value) } else { value };
            if denominator == 0.0 || numerator == 0.0 {
                return (<$type>::NAN, false);
            }
            if exponent(numerator) - exponent(denominator) >= $far {
                return (up_if(denominator), true);
            }
            if denominator.is_subnormal() {
                return (up(value), false);
            }
            match ((1.0 / denominator).is_subnormal(), (numerator / denominator).is_subnormal()) {
                (true, true) => (up_if(denominator), true),
                (true, false) => (value * <$type>::powi(2.0, -$power), false),
                (false, true) => (up_if(numerator), true),
                (false, false) if exponent(numerator) <= $tiny => (up(value), false),
                (false, false) => (value, false),
            }
        }

        /// `v_div_fmas`: a multiply-add that undoes the scaling of one side. The estimate of the quotient says which.
        /// AMD's text multiplies by 2^32 (f32) or 2^64 (f64) always; but the scaling was by 2^64 and 2^128, up or
        /// down, and only undoing that gives correctly rounded quotients, which the test of division asks for.
        pub fn $fmas(a: $type, b: $type, c: $type, is_scaled: bool) -> $type {
            let result = a.mul_add(b, c);
            let is_large = (c.to_bits() >> $bits & $mask) > $mask / 2;
            match (is_scaled, is_large) {
                (false, _) => result,
                (true, true) => result * <$type>::powi(2.0, $power),
                (true, false) => result * <$type>::powi(2.0, -$power),
            }
        }

        /// `v_div_fixup`: the quotient, or what division gives for zeros, infinities and NaNs.
        pub fn $fixup(quotient: $type, denominator: $type, numerator: $type) -> $type {
            let is_negative = denominator.is_sign_negative() != numerator.is_sign_negative();
            let signed = |magnitude: $type| if is_negative { -magnitude } else { magnitude };
            let is_invalid = numerator.is_nan()
                || denominator.is_nan()
                || (numerator == 0.0 && denominator == 0.0)
                || (numerator.is_infinite() && denominator.is_infinite());
            if is_invalid {
                <$type>::NAN
            } else if denominator == 0.0 || numerator.is_infinite() {
                signed(<$type>::INFINITY)
            } else if numerator == 0.0 || denominator.is_infinite() {
                signed(0.0)
            } else if quotient.is_nan() {
                // The steps before have overflowed; the exponents say which way.
                let exponent = |x: $type| x.to_bits() >> $bits & $mask;
                signed(if exponent(numerator) > exponent(denominator) { <$type>::INFINITY } else { 0.0 })
            } else {
                signed(quotient.abs())
            }
        }
    };
}

division_steps!(f32, div_scale_f32, div_fixup_f32, div_fmas_f32, bits: 23, exponent: 0xFF, power: 64, far: 96, tiny: 23);
division_steps!(f64, div_scale_f64, div_fixup_f64, div_fmas_f64, bits: 52, exponent: 0x7FF, power: 128, far: 768, tiny: 53);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maximum_orders_zeros_and_prefers_numbers_to_nans() {
        assert!(max_num(-0.0, 0.0).is_sign_positive());
        assert!(min_num(0.0, -0.0).is_sign_negative());
        assert_eq!(max_num(f32::NAN, 1.0), 1.0);
        assert_eq!(max_num(1.0, f32::NAN), 1.0);
        assert!(maximum(1.0, f32::NAN).is_nan());
        assert_eq!(median(3.0, 1.0, 2.0), 2.0);
    }

    #[test]
    fn fractions_stay_below_one() {
        assert_eq!(fract(-1e-10), f32::from_bits(0x3F7F_FFFF));
        assert_eq!(fract(-1.25), 0.75);
    }

    #[test]
    fn f16_towards_zero_never_grows() {
        assert_eq!(to_f16_towards_zero(65535.9), u32::from(f16::MAX.to_bits()));
        assert_eq!(to_f16_towards_zero(-1.0009), u32::from(f16::from_f32(-1.0).to_bits()));
    }

    #[test]
    fn powers_of_two_are_multiplied_without_overflow_on_the_way() {
        assert_eq!(ldexp(5e-324, 1074), 1.0);
        assert_eq!(ldexp(1.0, -1074), 5e-324);
        assert_eq!(ldexp(1e300, -2100), 0.0);
        assert_eq!(ldexp(-1.0, 2000), f64::NEG_INFINITY);
    }

    #[test]
    fn selectors_pick_bytes_of_the_second_operand_first() {
        assert_eq!(permute_bytes(0x7766_5544, 0x3322_1180, 0x0C0D_0700), 0x00FF_7780);
    }
}
