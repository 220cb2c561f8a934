//! What do scalar instructions compute? One row a mnemonic, on values that all lanes share; `scc` is the condition code.

use super::arithmetic::{
    count_sign_bits, exp2, log2, max_num, min_num, reciprocal, reciprocal_sqrt, square_root, to_f16_towards_zero,
};
use super::operands::{Kind, ScalarSource};
use super::values::WideValue;
use super::{Context, Step};
use crate::asm::{EXEC, Line};
use crate::wave::{Flow, Wave};
use half::f16;
use std::cmp::Ordering;

pub fn build(line: &mut Line, _: &Context<'_>) -> Result<Option<Step>, String> {
    if line.mnemonic.starts_with("v_s_") {
        return pseudo_scalar(line);
    }
    if !line.mnemonic.starts_with("s_") {
        return Ok(None);
    }
    for family in [moves, bitwise, integer, wide, float, saveexec] {
        if let Some(step) = family(line)? {
            return Ok(Some(step));
        }
    }
    comparison(line)
}

fn set<T: WideValue>(wave: &mut Wave, target: usize, value: T) {
    let bits = value.to_bits64();
    if T::KIND.is_wide() { wave.set_scalar64(target, bits) } else { wave.set_scalar(target, bits as u32) }
}

fn get<T: WideValue>(wave: &Wave, source: ScalarSource) -> T {
    T::from_bits64(if T::KIND.is_wide() { source.get64(wave) } else { u64::from(source.get(wave)) })
}

fn one<A: WideValue + 'static, R: WideValue>(
    line: &Line,
    f: impl Fn(A, &mut bool) -> R + Send + Sync + 'static,
) -> Result<Option<Step>, String> {
    let (target, a) = (line.scalar_register(0)?, ScalarSource::new(line.operand(1)?, A::KIND)?);
    Ok(Some(Box::new(move |wave, _| {
        let mut scc = wave.scc;
        let value = f(get(wave, a), &mut scc);
        wave.scc = scc;
        set(wave, target, value);
        Ok(Flow::Next)
    })))
}

fn two<A: WideValue + 'static, B: WideValue + 'static, R: WideValue>(
    line: &Line,
    f: impl Fn(A, B, &mut bool) -> R + Send + Sync + 'static,
) -> Result<Option<Step>, String> {
    let target = line.scalar_register(0)?;
    let (a, b) = (ScalarSource::new(line.operand(1)?, A::KIND)?, ScalarSource::new(line.operand(2)?, B::KIND)?);
    Ok(Some(Box::new(move |wave, _| {
        let mut scc = wave.scc;
        let value = f(get(wave, a), get(wave, b), &mut scc);
        wave.scc = scc;
        set(wave, target, value);
        Ok(Flow::Next)
    })))
}

/// Two inputs, and the condition code says whether the result is not zero.
fn two_nonzero<A: WideValue + 'static, B: WideValue + 'static, R: WideValue>(
    line: &Line,
    f: impl Fn(A, B) -> R + Send + Sync + 'static,
) -> Result<Option<Step>, String> {
    two(line, move |a: A, b: B, scc| {
        let value = f(a, b);
        *scc = value.to_bits64() != 0;
        value
    })
}

fn nonzero<T: WideValue>(value: T, scc: &mut bool) -> T {
    *scc = value.to_bits64() != 0;
    value
}

fn test<A: WideValue + 'static, B: WideValue + 'static>(
    line: &Line,
    f: impl Fn(A, B) -> bool + Send + Sync + 'static,
) -> Result<Option<Step>, String> {
    let (a, b) = (ScalarSource::new(line.operand(0)?, A::KIND)?, ScalarSource::new(line.operand(1)?, B::KIND)?);
    Ok(Some(Box::new(move |wave, _| {
        wave.scc = f(get(wave, a), get(wave, b));
        Ok(Flow::Next)
    })))
}

fn moves(line: &mut Line) -> Result<Option<Step>, String> {
    match line.mnemonic.as_str() {
        "s_mov_b32" => one(line, |a: u32, _| a),
        "s_mov_b64" => one(line, |a: u64, _| a),
        "s_cmov_b32" => conditional_move::<u32>(line),
        "s_cmov_b64" => conditional_move::<u64>(line),
        "s_movk_i32" => move_immediate(line),
        "s_cselect_b32" => two(line, |a: u32, b: u32, scc| if *scc { a } else { b }),
        "s_cselect_b64" => two(line, |a: u64, b: u64, scc| if *scc { a } else { b }),
        "s_addk_i32" | "s_addk_co_i32" => with_immediate(line, |a, b, scc| {
            let (sum, is_overflow) = a.overflowing_add(b);
            *scc = is_overflow;
            sum
        }),
        "s_mulk_i32" => with_immediate(line, |a, b, _| a.wrapping_mul(b)),
        _ => Ok(None),
    }
}

