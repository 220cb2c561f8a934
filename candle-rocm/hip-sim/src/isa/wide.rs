//! What do vector instructions on 64-bit values compute? Addresses, shifts and f64, in register pairs.

use super::arithmetic::{below_one, div_fixup_f64, ldexp, max_num_f64, min_num_f64};
use super::operands::{Kind, WideLanes, WideSource};
use super::values::WideValue;
use super::{Context, Step};
use crate::asm::Line;
use crate::wave::{Flow, NUM_LANES, Wave};

type WideFunction = Box<dyn Fn(&[WideLanes; 3], &mut WideLanes) + Send + Sync>;

struct WideOp {
    sources: Vec<Kind>,
    result: Kind,
    run: WideFunction,
}

fn one<A: WideValue, R: WideValue>(f: impl Fn(A) -> R + Send + Sync + 'static) -> WideOp {
    let run = move |[a, _, _]: &[WideLanes; 3], out: &mut WideLanes| {
        for lane in 0..NUM_LANES {
            out[lane] = f(A::from_bits64(a[lane])).to_bits64();
        }
    };
    WideOp { sources: vec![A::KIND], result: R::KIND, run: Box::new(run) }
}

fn two<A: WideValue, B: WideValue, R: WideValue>(f: impl Fn(A, B) -> R + Send + Sync + 'static) -> WideOp {
    let run = move |[a, b, _]: &[WideLanes; 3], out: &mut WideLanes| {
        for lane in 0..NUM_LANES {
            out[lane] = f(A::from_bits64(a[lane]), B::from_bits64(b[lane])).to_bits64();
        }
    };
    WideOp { sources: vec![A::KIND, B::KIND], result: R::KIND, run: Box::new(run) }
}

fn three_doubles(f: impl Fn(f64, f64, f64) -> f64 + Send + Sync + 'static) -> WideOp {
    let run = move |[a, b, c]: &[WideLanes; 3], out: &mut WideLanes| {
        for lane in 0..NUM_LANES {
            out[lane] = f(f64::from_bits(a[lane]), f64::from_bits(b[lane]), f64::from_bits(c[lane])).to_bits();
        }
    };
    WideOp { sources: vec![Kind::F64; 3], result: Kind::F64, run: Box::new(run) }
}

fn lookup(name: &str) -> Option<WideOp> {
    Some(match name {
        "v_lshlrev_b64" => two(|a: u32, b: u64| b << (a & 63)),
        "v_lshrrev_b64" => two(|a: u32, b: u64| b >> (a & 63)),
        "v_ashrrev_i64" => two(|a: u32, b: i64| b >> (a & 63)),
        "v_add_f64" => two(|a: f64, b: f64| a + b),
        "v_mul_f64" => two(|a: f64, b: f64| a * b),
        "v_fma_f64" => three_doubles(f64::mul_add),
        "v_div_fixup_f64" => three_doubles(div_fixup_f64),
        "v_max_f64" | "v_max_num_f64" => two(max_num_f64),
        "v_min_f64" | "v_min_num_f64" => two(min_num_f64),
        "v_ldexp_f64" => two(ldexp),
        "v_rcp_f64" => one(|a: f64| 1.0 / a),
        "v_rsq_f64" => one(|a: f64| 1.0 / a.sqrt()),
        "v_sqrt_f64" => one(f64::sqrt),
        "v_floor_f64" => one(f64::floor),
        "v_ceil_f64" => one(f64::ceil),
        "v_trunc_f64" => one(f64::trunc),
        "v_rndne_f64" => one(f64::round_ties_even),
        "v_fract_f64" => one(|a: f64| below_one(a - a.floor(), 1.0 - f64::EPSILON / 2.0)),
        "v_cvt_f64_f32" => one(<f64 as From<f32>>::from),
        "v_cvt_f32_f64" => one(|a: f64| a as f32),
        "v_cvt_f64_i32" => one(<f64 as From<i32>>::from),
        "v_cvt_f64_u32" => one(<f64 as From<u32>>::from),
        "v_cvt_i32_f64" => one(|a: f64| a as i32),
        "v_cvt_u32_f64" => one(|a: f64| a as u32),
        _ => return None,
    })
}

pub fn build(line: &mut Line, _: &Context<'_>) -> Result<Option<Step>, String> {
    // gfx12 calls what is encoded in two operands `v_add_f64` and the like; suffixes of the encoding are gone already.
    let Some(op) = lookup(&line.mnemonic) else { return Ok(None) };
    let target = line.vector_register(0)?;
    let mut sources = Vec::new();
    for (i, kind) in op.sources.iter().enumerate() {
        sources.push(WideSource::new(line.operand(i + 1)?, *kind)?);
    }
    Ok(Some(Box::new(move |wave, _| {
        let mut inputs = [[0; NUM_LANES]; 3];
        for (input, source) in inputs.iter_mut().zip(&sources) {
            source.read(wave, input);
        }
        let mut out = [0; NUM_LANES];
        (op.run)(&inputs, &mut out);
        match op.result.is_wide() {
            true => write_wide(wave, target, &out),
            false => wave.write(target, &out.map(|value| value as u32)),
        }
        Ok(Flow::Next)
    })))
}

/// Replaces the active lanes of a register pair.
pub fn write_wide(wave: &mut Wave, target: usize, values: &WideLanes) {
    wave.write(target, &values.map(|value| value as u32));
    wave.write(target + 1, &values.map(|value| (value >> 32) as u32));
}
