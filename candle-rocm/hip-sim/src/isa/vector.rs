//! How is a vector instruction executed? Reads the inputs of a lane operation, applies modifiers of the result, and
//! writes it under EXEC; alone, with a permuted input, or two at once (dual issue).

use super::dpp::Dpp;
use super::lane_ops::{LaneOp, lookup, lookup_saturating};
use super::operands::{Kind, Source};
use super::{Context, Step};
use crate::asm::Line;
use crate::wave::{Flow, Lanes, NUM_LANES, Wave};
use half::f16;

pub fn build(line: &mut Line, _: &Context<'_>) -> Result<Option<Step>, String> {
    let Some(op) = lookup(&line.mnemonic) else { return Ok(None) };
    let op = if op.result == Kind::B32 && line.take_flag("clamp") { saturating(&line.mnemonic)? } else { op };
    let dpp = Dpp::take(line)?;
    let compute = Compute::new(op, line)?;
    Ok(Some(match dpp {
        Some(dpp) => Box::new(move |wave, _| {
            compute.run_permuted(wave, &dpp);
            Ok(Flow::Next)
        }),
        None => Box::new(move |wave, _| {
            let mut out = [0; NUM_LANES];
            compute.evaluate(wave, &mut out);
            compute.finish(wave, &mut out);
            wave.write(compute.target, &out);
            Ok(Flow::Next)
        }),
    }))
}

/// What `clamp` makes of an operation on integers.
fn saturating(mnemonic: &str) -> Result<LaneOp, String> {
    lookup_saturating(mnemonic).ok_or_else(|| "clamp of an integer result".to_string())
}

/// Two instructions issued together: both read before either writes.
pub fn build_pair(first: &str, second: &str) -> Result<Step, String> {
    let (x, y) = (dual_half(first)?, dual_half(second)?);
    Ok(Box::new(move |wave, _| {
        let (mut out_x, mut out_y) = ([0; NUM_LANES], [0; NUM_LANES]);
        x.evaluate(wave, &mut out_x);
        y.evaluate(wave, &mut out_y);
        x.finish(wave, &mut out_x);
        y.finish(wave, &mut out_y);
        wave.write(x.target, &out_x);
        wave.write(y.target, &out_y);
        Ok(Flow::Next)
    }))
}

fn dual_half(text: &str) -> Result<Compute, String> {
    let mut line = Line::parse(&text.trim().replacen("v_dual_", "v_", 1))?;
    let op = lookup(&line.mnemonic)
        .or_else(|| super::dot::lookup(&mut line))
        .ok_or_else(|| format!("unknown mnemonic '{}' in a dual instruction", line.mnemonic))?;
    let compute = Compute::new(op, &mut line)?;
    line.finish()?;
    Ok(compute)
}

/// Multiplier of the result, and whether it is limited to 0..1.
#[derive(Clone, Copy, PartialEq)]
struct OutputModifiers {
    scale: f32,
    clamp: bool,
}

/// A lane operation with its operands.
pub struct Compute {
    op: LaneOp,
    sources: Vec<Source>,
    pub target: usize,
    /// Which half of the target a 16-bit result replaces.
    target_half: u32,
    output: OutputModifiers,
}

impl Compute {
    pub fn new(op: LaneOp, line: &mut Line) -> Result<Compute, String> {
        let target = line.vector_register(0)?;
        let op_sel = line.take_bits("op_sel").unwrap_or(0);
        let output = take_output_modifiers(line, op.result)?;
        let mut sources = Vec::new();
        for (i, kind) in op.sources.iter().enumerate() {
            sources.push(match line.operands.get(i + 1) {
                Some(operand) => Source::half(operand, *kind, op_sel >> i & 1, operand.neg, operand.abs)?,
                // The implicit last input: vcc of a selection, the target of an accumulation.
                None if i + 1 == op.sources.len() && *kind == Kind::Mask => Source::vcc(),
                None if i + 1 == op.sources.len() => Source::vector(target),
                None => {
                    return Err(format!(
                        "has {} inputs where {} are expected",
                        line.operands.len() - 1,
                        op.sources.len()
                    ));
                }
            });
        }
        if line.operands.len() > op.sources.len() + 1 {
            return Err(format!("has {} inputs where {} are expected", line.operands.len() - 1, op.sources.len()));
        }
        Ok(Compute { target_half: op_sel >> 3 & 1, op, sources, target, output })
    }