fn conditional_move<T: WideValue + 'static>(line: &Line) -> Result<Option<Step>, String> {
    let (target, source) = (line.scalar_register(0)?, ScalarSource::new(line.operand(1)?, T::KIND)?);
    Ok(Some(Box::new(move |wave, _| {
        if wave.scc {
            set(wave, target, get::<T>(wave, source));
        }
        Ok(Flow::Next)
    })))
}

/// The signed 16-bit immediate, which is printed as if it were unsigned.
fn immediate(line: &Line) -> Result<i32, String> {
    Ok(i32::from(super::operands::literal(&line.operand(1)?.place, Kind::B32)? as u16 as i16))
}

fn move_immediate(line: &Line) -> Result<Option<Step>, String> {
    let (target, value) = (line.scalar_register(0)?, immediate(line)? as u32);
    Ok(Some(Box::new(move |wave, _| {
        wave.set_scalar(target, value);
        Ok(Flow::Next)
    })))
}

fn with_immediate(line: &Line, f: fn(i32, i32, &mut bool) -> i32) -> Result<Option<Step>, String> {
    let (target, value) = (line.scalar_register(0)?, immediate(line)?);
    Ok(Some(Box::new(move |wave, _| {
        let mut scc = wave.scc;
        let result = f(wave.sgprs[target] as i32, value, &mut scc);
        wave.scc = scc;
        wave.set_scalar(target, result as u32);
        Ok(Flow::Next)
    })))
}

