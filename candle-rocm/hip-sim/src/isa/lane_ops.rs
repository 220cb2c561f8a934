//! What does each vector instruction compute in one lane? One row a mnemonic; names of gfx12 stand beside those of gfx11.

use super::arithmetic::*;
use super::operands::Kind;
use super::values::Value;
use crate::wave::{Lanes, NUM_LANES};
use half::f16;

pub type LaneFunction = Box<dyn Fn(&[&Lanes; 3], &mut Lanes) + Send + Sync>;

/// A function of one lane's inputs, applied to all 32.
pub struct LaneOp {
    pub sources: Vec<Kind>,
    pub result: Kind,
    /// Inputs that are not used are empty.
    pub run: LaneFunction,
}

fn one<A: Value, R: Value>(f: impl Fn(A) -> R + Send + Sync + 'static) -> LaneOp {
    let run = move |[a, _, _]: &[&Lanes; 3], out: &mut Lanes| {
        for lane in 0..NUM_LANES {
            out[lane] = f(A::from_register(a[lane])).to_register();
        }
    };
    LaneOp { sources: vec![A::KIND], result: R::KIND, run: Box::new(run) }
}

fn two<A: Value, B: Value, R: Value>(f: impl Fn(A, B) -> R + Send + Sync + 'static) -> LaneOp {
    let run = move |[a, b, _]: &[&Lanes; 3], out: &mut Lanes| {
        for lane in 0..NUM_LANES {
            out[lane] = f(A::from_register(a[lane]), B::from_register(b[lane])).to_register();
        }
    };
    LaneOp { sources: vec![A::KIND, B::KIND], result: R::KIND, run: Box::new(run) }
}

fn three<A: Value, B: Value, C: Value, R: Value>(f: impl Fn(A, B, C) -> R + Send + Sync + 'static) -> LaneOp {
    let run = move |[a, b, c]: &[&Lanes; 3], out: &mut Lanes| {
        for lane in 0..NUM_LANES {
            let (a, b, c) = (A::from_register(a[lane]), B::from_register(b[lane]), C::from_register(c[lane]));
            out[lane] = f(a, b, c).to_register();
        }
    };
    LaneOp { sources: vec![A::KIND, B::KIND, C::KIND], result: R::KIND, run: Box::new(run) }
}

/// The operation of a mnemonic without its encoding.
pub fn lookup(name: &str) -> Option<LaneOp> {
    float32(name)
        .or_else(|| float16(name))
        .or_else(|| conversion(name))
        .or_else(|| bits(name))
        .or_else(|| integer32(name))
        .or_else(|| integer24(name))
        .or_else(|| integer16(name))
}

fn float32(name: &str) -> Option<LaneOp> {
    Some(match name {
        "v_add_f32" => two(|a: f32, b: f32| a + b),
        "v_sub_f32" => two(|a: f32, b: f32| a - b),
        "v_subrev_f32" => two(|a: f32, b: f32| b - a),
        "v_mul_f32" => two(|a: f32, b: f32| a * b),
        "v_mul_dx9_zero_f32" => two(|a: f32, b: f32| if a == 0.0 || b == 0.0 { 0.0 } else { a * b }),
        "v_fma_f32" | "v_fmac_f32" | "v_fmaak_f32" | "v_fmamk_f32" => three(f32::mul_add),
        "v_max_f32" | "v_max_num_f32" => two(max_num),
        "v_min_f32" | "v_min_num_f32" => two(min_num),
        "v_maximum_f32" => two(maximum),
        "v_minimum_f32" => two(minimum),
        "v_max3_f32" | "v_max3_num_f32" => three(|a, b, c| max_num(max_num(a, b), c)),
        "v_min3_f32" | "v_min3_num_f32" => three(|a, b, c| min_num(min_num(a, b), c)),
        "v_maximum3_f32" => three(|a, b, c| maximum(maximum(a, b), c)),
        "v_minimum3_f32" => three(|a, b, c| minimum(minimum(a, b), c)),
        "v_maxmin_f32" | "v_maxmin_num_f32" => three(|a, b, c| min_num(max_num(a, b), c)),
        "v_minmax_f32" | "v_minmax_num_f32" => three(|a, b, c| max_num(min_num(a, b), c)),
        "v_med3_f32" | "v_med3_num_f32" => three(median),
        "v_rcp_f32" | "v_rcp_iflag_f32" => one(reciprocal),
        "v_rsq_f32" => one(reciprocal_sqrt),
        "v_sqrt_f32" => one(square_root),
        "v_exp_f32" => one(exp2),
        "v_log_f32" => one(log2),
        "v_floor_f32" => one(f32::floor),
        "v_ceil_f32" => one(f32::ceil),
        "v_trunc_f32" => one(f32::trunc),
        "v_rndne_f32" => one(f32::round_ties_even),
        "v_fract_f32" => one(fract),
        "v_ldexp_f32" => two(|a: f32, b: i32| ldexp(f64::from(a), b) as f32),
        "v_div_fixup_f32" => three(div_fixup_f32),
        _ => return None,
    })
}