    /// The results of all lanes.
    #[inline]
    pub fn evaluate(&self, wave: &Wave, out: &mut Lanes) {
        let mut first = [0; NUM_LANES];
        self.evaluate_with(wave, self.sources[0].read(wave, &mut first), out);
    }

    /// As `evaluate`, with the first input given.
    #[inline]
    fn evaluate_with(&self, wave: &Wave, first: &Lanes, out: &mut Lanes) {
        match self.sources.as_slice() {
            [_] => (self.op.run)(&[first, &ZERO, &ZERO], out),
            [_, y] => (self.op.run)(&[first, y.read(wave, &mut [0; NUM_LANES]), &ZERO], out),
            [_, y, z] => {
                let (mut b, mut c) = ([0; NUM_LANES], [0; NUM_LANES]);
                (self.op.run)(&[first, y.read(wave, &mut b), z.read(wave, &mut c)], out);
            }
            _ => unreachable!("lane operations have one to three inputs"),
        }
    }

    fn run_permuted(&self, wave: &mut Wave, dpp: &Dpp) {
        let (mut buffer, mut out) = ([0; NUM_LANES], [0; NUM_LANES]);
        let (first, written) = dpp.apply(self.sources[0].read(wave, &mut buffer), wave.exec());
        self.evaluate_with(wave, &first, &mut out);
        self.finish(wave, &mut out);
        wave.write_masked(self.target, &out, written);
    }

    /// Applies what happens to a result between the operation and the register.
    #[inline]
    pub fn finish(&self, wave: &Wave, out: &mut Lanes) {
        if self.output != NO_MODIFIERS {
            self.output.apply(self.op.result, out);
        }
        if self.op.result.is_half() {
            insert_half(&wave.vgprs[self.target], self.target_half, out);
        }
    }
}

const ZERO: Lanes = [0; NUM_LANES];
const NO_MODIFIERS: OutputModifiers = OutputModifiers { scale: 1.0, clamp: false };

fn take_output_modifiers(line: &mut Line, result: Kind) -> Result<OutputModifiers, String> {
    let mul = line.take_number("mul")?.max(1);
    let div = line.take_number("div")?.max(1);
    let output = OutputModifiers { scale: mul as f32 / div as f32, clamp: line.take_flag("clamp") };
    if output != NO_MODIFIERS && !matches!(result, Kind::F32 | Kind::F16) {
        return Err("clamp of an integer result".to_string());
    }
    Ok(output)
}

/// Limits to 0..1; negative zero and NaN become 0, as on hardware.
pub fn clamp_to_one(x: f32) -> f32 {
    if x > 0.0 { x.min(1.0) } else { 0.0 }
}

impl OutputModifiers {
    fn apply(self, kind: Kind, out: &mut Lanes) {
        for value in out {
            let x = if kind == Kind::F16 { f16::from_bits(*value as u16).to_f32() } else { f32::from_bits(*value) };
            let scaled = x * self.scale;
            let limited = if self.clamp { clamp_to_one(scaled) } else { scaled };
            *value = if kind == Kind::F16 { u32::from(f16::from_f32(limited).to_bits()) } else { limited.to_bits() };
        }
    }
}

/// Results of 16 bits leave the other half of the register as it is.
pub fn insert_half(old: &Lanes, half: u32, out: &mut Lanes) {
    let shift = 16 * half;
    for lane in 0..NUM_LANES {
        out[lane] = (old[lane] & !(0xFFFF << shift)) | (out[lane] & 0xFFFF) << shift;
    }
}
