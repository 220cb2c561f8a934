//! Which vector instructions have a mask besides their result? Carries in and out, 64-bit multiply-add, and the steps of
//! a division, which carry "was scaled" from one to the next.

use super::arithmetic::{div_fmas_f32, div_fmas_f64, div_scale_f32, div_scale_f64};
use super::operands::{Kind, Source, WideLanes, WideSource};
use super::wide::write_wide;
use super::{Context, Step};
use crate::asm::{Line, VCC};
use crate::wave::{Flow, NUM_LANES, Wave, lanes_of};

pub fn build(line: &mut Line, _: &Context<'_>) -> Result<Option<Step>, String> {
    let step = match line.mnemonic.as_str() {
        "v_add_co_u32" | "v_add_co_ci_u32" => carry(line, |a, b, carry| {
            let sum = a.wrapping_add(b).wrapping_add(carry);
            (sum, ((a & b) | ((a | b) & !sum)) >> 31)
        }),
        "v_sub_co_u32" | "v_sub_co_ci_u32" => carry(line, borrow),
        "v_subrev_co_u32" | "v_subrev_co_ci_u32" => carry(line, |a, b, carry| borrow(b, a, carry)),
        "v_mad_u64_u32" | "v_mad_co_u64_u32" => {
            multiply_add(line, |a, b, c| (u64::from(a) * u64::from(b)).overflowing_add(c))
        }
        "v_mad_i64_i32" | "v_mad_co_i64_i32" => multiply_add(line, |a, b, c| {
            let product = i64::from(a as i32) * i64::from(b as i32);
            let (sum, is_overflow) = product.overflowing_add(c as i64);
            (sum as u64, is_overflow)
        }),
        "v_div_scale_f32" => scale_f32(line),
        "v_div_scale_f64" => scale_f64(line),
        "v_div_fmas_f32" => fmas_f32(line),
        "v_div_fmas_f64" => fmas_f64(line),
        _ => return Ok(None),
    };
    step.map(Some)
}

/// The carry out of the highest bit follows from the highest bits of inputs and result, which needs no wider type.
fn borrow(a: u32, b: u32, carry: u32) -> (u32, u32) {
    let difference = a.wrapping_sub(b).wrapping_sub(carry);
    (difference, ((!a & b) | ((!a | b) & difference)) >> 31)
}

/// `vdst, sdst, a, b[, carry in]`.
fn carry(line: &Line, f: impl Fn(u32, u32, u32) -> (u32, u32) + Send + Sync + 'static) -> Result<Step, String> {
    let (target, carry_out) = (line.vector_register(0)?, line.scalar_register(1)?);
    let a = Source::new(line.operand(2)?, Kind::B32)?;
    let b = Source::new(line.operand(3)?, Kind::B32)?;
    let carry_in = if line.mnemonic.contains("_ci_") { Some(line.scalar_register(4)?) } else { None };
    Ok(Box::new(move |wave, _| {
        let (mut x, mut y, mut out) = ([0; NUM_LANES], [0; NUM_LANES], [0; NUM_LANES]);
        let (a, b) = (a.read(wave, &mut x), b.read(wave, &mut y));
        let carry_in = carry_in.map_or(0, |register| wave.sgprs[register]);
        let mut carries = 0;
        for lane in 0..NUM_LANES {
            let (value, carry) = f(a[lane], b[lane], carry_in >> lane & 1);
            out[lane] = value;
            carries |= carry << lane;
        }
        wave.write(target, &out);
        wave.set_scalar(carry_out, carries & wave.exec());
        Ok(Flow::Next)
    }))
}

/// `vdst[2], sdst, a, b, c[2]`.
fn multiply_add(line: &Line, f: impl Fn(u32, u32, u64) -> (u64, bool) + Send + Sync + 'static) -> Result<Step, String> {
    let (target, carry_out) = (line.vector_register(0)?, line.scalar_register(1)?);
    let a = Source::new(line.operand(2)?, Kind::B32)?;
    let b = Source::new(line.operand(3)?, Kind::B32)?;
    let c = WideSource::new(line.operand(4)?, Kind::B64)?;
    Ok(Box::new(move |wave, _| {
        let (mut x, mut y, mut z): (_, _, WideLanes) = ([0; NUM_LANES], [0; NUM_LANES], [0; NUM_LANES]);
        let (a, b) = (a.read(wave, &mut x), b.read(wave, &mut y));
        c.read(wave, &mut z);
        let mut carries = 0;
        for lane in 0..NUM_LANES {
            let (value, carry) = f(a[lane], b[lane], z[lane]);
            z[lane] = value;
            carries |= u32::from(carry) << lane;
        }
        write_wide(wave, target, &z);
        wave.set_scalar(carry_out, carries & wave.exec());
        Ok(Flow::Next)
    }))
}