/// Through f32, which rounds sums, products, quotients and roots of f16 as if computed exactly.
fn half1(f: impl Fn(f32) -> f32 + Send + Sync + 'static) -> LaneOp {
    one(move |a: f16| f16::from_f32(f(a.to_f32())))
}

fn half2(f: impl Fn(f32, f32) -> f32 + Send + Sync + 'static) -> LaneOp {
    two(move |a: f16, b: f16| f16::from_f32(f(a.to_f32(), b.to_f32())))
}

fn half3(f: impl Fn(f32, f32, f32) -> f32 + Send + Sync + 'static) -> LaneOp {
    three(move |a: f16, b: f16, c: f16| f16::from_f32(f(a.to_f32(), b.to_f32(), c.to_f32())))
}

/// Exact in f64 wherever the rounding to f16 could tell.
fn fma_f16(a: f16, b: f16, c: f16) -> f16 {
    f16::from_f64(a.to_f64().mul_add(b.to_f64(), c.to_f64()))
}

fn float16(name: &str) -> Option<LaneOp> {
    Some(match name {
        "v_add_f16" => half2(|a, b| a + b),
        "v_sub_f16" => half2(|a, b| a - b),
        "v_subrev_f16" => half2(|a, b| b - a),
        "v_mul_f16" => half2(|a, b| a * b),
        "v_fma_f16" | "v_fmac_f16" | "v_fmaak_f16" | "v_fmamk_f16" => three(fma_f16),
        "v_max_f16" | "v_max_num_f16" => half2(max_num),
        "v_min_f16" | "v_min_num_f16" => half2(min_num),
        "v_maximum_f16" => half2(maximum),
        "v_minimum_f16" => half2(minimum),
        "v_max3_f16" | "v_max3_num_f16" => half3(|a, b, c| max_num(max_num(a, b), c)),
        "v_min3_f16" | "v_min3_num_f16" => half3(|a, b, c| min_num(min_num(a, b), c)),
        "v_maxmin_f16" | "v_maxmin_num_f16" => half3(|a, b, c| min_num(max_num(a, b), c)),
        "v_minmax_f16" | "v_minmax_num_f16" => half3(|a, b, c| max_num(min_num(a, b), c)),
        "v_med3_f16" | "v_med3_num_f16" => half3(median),
        "v_rcp_f16" => half1(|a| 1.0 / a),
        "v_rsq_f16" => one(|a: f16| f16::from_f64(1.0 / a.to_f64().sqrt())),
        "v_sqrt_f16" => half1(f32::sqrt),
        "v_exp_f16" => one(|a: f16| f16::from_f64(a.to_f64().exp2())),
        "v_log_f16" => one(|a: f16| f16::from_f64(a.to_f64().log2())),
        "v_floor_f16" => half1(f32::floor),
        "v_ceil_f16" => half1(f32::ceil),
        "v_trunc_f16" => half1(f32::trunc),
        "v_rndne_f16" => half1(f32::round_ties_even),
        "v_fract_f16" => half1(|a| below_one(a - a.floor(), 0.999_511_7)),
        "v_div_fixup_f16" => half3(div_fixup_f32),
        _ => return None,
    })
}

fn pack(low: u32, high: u32) -> u32 {
    (low & 0xFFFF) | high << 16
}

/// The value that a signed 16-bit integer saturates to.
fn saturate_i16(x: f32) -> u32 {
    x as i16 as u16 as u32
}

