//! What do the dot-product instructions compute? Sums of products of 4-bit, 8-bit or 16-bit elements of two registers.

use super::lane_ops::{LaneOp, half_to_f32};
use super::operands::{Kind, Source};
use super::values::Value;
use super::{Context, Step};
use crate::asm::Line;
use crate::wave::{Flow, Lanes, NUM_LANES};

pub fn build(line: &mut Line, _: &Context<'_>) -> Result<Option<Step>, String> {
    let Some(op) = lookup(line) else { return Ok(None) };
    // All of both registers takes part; that is how these modifiers say it.
    let (op_sel, op_sel_hi) = (line.take_bits("op_sel"), line.take_bits("op_sel_hi"));
    if op_sel.unwrap_or(0) != 0 || op_sel_hi.is_some_and(|bits| bits & 0b11 != 0b11) {
        return Err("op_sel of a dot product".to_string());
    }
    let target = line.vector_register(0)?;
    let mut sources = Vec::new();
    for (i, kind) in op.sources.iter().enumerate() {
        // `v_dot2acc` adds to its target.
        let operand = line.operand(if i + 1 < line.operands.len() { i + 1 } else { 0 })?;
        sources.push(Source::new(operand, *kind)?);
    }
    Ok(Some(Box::new(move |wave, _| {
        let (mut a, mut b, mut c) = ([0; NUM_LANES], [0; NUM_LANES], [0; NUM_LANES]);
        let mut out = [0; NUM_LANES];
        let inputs = [sources[0].read(wave, &mut a), sources[1].read(wave, &mut b), sources[2].read(wave, &mut c)];
        (op.run)(&inputs, &mut out);
        wave.write(target, &out);
        Ok(Flow::Next)
    })))
}

/// The operation of a mnemonic, with the signs and the clamp of the line's modifiers.
pub fn lookup(line: &mut Line) -> Option<LaneOp> {
    Some(match line.mnemonic.as_str() {
        "v_dot4_i32_iu8" => {
            let (signs, clamp) = (line.take_bits("neg_lo").unwrap_or(0), line.take_flag("clamp"));
            match (signs & 1 == 1, signs & 2 == 2) {
                (true, true) => integer(move |a, b, c| dot4(a, b, c, sign8, sign8, clamp)),
                (true, false) => integer(move |a, b, c| dot4(a, b, c, sign8, zero8, clamp)),
                (false, true) => integer(move |a, b, c| dot4(a, b, c, zero8, sign8, clamp)),
                (false, false) => integer(move |a, b, c| dot4(a, b, c, zero8, zero8, clamp)),
            }
        }
        "v_dot4_u32_u8" => {
            let clamp = line.take_flag("clamp");
            integer(move |a, b, c| saturate_u32(dot_sum(a, b, 8, false, false) + i64::from(c), clamp))
        }
        "v_dot8_i32_iu4" => {
            let (signs, clamp) = (line.take_bits("neg_lo").unwrap_or(0), line.take_flag("clamp"));
            integer(move |a, b, c| {
                saturate_i32(dot_sum(a, b, 4, signs & 1 == 1, signs & 2 == 2) + i64::from(c as i32), clamp)
            })
        }
        "v_dot8_u32_u4" => {
            let clamp = line.take_flag("clamp");
            integer(move |a, b, c| saturate_u32(dot_sum(a, b, 4, false, false) + i64::from(c), clamp))
        }
        "v_dot2_f32_f16" | "v_dot2acc_f32_f16" => float(Kind::F16, half_to_f32),
        "v_dot2_f32_bf16" => float(Kind::PairBf16, |bits| f32::from_bits(u32::from(bits) << 16)),
        _ => return None,
    })
}

fn integer(f: impl Fn(u32, u32, u32) -> u32 + Send + Sync + 'static) -> LaneOp {
    let run = move |[a, b, c]: &[&Lanes; 3], out: &mut Lanes| {
        for lane in 0..NUM_LANES {
            out[lane] = f(a[lane], b[lane], c[lane]);
        }
    };
    LaneOp { sources: vec![u32::KIND; 3], result: Kind::B32, run: Box::new(run) }
}

/// Two products added to the accumulator, the second first.
fn float(pair: Kind, element: impl Fn(u16) -> f32 + Send + Sync + 'static) -> LaneOp {
    let run = move |[a, b, c]: &[&Lanes; 3], out: &mut Lanes| {
        for lane in 0..NUM_LANES {
            let high = element((a[lane] >> 16) as u16) * element((b[lane] >> 16) as u16);
            let low = element(a[lane] as u16) * element(b[lane] as u16);
            out[lane] = (low + high + f32::from_bits(c[lane])).to_bits();
        }
    };
    LaneOp { sources: vec![pair, pair, Kind::F32], result: Kind::F32, run: Box::new(run) }
}

fn sign8(byte: u32) -> i32 {
    (byte << 24) as i32 >> 24
}

fn zero8(byte: u32) -> i32 {
    (byte & 0xFF) as i32
}

#[inline(always)]
fn dot4(a: u32, b: u32, c: u32, x: impl Fn(u32) -> i32, y: impl Fn(u32) -> i32, clamp: bool) -> u32 {
    let product = |shift: u32| x(a >> shift) * y(b >> shift);
    let sum = product(0) + product(8) + product(16) + product(24);
    if clamp { (c as i32).saturating_add(sum) as u32 } else { c.wrapping_add(sum as u32) }
}

/// The sum of products of all elements of `width` bits.
fn dot_sum(a: u32, b: u32, width: u32, is_a_signed: bool, is_b_signed: bool) -> i64 {
    let element = |x: u32, at: u32, is_signed: bool| {
        let top = x << (32 - width - at);
        if is_signed { i64::from(top as i32 >> (32 - width)) } else { i64::from(top >> (32 - width)) }
    };
    (0..32).step_by(width as usize).map(|at| element(a, at, is_a_signed) * element(b, at, is_b_signed)).sum()
}

fn saturate_i32(x: i64, clamp: bool) -> u32 {
    if clamp { x.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32 } else { x as u32 }
}

fn saturate_u32(x: i64, clamp: bool) -> u32 {
    if clamp { x.clamp(0, i64::from(u32::MAX)) as u32 } else { x as u32 }
}