fn three_floats(line: &Line, first: usize) -> Result<[Source; 3], String> {
    let source = |i: usize| Source::new(line.operand(first + i)?, Kind::F32);
    Ok([source(0)?, source(1)?, source(2)?])
}

fn three_doubles(line: &Line, first: usize) -> Result<[WideSource; 3], String> {
    let source = |i: usize| WideSource::new(line.operand(first + i)?, Kind::F64);
    Ok([source(0)?, source(1)?, source(2)?])
}

fn read_floats(sources: &[Source; 3], wave: &Wave) -> [[f32; NUM_LANES]; 3] {
    sources.each_ref().map(|source| source.read(wave, &mut [0; NUM_LANES]).map(f32::from_bits))
}

fn read_doubles(sources: &[WideSource; 3], wave: &Wave) -> [[f64; NUM_LANES]; 3] {
    sources.each_ref().map(|source| {
        let mut lanes = [0; NUM_LANES];
        source.read(wave, &mut lanes);
        lanes.map(f64::from_bits)
    })
}

/// `vdst, sdst, value, denominator, numerator`.
fn scale_f32(line: &Line) -> Result<Step, String> {
    let (target, flags) = (line.vector_register(0)?, line.scalar_register(1)?);
    let sources = three_floats(line, 2)?;
    Ok(Box::new(move |wave, _| {
        let [value, denominator, numerator] = read_floats(&sources, wave);
        let (mut out, mut scaled) = ([0; NUM_LANES], 0);
        for lane in lanes_of(wave.exec()) {
            let (x, is_scaled) = div_scale_f32(value[lane], denominator[lane], numerator[lane]);
            out[lane] = x.to_bits();
            scaled |= u32::from(is_scaled) << lane;
        }
        wave.write(target, &out);
        wave.set_scalar(flags, scaled);
        Ok(Flow::Next)
    }))
}

fn scale_f64(line: &Line) -> Result<Step, String> {
    let (target, flags) = (line.vector_register(0)?, line.scalar_register(1)?);
    let sources = three_doubles(line, 2)?;
    Ok(Box::new(move |wave, _| {
        let [value, denominator, numerator] = read_doubles(&sources, wave);
        let (mut out, mut scaled) = ([0; NUM_LANES], 0);
        for lane in lanes_of(wave.exec()) {
            let (x, is_scaled) = div_scale_f64(value[lane], denominator[lane], numerator[lane]);
            out[lane] = x.to_bits();
            scaled |= u32::from(is_scaled) << lane;
        }
        write_wide(wave, target, &out);
        wave.set_scalar(flags, scaled);
        Ok(Flow::Next)
    }))
}

/// `vdst, a, b, c`, with vcc as the implicit "was scaled".
fn fmas_f32(line: &Line) -> Result<Step, String> {
    let target = line.vector_register(0)?;
    let sources = three_floats(line, 1)?;
    Ok(Box::new(move |wave, _| {
        let [a, b, c] = read_floats(&sources, wave);
        let scaled = wave.sgprs[VCC];
        let out =
            std::array::from_fn(|lane| div_fmas_f32(a[lane], b[lane], c[lane], scaled >> lane & 1 == 1).to_bits());
        wave.write(target, &out);
        Ok(Flow::Next)
    }))
}

fn fmas_f64(line: &Line) -> Result<Step, String> {
    let target = line.vector_register(0)?;
    let sources = three_doubles(line, 1)?;
    Ok(Box::new(move |wave, _| {
        let [a, b, c] = read_doubles(&sources, wave);
        let scaled = wave.sgprs[VCC];
        let out =
            std::array::from_fn(|lane| div_fmas_f64(a[lane], b[lane], c[lane], scaled >> lane & 1 == 1).to_bits());
        write_wide(wave, target, &out);
        Ok(Flow::Next)
    }))
}