fn conversion(name: &str) -> Option<LaneOp> {
    Some(match name {
        "v_cvt_f32_f16" => one(|a: f16| half_to_f32(a.to_bits())),
        "v_cvt_f16_f32" => one(f16::from_f32),
        "v_cvt_f32_i32" => one(|a: i32| a as f32),
        "v_cvt_f32_u32" => one(|a: u32| a as f32),
        "v_cvt_i32_f32" => one(|a: f32| a as i32),
        "v_cvt_u32_f32" => one(|a: f32| a as u32),
        "v_cvt_nearest_i32_f32" => one(|a: f32| (a + 0.5).floor() as i32),
        "v_cvt_floor_i32_f32" => one(|a: f32| a.floor() as i32),
        "v_cvt_f32_ubyte0" => one(|a: u32| (a & 0xFF) as f32),
        "v_cvt_f32_ubyte1" => one(|a: u32| (a >> 8 & 0xFF) as f32),
        "v_cvt_f32_ubyte2" => one(|a: u32| (a >> 16 & 0xFF) as f32),
        "v_cvt_f32_ubyte3" => one(|a: u32| (a >> 24) as f32),
        "v_cvt_f16_u16" => one(|a: u16| f16::from_f32(f32::from(a))),
        "v_cvt_f16_i16" => one(|a: i16| f16::from_f32(f32::from(a))),
        "v_cvt_u16_f16" => one(|a: f16| a.to_f32() as u16),
        "v_cvt_i16_f16" => one(|a: f16| a.to_f32() as i16),
        "v_cvt_i32_i16" => one(<i32 as From<i16>>::from),
        "v_cvt_u32_u16" => one(<u32 as From<u16>>::from),
        "v_cvt_pk_rtz_f16_f32" => two(|a: f32, b: f32| pack(to_f16_towards_zero(a), to_f16_towards_zero(b))),
        "v_cvt_pk_i16_f32" => two(|a: f32, b: f32| pack(saturate_i16(a), saturate_i16(b))),
        "v_cvt_pk_u16_f32" => two(|a: f32, b: f32| pack(u32::from(a as u16), u32::from(b as u16))),
        "v_cvt_pk_i16_i32" => two(|a: i32, b: i32| {
            let clamp = |x: i32| x.clamp(i32::from(i16::MIN), i32::from(i16::MAX)) as u32;
            pack(clamp(a), clamp(b))
        }),
        "v_cvt_pk_u16_u32" => two(|a: u32, b: u32| pack(a.min(0xFFFF), b.min(0xFFFF))),
        "v_cvt_pk_u8_f32" => three(|a: f32, byte: u32, old: u32| {
            let shift = 8 * (byte & 3);
            (old & !(0xFF << shift)) | u32::from(a as u8) << shift
        }),
        "v_pack_b32_f16" => two(|a: f16, b: f16| pack(u32::from(a.to_bits()), u32::from(b.to_bits()))),
        _ => return None,
    })
}

/// Exact, and without a branch, so that a loop over lanes becomes vector code.
#[inline(always)]
pub fn half_to_f32(bits: u16) -> f32 {
    let magnitude = u32::from(bits & 0x7FFF) << 13;
    // The exponent's bias differs by 112; multiplying also gives subnormals their value.
    let scaled = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
    let special = if magnitude >= 0x7C00 << 13 { 0x7F80_0000 } else { 0 };
    f32::from_bits(scaled | special | u32::from(bits & 0x8000) << 16)
}