fn bitwise(line: &mut Line) -> Result<Option<Step>, String> {
    match line.mnemonic.as_str() {
        "s_and_b32" => two_nonzero(line, |a: u32, b: u32| a & b),
        "s_and_b64" => two_nonzero(line, |a: u64, b: u64| a & b),
        "s_or_b32" => two_nonzero(line, |a: u32, b: u32| a | b),
        "s_or_b64" => two_nonzero(line, |a: u64, b: u64| a | b),
        "s_xor_b32" => two_nonzero(line, |a: u32, b: u32| a ^ b),
        "s_xor_b64" => two_nonzero(line, |a: u64, b: u64| a ^ b),
        "s_nand_b32" => two_nonzero(line, |a: u32, b: u32| !(a & b)),
        "s_nor_b32" => two_nonzero(line, |a: u32, b: u32| !(a | b)),
        "s_xnor_b32" => two_nonzero(line, |a: u32, b: u32| !(a ^ b)),
        "s_and_not1_b32" => two_nonzero(line, |a: u32, b: u32| a & !b),
        "s_and_not1_b64" => two_nonzero(line, |a: u64, b: u64| a & !b),
        "s_or_not1_b32" => two_nonzero(line, |a: u32, b: u32| a | !b),
        "s_or_not1_b64" => two_nonzero(line, |a: u64, b: u64| a | !b),
        "s_not_b32" => one(line, |a: u32, scc| nonzero(!a, scc)),
        "s_not_b64" => one(line, |a: u64, scc| nonzero(!a, scc)),
        "s_brev_b32" => one(line, |a: u32, _| a.reverse_bits()),
        "s_brev_b64" => one(line, |a: u64, _| a.reverse_bits()),
        "s_bcnt1_i32_b32" => one(line, |a: u32, scc| nonzero(a.count_ones(), scc)),
        "s_bcnt1_i32_b64" => one(line, |a: u64, scc| nonzero(a.count_ones(), scc)),
        "s_bcnt0_i32_b32" => one(line, |a: u32, scc| nonzero(a.count_zeros(), scc)),
        "s_ctz_i32_b32" => one(line, |a: u32, _| if a == 0 { u32::MAX } else { a.trailing_zeros() }),
        "s_ctz_i32_b64" => one(line, |a: u64, _| if a == 0 { u32::MAX } else { a.trailing_zeros() }),
        "s_clz_i32_u32" => one(line, |a: u32, _| if a == 0 { u32::MAX } else { a.leading_zeros() }),
        "s_clz_i32_u64" => one(line, |a: u64, _| if a == 0 { u32::MAX } else { a.leading_zeros() }),
        "s_cls_i32" => one(line, |a: i32, _| count_sign_bits(a)),
        "s_lshl_b32" => two_nonzero(line, |a: u32, b: u32| a << (b & 31)),
        "s_lshl_b64" => two_nonzero(line, |a: u64, b: u32| a << (b & 63)),
        "s_lshr_b32" => two_nonzero(line, |a: u32, b: u32| a >> (b & 31)),
        "s_lshr_b64" => two_nonzero(line, |a: u64, b: u32| a >> (b & 63)),
        "s_ashr_i32" => two_nonzero(line, |a: i32, b: u32| a >> (b & 31)),
        "s_ashr_i64" => two_nonzero(line, |a: i64, b: u32| a >> (b & 63)),
        "s_bfm_b32" => two(line, |a: u32, b: u32, _| ((1u32 << (a & 31)) - 1) << (b & 31)),
        "s_bfm_b64" => two(line, |a: u32, b: u32, _| ((1u64 << (a & 63)) - 1) << (b & 63)),
        "s_bfe_u32" => two_nonzero(line, |a: u32, b: u32| (field(u64::from(a), b & 31, b >> 16 & 127, 32)) as u32),
        "s_bfe_u64" => two_nonzero(line, |a: u64, b: u32| field(a, b & 63, b >> 16 & 127, 64)),
        "s_bfe_i32" => two_nonzero(line, |a: i32, b: u32| signed_field(i64::from(a), b & 31, b >> 16 & 127, 32) as i32),
        "s_bfe_i64" => two_nonzero(line, |a: i64, b: u32| signed_field(a, b & 63, b >> 16 & 127, 64)),
        "s_bitset0_b32" => set_bit(line, |old, bit| old & !bit),
        "s_bitset1_b32" => set_bit(line, |old, bit| old | bit),
        "s_sext_i32_i8" => one(line, |a: u32, _| i32::from(a as i8)),
        "s_sext_i32_i16" => one(line, |a: u32, _| i32::from(a as i16)),
        "s_pack_ll_b32_b16" => two(line, |a: u32, b: u32, _| (a & 0xFFFF) | b << 16),
        "s_pack_lh_b32_b16" => two(line, |a: u32, b: u32, _| (a & 0xFFFF) | (b & 0xFFFF_0000)),
        "s_pack_hl_b32_b16" => two(line, |a: u32, b: u32, _| a >> 16 | b << 16),
        "s_pack_hh_b32_b16" => two(line, |a: u32, b: u32, _| a >> 16 | (b & 0xFFFF_0000)),
        _ => Ok(None),
    }
}

fn set_bit(line: &Line, f: fn(u32, u32) -> u32) -> Result<Option<Step>, String> {
    let (target, bit) = (line.scalar_register(0)?, ScalarSource::new(line.operand(1)?, Kind::B32)?);
    Ok(Some(Box::new(move |wave, _| {
        let value = f(wave.sgprs[target], 1 << (bit.get(wave) & 31));
        wave.set_scalar(target, value);
        Ok(Flow::Next)
    })))
}

/// `width` bits from bit `at` on, of a value of `size` bits.
fn field(value: u64, at: u32, width: u32, size: u32) -> u64 {
    let width = width.min(size);
    if width >= 64 { value >> at } else { value >> at & ((1 << width) - 1) }
}

fn signed_field(value: i64, at: u32, width: u32, size: u32) -> i64 {
    let width = width.min(size - at);
    if width == 0 { 0 } else { (value >> at) << (64 - width) >> (64 - width) }
}

