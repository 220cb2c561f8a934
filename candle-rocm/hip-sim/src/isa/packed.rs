//! What do packed instructions compute? `v_pk_*` apply a 16-bit operation to both halves of each register; `v_fma_mix*`
//! take each input as an f32 or as a half of a register.

use super::lane_ops::{LaneOp, half_to_f32, lookup};
use super::operands::{Kind, Source};
use super::vector::{clamp_to_one, insert_half};
use super::{Context, Step};
use crate::asm::Line;
use crate::wave::{Flow, Lanes, NUM_LANES, Wave};
use half::f16;

pub fn build(line: &mut Line, _: &Context<'_>) -> Result<Option<Step>, String> {
    if line.mnemonic.starts_with("v_fma_mix") {
        return mix(line).map(Some);
    }
    let Some(op) = single_of(&line.mnemonic) else { return Ok(None) };
    packed(line, op).map(Some)
}

/// The 16-bit operation that a packed one applies twice.
fn single_of(mnemonic: &str) -> Option<LaneOp> {
    let name = mnemonic.strip_prefix("v_pk_")?;
    let name = match name {
        "add_u16" | "add_i16" => "add_nc_u16",
        "sub_u16" | "sub_i16" => "sub_nc_u16",
        _ => name,
    };
    lookup(&format!("v_{name}")).filter(|op| op.result.is_half())
}

/// Halves and signs of inputs, one bit for each input.
struct Modifiers {
    op_sel: u32,
    op_sel_hi: u32,
    neg_lo: u32,
    neg_hi: u32,
}

impl Modifiers {
    fn take(line: &mut Line, default_hi: u32) -> Modifiers {
        Modifiers {
            op_sel: line.take_bits("op_sel").unwrap_or(0),
            op_sel_hi: line.take_bits("op_sel_hi").unwrap_or(default_hi),
            neg_lo: line.take_bits("neg_lo").unwrap_or(0),
            neg_hi: line.take_bits("neg_hi").unwrap_or(0),
        }
    }
}

fn packed(line: &mut Line, op: LaneOp) -> Result<Step, String> {
    let modifiers = Modifiers::take(line, 0b111);
    let clamp = line.take_flag("clamp");
    if clamp && op.result != Kind::F16 {
        return Err("clamp of an integer result".to_string());
    }
    let target = line.vector_register(0)?;
    let low = half_sources(line, &op, modifiers.op_sel, modifiers.neg_lo)?;
    let high = half_sources(line, &op, modifiers.op_sel_hi, modifiers.neg_hi)?;
    Ok(Box::new(move |wave, _| {
        let (mut out, mut upper) = ([0; NUM_LANES], [0; NUM_LANES]);
        evaluate(&op, &low, wave, clamp, &mut out);
        evaluate(&op, &high, wave, clamp, &mut upper);
        for lane in 0..NUM_LANES {
            out[lane] = (out[lane] & 0xFFFF) | upper[lane] << 16;
        }
        wave.write(target, &out);
        Ok(Flow::Next)
    }))
}

fn half_sources(line: &Line, op: &LaneOp, selected: u32, negated: u32) -> Result<Vec<Source>, String> {
    let source = |(i, kind): (usize, &Kind)| {
        // The accumulator of `v_pk_fmac_f16` is its target.
        let operand = line.operand(if i + 1 < line.operands.len() { i + 1 } else { 0 })?;
        Source::half(operand, *kind, selected >> i & 1, negated >> i & 1 == 1, false)
    };
    op.sources.iter().enumerate().map(source).collect()
}

fn evaluate(op: &LaneOp, sources: &[Source], wave: &Wave, clamp: bool, out: &mut Lanes) {
    let mut inputs = [[0; NUM_LANES]; 3];
    for (i, source) in sources.iter().enumerate() {
        let mut buffer = [0; NUM_LANES];
        inputs[i] = *source.read(wave, &mut buffer);
    }
    (op.run)(&[&inputs[0], &inputs[1], &inputs[2]], out);
    if clamp {
        out.iter_mut().for_each(|value| *value = clamp_f16(*value));
    }
}

fn clamp_f16(bits: u32) -> u32 {
    let limited = clamp_to_one(f16::from_bits(bits as u16).to_f32());
    u32::from(f16::from_f32(limited).to_bits())
}

/// An input of a mixed multiply-add.
struct MixSource {
    source: Source,
    is_half: bool,
    neg: bool,
    abs: bool,
}

impl MixSource {
    #[inline]
    fn read(&self, wave: &Wave, out: &mut [f32; NUM_LANES]) {
        let mut buffer = [0; NUM_LANES];
        let lanes = self.source.read(wave, &mut buffer);
        for lane in 0..NUM_LANES {
            out[lane] = if self.is_half { half_to_f32(lanes[lane] as u16) } else { f32::from_bits(lanes[lane]) };
        }
        if self.abs {
            out.iter_mut().for_each(|x| *x = x.abs());
        }
        if self.neg {
            out.iter_mut().for_each(|x| *x = -*x);
        }
    }
}

#[derive(Clone, Copy)]
enum MixResult {
    Single,
    Half(u32),
}

/// `v_fma_mix_f32`, `v_fma_mixlo_f16`, `v_fma_mixhi_f16`: `op_sel_hi` says which inputs are halves, `op_sel` which half.
fn mix(line: &mut Line) -> Result<Step, String> {
    let modifiers = Modifiers::take(line, 0);
    let clamp = line.take_flag("clamp");
    let result = match line.mnemonic.as_str() {
        "v_fma_mix_f32" => MixResult::Single,
        "v_fma_mixlo_f16" => MixResult::Half(0),
        "v_fma_mixhi_f16" => MixResult::Half(1),
        _ => return Err("unknown mnemonic".to_string()),
    };
    let target = line.vector_register(0)?;
    let source = |i: usize| {
        let operand = line.operand(i + 1)?;
        let is_half = modifiers.op_sel_hi >> i & 1 == 1;
        let kind = if is_half { Kind::F16 } else { Kind::F32 };
        let source = Source::half(operand, kind, modifiers.op_sel >> i & 1, false, false)?;
        let neg = operand.neg || modifiers.neg_lo >> i & 1 == 1;
        let abs = operand.abs || modifiers.neg_hi >> i & 1 == 1;
        Ok::<_, String>(MixSource { source, is_half, neg, abs })
    };
    let (a, b, c) = (source(0)?, source(1)?, source(2)?);
    Ok(Box::new(move |wave, _| {
        let (mut x, mut y, mut z) = ([0.0; NUM_LANES], [0.0; NUM_LANES], [0.0; NUM_LANES]);
        a.read(wave, &mut x);
        b.read(wave, &mut y);
        c.read(wave, &mut z);
        for lane in 0..NUM_LANES {
            z[lane] = x[lane].mul_add(y[lane], z[lane]);
        }
        if clamp {
            z.iter_mut().for_each(|x| *x = clamp_to_one(*x));
        }
        write_mixed(wave, target, result, &z);
        Ok(Flow::Next)
    }))
}

#[inline]
fn write_mixed(wave: &mut Wave, target: usize, result: MixResult, values: &[f32; NUM_LANES]) {
    match result {
        MixResult::Single => wave.write(target, &values.map(f32::to_bits)),
        MixResult::Half(half) => {
            let mut out = values.map(|x| u32::from(f16::from_f32(x).to_bits()));
            insert_half(&wave.vgprs[target], half, &mut out);
            wave.write(target, &out);
        }
    }
}