fn bits(name: &str) -> Option<LaneOp> {
    Some(match name {
        "v_mov_b32" => one(|a: u32| a),
        "v_not_b32" => one(|a: u32| !a),
        "v_bfrev_b32" => one(u32::reverse_bits),
        "v_clz_i32_u32" => one(|a: u32| if a == 0 { u32::MAX } else { a.leading_zeros() }),
        "v_ctz_i32_b32" => one(|a: u32| if a == 0 { u32::MAX } else { a.trailing_zeros() }),
        "v_cls_i32" => one(count_sign_bits),
        "v_and_b32" => two(|a: u32, b: u32| a & b),
        "v_or_b32" => two(|a: u32, b: u32| a | b),
        "v_xor_b32" => two(|a: u32, b: u32| a ^ b),
        "v_xnor_b32" => two(|a: u32, b: u32| !(a ^ b)),
        "v_lshlrev_b32" => two(|a: u32, b: u32| b << (a & 31)),
        "v_lshrrev_b32" => two(|a: u32, b: u32| b >> (a & 31)),
        "v_ashrrev_i32" => two(|a: u32, b: i32| b >> (a & 31)),
        "v_bfm_b32" => two(|a: u32, b: u32| ((1u32 << (a & 31)) - 1) << (b & 31)),
        "v_bcnt_u32_b32" => two(|a: u32, b: u32| a.count_ones().wrapping_add(b)),
        "v_and_or_b32" => three(|a: u32, b: u32, c: u32| (a & b) | c),
        "v_or3_b32" => three(|a: u32, b: u32, c: u32| a | b | c),
        "v_xor3_b32" => three(|a: u32, b: u32, c: u32| a ^ b ^ c),
        "v_lshl_or_b32" => three(|a: u32, b: u32, c: u32| (a << (b & 31)) | c),
        "v_bfi_b32" => three(|a: u32, b: u32, c: u32| (a & b) | (!a & c)),
        "v_bfe_u32" => three(|a: u32, b: u32, c: u32| (a >> (b & 31)) & ((1u32 << (c & 31)) - 1)),
        "v_bfe_i32" => three(|a: i32, b: u32, c: u32| match c & 31 {
            0 => 0,
            width => ((a >> (b & 31)) << (32 - width)) >> (32 - width),
        }),
        "v_alignbit_b32" => three(|a: u32, b: u32, c: u32| ((u64::from(a) << 32 | u64::from(b)) >> (c & 31)) as u32),
        "v_alignbyte_b32" => {
            three(|a: u32, b: u32, c: u32| ((u64::from(a) << 32 | u64::from(b)) >> (8 * (c & 3))) as u32)
        }
        "v_perm_b32" => three(permute_bytes),
        "v_cndmask_b32" => three(|a: u32, b: u32, mask: bool| if mask { b } else { a }),
        "v_cndmask_b16" => three(|a: u16, b: u16, mask: bool| if mask { b } else { a }),
        _ => return None,
    })
}

fn mul_high(a: i64, b: i64) -> u32 {
    (a.wrapping_mul(b) >> 32) as u32
}

fn sum_of_differences(a: u32, b: u32, c: u32) -> u32 {
    let pairs = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    pairs.fold(c, |sum, (x, y)| sum.wrapping_add(u32::from(x.abs_diff(y))))
}

fn integer32(name: &str) -> Option<LaneOp> {
    Some(match name {
        "v_add_nc_u32" | "v_add_nc_i32" => two(u32::wrapping_add),
        "v_sub_nc_u32" | "v_sub_nc_i32" => two(u32::wrapping_sub),
        "v_subrev_nc_u32" => two(|a: u32, b: u32| b.wrapping_sub(a)),
        "v_mul_lo_u32" => two(u32::wrapping_mul),
        "v_mul_hi_u32" => two(|a: u32, b: u32| ((u64::from(a) * u64::from(b)) >> 32) as u32),
        "v_mul_hi_i32" => two(|a: i32, b: i32| mul_high(i64::from(a), i64::from(b))),
        "v_add3_u32" => three(|a: u32, b: u32, c: u32| a.wrapping_add(b).wrapping_add(c)),
        "v_lshl_add_u32" => three(|a: u32, b: u32, c: u32| (a << (b & 31)).wrapping_add(c)),
        "v_add_lshl_u32" => three(|a: u32, b: u32, c: u32| a.wrapping_add(b) << (c & 31)),
        "v_xad_u32" => three(|a: u32, b: u32, c: u32| (a ^ b).wrapping_add(c)),
        "v_max_u32" => two(<u32 as Ord>::max),
        "v_min_u32" => two(<u32 as Ord>::min),
        "v_max_i32" => two(<i32 as Ord>::max),
        "v_min_i32" => two(<i32 as Ord>::min),
        "v_max3_u32" => three(|a: u32, b: u32, c: u32| a.max(b).max(c)),
        "v_min3_u32" => three(|a: u32, b: u32, c: u32| a.min(b).min(c)),
        "v_max3_i32" => three(|a: i32, b: i32, c: i32| a.max(b).max(c)),
        "v_min3_i32" => three(|a: i32, b: i32, c: i32| a.min(b).min(c)),
        "v_med3_u32" => three(|a: u32, b: u32, c: u32| a.min(b).max(a.max(b).min(c))),
        "v_med3_i32" => three(|a: i32, b: i32, c: i32| a.min(b).max(a.max(b).min(c))),
        "v_maxmin_u32" => three(|a: u32, b: u32, c: u32| a.max(b).min(c)),
        "v_minmax_u32" => three(|a: u32, b: u32, c: u32| a.min(b).max(c)),
        "v_maxmin_i32" => three(|a: i32, b: i32, c: i32| a.max(b).min(c)),
        "v_minmax_i32" => three(|a: i32, b: i32, c: i32| a.min(b).max(c)),
        "v_sad_u8" => three(sum_of_differences),
        "v_sad_u32" => three(|a: u32, b: u32, c: u32| a.abs_diff(b).wrapping_add(c)),
        _ => return None,
    })
}