fn integer(line: &mut Line) -> Result<Option<Step>, String> {
    match line.mnemonic.as_str() {
        "s_add_u32" | "s_add_co_u32" => two(line, |a: u32, b: u32, scc| with_flag(a.overflowing_add(b), scc)),
        "s_sub_u32" | "s_sub_co_u32" => two(line, |a: u32, b: u32, scc| with_flag(a.overflowing_sub(b), scc)),
        "s_add_i32" | "s_add_co_i32" => two(line, |a: i32, b: i32, scc| with_flag(a.overflowing_add(b), scc)),
        "s_sub_i32" | "s_sub_co_i32" => two(line, |a: i32, b: i32, scc| with_flag(a.overflowing_sub(b), scc)),
        "s_addc_u32" | "s_add_co_ci_u32" => two(line, |a: u32, b: u32, scc| {
            let sum = u64::from(a) + u64::from(b) + u64::from(*scc);
            with_flag((sum as u32, sum >> 32 != 0), scc)
        }),
        "s_subb_u32" | "s_sub_co_ci_u32" => two(line, |a: u32, b: u32, scc| {
            let subtrahend = u64::from(b) + u64::from(*scc);
            with_flag((a.wrapping_sub(subtrahend as u32), subtrahend > u64::from(a)), scc)
        }),
        "s_mul_i32" => two(line, |a: u32, b: u32, _| a.wrapping_mul(b)),
        "s_mul_hi_u32" => two(line, |a: u32, b: u32, _| ((u64::from(a) * u64::from(b)) >> 32) as u32),
        "s_mul_hi_i32" => two(line, |a: i32, b: i32, _| ((i64::from(a) * i64::from(b)) >> 32) as i32),
        "s_abs_i32" => one(line, |a: i32, scc| nonzero(a.wrapping_abs(), scc)),
        "s_absdiff_i32" => two_nonzero(line, |a: i32, b: i32| a.wrapping_sub(b).wrapping_abs()),
        "s_min_u32" => two(line, |a: u32, b: u32, scc| with_flag((a.min(b), a < b), scc)),
        "s_max_u32" => two(line, |a: u32, b: u32, scc| with_flag((a.max(b), a >= b), scc)),
        "s_min_i32" => two(line, |a: i32, b: i32, scc| with_flag((a.min(b), a < b), scc)),
        "s_max_i32" => two(line, |a: i32, b: i32, scc| with_flag((a.max(b), a >= b), scc)),
        "s_lshl1_add_u32" => two(line, |a: u32, b: u32, scc| shift_add(a, b, 1, scc)),
        "s_lshl2_add_u32" => two(line, |a: u32, b: u32, scc| shift_add(a, b, 2, scc)),
        "s_lshl3_add_u32" => two(line, |a: u32, b: u32, scc| shift_add(a, b, 3, scc)),
        "s_lshl4_add_u32" => two(line, |a: u32, b: u32, scc| shift_add(a, b, 4, scc)),
        _ => Ok(None),
    }
}

fn with_flag<T>((value, flag): (T, bool), scc: &mut bool) -> T {
    *scc = flag;
    value
}

fn shift_add(a: u32, b: u32, shift: u32, scc: &mut bool) -> u32 {
    let sum = (u64::from(a) << shift) + u64::from(b);
    *scc = sum >> 32 != 0;
    sum as u32
}

fn wide(line: &mut Line) -> Result<Option<Step>, String> {
    match line.mnemonic.as_str() {
        "s_add_nc_u64" => two(line, |a: u64, b: u64, _| a.wrapping_add(b)),
        "s_sub_nc_u64" => two(line, |a: u64, b: u64, _| a.wrapping_sub(b)),
        "s_mul_u64" => two(line, |a: u64, b: u64, _| a.wrapping_mul(b)),
        _ => Ok(None),
    }
}

/// Through f32, which rounds sums and products of f16 as if computed exactly. The upper half of the result is 0.
fn halves(line: &Line, f: fn(f32, f32) -> f32) -> Result<Option<Step>, String> {
    two(line, move |a: f16, b: f16, _| f16::from_f32(f(a.to_f32(), b.to_f32())))
}

fn float(line: &mut Line) -> Result<Option<Step>, String> {
    match line.mnemonic.as_str() {
        "s_add_f32" => two(line, |a: f32, b: f32, _| a + b),
        "s_sub_f32" => two(line, |a: f32, b: f32, _| a - b),
        "s_mul_f32" => two(line, |a: f32, b: f32, _| a * b),
        "s_max_f32" | "s_max_num_f32" => two(line, |a: f32, b: f32, _| max_num(a, b)),
        "s_min_f32" | "s_min_num_f32" => two(line, |a: f32, b: f32, _| min_num(a, b)),
        "s_fmac_f32" => accumulate(line),
        "s_fmaak_f32" | "s_fmamk_f32" => three_floats(line, f32::mul_add),
        "s_ceil_f32" => one(line, |a: f32, _| a.ceil()),
        "s_floor_f32" => one(line, |a: f32, _| a.floor()),
        "s_trunc_f32" => one(line, |a: f32, _| a.trunc()),
        "s_rndne_f32" => one(line, |a: f32, _| a.round_ties_even()),
        "s_cvt_f32_i32" => one(line, |a: i32, _| a as f32),
        "s_cvt_f32_u32" => one(line, |a: u32, _| a as f32),
        "s_cvt_i32_f32" => one(line, |a: f32, _| a as i32),
        "s_cvt_u32_f32" => one(line, |a: f32, _| a as u32),
        "s_cvt_f16_f32" => one(line, |a: f32, _| f16::from_f32(a)),
        "s_cvt_f32_f16" => one(line, |a: f16, _| a.to_f32()),
        "s_cvt_hi_f32_f16" => one(line, |a: u32, _| f16::from_bits((a >> 16) as u16).to_f32()),
        "s_cvt_pk_rtz_f16_f32" => two(line, |a: f32, b: f32, _| to_f16_towards_zero(a) | to_f16_towards_zero(b) << 16),
        "s_add_f16" => halves(line, |a, b| a + b),
        "s_sub_f16" => halves(line, |a, b| a - b),
        "s_mul_f16" => halves(line, |a, b| a * b),
        _ => Ok(None),
    }
}

/// Functions of the transcendental unit on scalars (gfx12), with the input modifiers of vector instructions.
fn pseudo_scalar(line: &mut Line) -> Result<Option<Step>, String> {
    let f: fn(f32) -> f32 = match line.mnemonic.as_str() {
        "v_s_exp_f32" => exp2,
        "v_s_log_f32" => log2,
        "v_s_rcp_f32" => reciprocal,
        "v_s_rsq_f32" => reciprocal_sqrt,
        "v_s_sqrt_f32" => square_root,
        _ => return Ok(None),
    };
    let (neg, abs) = (line.operand(1)?.neg, line.operand(1)?.abs);
    one(line, move |x: f32, _| {
        let x = if abs { x.abs() } else { x };
        f(if neg { -x } else { x })
    })
}

fn accumulate(line: &Line) -> Result<Option<Step>, String> {
    let target = line.scalar_register(0)?;
    let (a, b) = (ScalarSource::new(line.operand(1)?, Kind::F32)?, ScalarSource::new(line.operand(2)?, Kind::F32)?);
    Ok(Some(Box::new(move |wave, _| {
        let sum = get::<f32>(wave, a).mul_add(get(wave, b), f32::from_bits(wave.sgprs[target]));
        set(wave, target, sum);
        Ok(Flow::Next)
    })))
}

fn three_floats(line: &Line, f: fn(f32, f32, f32) -> f32) -> Result<Option<Step>, String> {
    let source = |i: usize| ScalarSource::new(line.operand(i)?, Kind::F32);
    let (target, a, b, c) = (line.scalar_register(0)?, source(1)?, source(2)?, source(3)?);
    Ok(Some(Box::new(move |wave, _| {
        let value = f(get(wave, a), get(wave, b), get(wave, c));
        set(wave, target, value);
        Ok(Flow::Next)
    })))
}

/// `s_and_saveexec_b32` and its kin: the old EXEC is kept in a register, the new one is a function of both.
fn saveexec(line: &mut Line) -> Result<Option<Step>, String> {
    let f: fn(u32, u32) -> u32 = match line.mnemonic.as_str() {
        "s_and_saveexec_b32" => |source, exec| source & exec,
        "s_or_saveexec_b32" => |source, exec| source | exec,
        "s_xor_saveexec_b32" => |source, exec| source ^ exec,
        "s_nand_saveexec_b32" => |source, exec| !(source & exec),
        "s_nor_saveexec_b32" => |source, exec| !(source | exec),
        "s_xnor_saveexec_b32" => |source, exec| !(source ^ exec),
        "s_and_not0_saveexec_b32" => |source, exec| !source & exec,
        "s_or_not0_saveexec_b32" => |source, exec| !source | exec,
        "s_and_not1_saveexec_b32" => |source, exec| source & !exec,
        "s_or_not1_saveexec_b32" => |source, exec| source | !exec,
        "s_and_not0_wrexec_b32" => return write_exec(line, |source, exec| !source & exec),
        "s_and_not1_wrexec_b32" => return write_exec(line, |source, exec| source & !exec),
        _ => return Ok(None),
    };
    let (target, source) = (line.scalar_register(0)?, ScalarSource::new(line.operand(1)?, Kind::B32)?);
    Ok(Some(Box::new(move |wave, _| {
        let old = wave.exec();
        let new = f(source.get(wave), old);
        wave.set_scalar(target, old);
        wave.set_scalar(EXEC, new);
        wave.scc = new != 0;
        Ok(Flow::Next)
    })))
}