/// Operations on integers whose result stays within the type instead of wrapping.
pub fn lookup_saturating(name: &str) -> Option<LaneOp> {
    Some(match name {
        "v_add_nc_u32" => two(u32::saturating_add),
        "v_sub_nc_u32" => two(u32::saturating_sub),
        "v_subrev_nc_u32" => two(|a: u32, b: u32| b.saturating_sub(a)),
        "v_add_nc_i32" => two(i32::saturating_add),
        "v_sub_nc_i32" => two(i32::saturating_sub),
        _ => return None,
    })
}

fn low24(x: u32) -> u32 {
    x & 0xFF_FFFF
}

fn signed24(x: u32) -> i32 {
    (x << 8) as i32 >> 8
}

fn integer24(name: &str) -> Option<LaneOp> {
    Some(match name {
        "v_mul_u32_u24" => two(|a: u32, b: u32| low24(a).wrapping_mul(low24(b))),
        "v_mul_i32_i24" => two(|a: u32, b: u32| signed24(a).wrapping_mul(signed24(b))),
        "v_mul_hi_u32_u24" => two(|a: u32, b: u32| ((u64::from(low24(a)) * u64::from(low24(b))) >> 32) as u32),
        "v_mul_hi_i32_i24" => two(|a: u32, b: u32| mul_high(i64::from(signed24(a)), i64::from(signed24(b)))),
        "v_mad_u32_u24" => three(|a: u32, b: u32, c: u32| low24(a).wrapping_mul(low24(b)).wrapping_add(c)),
        "v_mad_i32_i24" => three(|a: u32, b: u32, c: i32| signed24(a).wrapping_mul(signed24(b)).wrapping_add(c)),
        _ => return None,
    })
}

fn integer16(name: &str) -> Option<LaneOp> {
    Some(match name {
        "v_add_nc_u16" | "v_add_nc_i16" => two(u16::wrapping_add),
        "v_sub_nc_u16" | "v_sub_nc_i16" => two(u16::wrapping_sub),
        "v_mul_lo_u16" => two(u16::wrapping_mul),
        "v_mad_u16" | "v_mad_i16" => three(|a: u16, b: u16, c: u16| a.wrapping_mul(b).wrapping_add(c)),
        "v_mad_u32_u16" => three(|a: u16, b: u16, c: u32| (u32::from(a) * u32::from(b)).wrapping_add(c)),
        "v_mad_i32_i16" => three(|a: i16, b: i16, c: i32| (i32::from(a) * i32::from(b)).wrapping_add(c)),
        "v_lshlrev_b16" => two(|a: u16, b: u16| b << (a & 15)),
        "v_lshrrev_b16" => two(|a: u16, b: u16| b >> (a & 15)),
        "v_ashrrev_i16" => two(|a: u16, b: i16| b >> (a & 15)),
        "v_and_b16" => two(|a: u16, b: u16| a & b),
        "v_or_b16" => two(|a: u16, b: u16| a | b),
        "v_xor_b16" => two(|a: u16, b: u16| a ^ b),
        "v_not_b16" => one(|a: u16| !a),
        "v_max_u16" => two(<u16 as Ord>::max),
        "v_min_u16" => two(<u16 as Ord>::min),
        "v_max_i16" => two(<i16 as Ord>::max),
        "v_min_i16" => two(<i16 as Ord>::min),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_has_the_value_that_the_half_crate_gives_it() {
        for bits in 0..=u16::MAX {
            let (ours, theirs) = (half_to_f32(bits), f16::from_bits(bits).to_f32());
            assert!(ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()), "{bits:#x}");
        }
    }
}