/// The new EXEC goes to the register as well.
fn write_exec(line: &Line, f: fn(u32, u32) -> u32) -> Result<Option<Step>, String> {
    let (target, source) = (line.scalar_register(0)?, ScalarSource::new(line.operand(1)?, Kind::B32)?);
    Ok(Some(Box::new(move |wave, _| {
        let new = f(source.get(wave), wave.exec());
        wave.set_scalar(target, new);
        wave.set_scalar(EXEC, new);
        wave.scc = new != 0;
        Ok(Flow::Next)
    })))
}

fn comparison(line: &mut Line) -> Result<Option<Step>, String> {
    match line.mnemonic.clone().as_str() {
        "s_bitcmp0_b32" => return test(line, |a: u32, b: u32| a >> (b & 31) & 1 == 0),
        "s_bitcmp1_b32" => return test(line, |a: u32, b: u32| a >> (b & 31) & 1 == 1),
        "s_bitcmp0_b64" => return test(line, |a: u64, b: u32| a >> (b & 63) & 1 == 0),
        "s_bitcmp1_b64" => return test(line, |a: u64, b: u32| a >> (b & 63) & 1 == 1),
        _ => {}
    }
    let Some(rest) = line.mnemonic.strip_prefix("s_cmp_") else { return comparison_with_immediate(line) };
    let Some((relation, type_name)) = rest.rsplit_once('_') else { return Ok(None) };
    match type_name {
        "u32" => ordered::<u32>(line, relation),
        "i32" => ordered::<i32>(line, relation),
        "u64" => ordered::<u64>(line, relation),
        "f32" => partly_ordered::<f32>(line, relation),
        "f16" => partly_ordered::<f16>(line, relation),
        _ => Ok(None),
    }
}

fn ordered<T: WideValue + Ord + 'static>(line: &Line, relation: &str) -> Result<Option<Step>, String> {
    match relation {
        "eq" => test(line, |a: T, b: T| a == b),
        "lg" => test(line, |a: T, b: T| a != b),
        "lt" => test(line, |a: T, b: T| a < b),
        "le" => test(line, |a: T, b: T| a <= b),
        "gt" => test(line, |a: T, b: T| a > b),
        "ge" => test(line, |a: T, b: T| a >= b),
        _ => Ok(None),
    }
}

#[allow(clippy::neg_cmp_op_on_partial_ord)] // "Not less" is what `nlt` means: true for NaNs.
fn partly_ordered<T: WideValue + PartialOrd + 'static>(line: &Line, relation: &str) -> Result<Option<Step>, String> {
    match relation {
        "eq" => test(line, |a: T, b: T| a == b),
        "lg" => test(line, |a: T, b: T| a.partial_cmp(&b).is_some_and(Ordering::is_ne)),
        "lt" => test(line, |a: T, b: T| a < b),
        "le" => test(line, |a: T, b: T| a <= b),
        "gt" => test(line, |a: T, b: T| a > b),
        "ge" => test(line, |a: T, b: T| a >= b),
        "o" => test(line, |a: T, b: T| a.partial_cmp(&b).is_some()),
        "u" => test(line, |a: T, b: T| a.partial_cmp(&b).is_none()),
        "neq" => test(line, |a: T, b: T| a != b),
        "nlt" => test(line, |a: T, b: T| !(a < b)),
        "nle" => test(line, |a: T, b: T| !(a <= b)),
        "ngt" => test(line, |a: T, b: T| !(a > b)),
        "nge" => test(line, |a: T, b: T| !(a >= b)),
        "nlg" => test(line, |a: T, b: T| a.partial_cmp(&b).is_none_or(Ordering::is_eq)),
        _ => Ok(None),
    }
}

/// `s_cmpk_*`: the second input is a 16-bit immediate, with the sign of the type.
fn comparison_with_immediate(line: &mut Line) -> Result<Option<Step>, String> {
    let Some(rest) = line.mnemonic.strip_prefix("s_cmpk_") else { return Ok(None) };
    let Some((relation, type_name)) = rest.rsplit_once('_') else { return Ok(None) };
    let (relation, is_signed) = (relation.to_string(), type_name == "i32");
    let value = immediate(line)?;
    let value = if is_signed { i64::from(value) } else { i64::from(value as u16) };
    line.operands[1].place = crate::asm::Place::Int(value);
    if is_signed { ordered::<i32>(line, &relation) } else { ordered::<u32>(line, &relation) }
}
