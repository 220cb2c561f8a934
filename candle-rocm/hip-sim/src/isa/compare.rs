//! Which lanes satisfy a comparison? `v_cmp` writes a bit for each active lane to a scalar register, `v_cmpx` to EXEC.

use super::dpp::Dpp;
use super::operands::{Kind, Source, WideSource};
use super::values::{Value, WideValue};
use super::{Context, Step};
use crate::asm::{EXEC, Line};
use crate::wave::{Flow, Lanes, NUM_LANES, Wave};
use half::f16;
use std::cmp::Ordering;

type Predicate = Box<dyn Fn(&Lanes, &Lanes) -> u32 + Send + Sync>;
type WidePredicate = Box<dyn Fn(&[u64; NUM_LANES], &[u64; NUM_LANES]) -> u32 + Send + Sync>;

pub fn build(line: &mut Line, _: &Context<'_>) -> Result<Option<Step>, String> {
    let mnemonic = line.mnemonic.clone();
    let (is_exec, rest) = match (mnemonic.strip_prefix("v_cmpx_"), mnemonic.strip_prefix("v_cmp_")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return Ok(None),
    };
    let Some((relation, type_name)) = rest.rsplit_once('_') else { return Ok(None) };
    let target = if is_exec { EXEC } else { line.scalar_register(0)? };
    let first = usize::from(!is_exec);
    if let Some((kind, predicate)) = wide_predicate(relation, type_name) {
        return wide(line, target, first, kind, predicate).map(Some);
    }
    let Some((kind, predicate)) = predicate(relation, type_name) else { return Ok(None) };
    narrow(line, target, first, kind, predicate).map(Some)
}

fn narrow(line: &mut Line, target: usize, first: usize, kind: Kind, predicate: Predicate) -> Result<Step, String> {
    let op_sel = line.take_bits("op_sel").unwrap_or(0);
    let dpp = Dpp::take(line)?;
    let second_kind = if line.mnemonic.contains("_class_") { Kind::B32 } else { kind };
    let operand = |i: usize, kind: Kind| {
        let operand = line.operand(first + i)?;
        Source::half(operand, kind, op_sel >> i & 1, operand.neg, operand.abs)
    };
    let (a, b) = (operand(0, kind)?, operand(1, second_kind)?);
    Ok(Box::new(move |wave, _| {
        let (mut x, mut y) = ([0; NUM_LANES], [0; NUM_LANES]);
        let right = b.read(wave, &mut y);
        let left = a.read(wave, &mut x);
        let mask = match &dpp {
            None => predicate(left, right) & wave.exec(),
            Some(dpp) => {
                let (permuted, written) = dpp.apply(left, wave.exec());
                predicate(&permuted, right) & written
            }
        };
        wave.set_scalar(target, mask);
        Ok(Flow::Next)
    }))
}

fn wide(line: &Line, target: usize, first: usize, kind: Kind, predicate: WidePredicate) -> Result<Step, String> {
    let second_kind = if line.mnemonic.contains("_class_") { Kind::B32 } else { kind };
    let a = WideSource::new(line.operand(first)?, kind)?;
    let b = WideSource::new(line.operand(first + 1)?, second_kind)?;
    Ok(Box::new(move |wave: &mut Wave, _| {
        let (mut x, mut y) = ([0; NUM_LANES], [0; NUM_LANES]);
        a.read(wave, &mut x);
        b.read(wave, &mut y);
        let mask = predicate(&x, &y) & wave.exec();
        wave.set_scalar(target, mask);
        Ok(Flow::Next)
    }))
}

fn predicate(relation: &str, type_name: &str) -> Option<(Kind, Predicate)> {
    match (relation, type_name) {
        ("class", "f32") => Some((Kind::F32, mask(|a: f32, b: u32| is_class(f64::from(a), a.is_subnormal(), b)))),
        ("class", "f16") => Some((Kind::F16, mask(|a: f16, b: u32| is_class(a.to_f64(), is_subnormal_f16(a), b)))),
        (_, "f32") => Some((Kind::F32, float_relation::<f32>(relation)?)),
        (_, "f16") => Some((Kind::F16, float_relation::<f16>(relation)?)),
        (_, "u32") => Some((Kind::B32, integer_relation::<u32>(relation)?)),
        (_, "i32") => Some((Kind::B32, integer_relation::<i32>(relation)?)),
        (_, "u16") => Some((Kind::B16, integer_relation::<u16>(relation)?)),
        (_, "i16") => Some((Kind::B16, integer_relation::<i16>(relation)?)),
        _ => None,
    }
}

fn mask<A: Value, B: Value>(f: impl Fn(A, B) -> bool + Send + Sync + 'static) -> Predicate {
    Box::new(move |a, b| {
        let mut mask = 0;
        for lane in 0..NUM_LANES {
            mask |= u32::from(f(A::from_register(a[lane]), B::from_register(b[lane]))) << lane;
        }
        mask
    })
}

fn integer_relation<T: Value + Ord + 'static>(relation: &str) -> Option<Predicate> {
    Some(match relation {
        "eq" => mask(|a: T, b: T| a == b),
        "ne" => mask(|a: T, b: T| a != b),
        "lt" => mask(|a: T, b: T| a < b),
        "le" => mask(|a: T, b: T| a <= b),
        "gt" => mask(|a: T, b: T| a > b),
        "ge" => mask(|a: T, b: T| a >= b),
        _ => return None,
    })
}

#[allow(clippy::neg_cmp_op_on_partial_ord)] // "Not less" is what `nlt` means: true for NaNs.
fn float_relation<T: Value + PartialOrd + 'static>(relation: &str) -> Option<Predicate> {
    Some(match relation {
        "eq" => mask(|a: T, b: T| a == b),
        "lt" => mask(|a: T, b: T| a < b),
        "le" => mask(|a: T, b: T| a <= b),
        "gt" => mask(|a: T, b: T| a > b),
        "ge" => mask(|a: T, b: T| a >= b),
        "lg" => mask(|a: T, b: T| a.partial_cmp(&b).is_some_and(Ordering::is_ne)),
        "o" => mask(|a: T, b: T| a.partial_cmp(&b).is_some()),
        "u" => mask(|a: T, b: T| a.partial_cmp(&b).is_none()),
        "neq" => mask(|a: T, b: T| a != b),
        "nlt" => mask(|a: T, b: T| !(a < b)),
        "nle" => mask(|a: T, b: T| !(a <= b)),
        "ngt" => mask(|a: T, b: T| !(a > b)),
        "nge" => mask(|a: T, b: T| !(a >= b)),
        "nlg" => mask(|a: T, b: T| a.partial_cmp(&b).is_none_or(Ordering::is_eq)),
        _ => return None,
    })
}

fn is_subnormal_f16(x: f16) -> bool {
    x.to_bits() & 0x7C00 == 0 && x.to_bits() & 0x3FF != 0
}

/// Whether a float is of one of the classes of a mask: NaNs are bits 0 and 1; then, from the most negative to the most
/// positive, infinity, normal, subnormal, zero, and their positive counterparts.
fn is_class(x: f64, is_subnormal: bool, classes: u32) -> bool {
    let is_negative = x.is_sign_negative();
    let class = if x.is_nan() {
        1
    } else if x.is_infinite() {
        if is_negative { 2 } else { 9 }
    } else if x == 0.0 {
        if is_negative { 5 } else { 6 }
    } else if is_subnormal {
        if is_negative { 4 } else { 7 }
    } else if is_negative {
        3
    } else {
        8
    };
    classes >> class & 1 == 1 || (x.is_nan() && classes & 0b11 != 0)
}

fn wide_predicate(relation: &str, type_name: &str) -> Option<(Kind, WidePredicate)> {
    match (relation, type_name) {
        ("class", "f64") => Some((Kind::F64, wide_mask(|a: f64, b: u32| is_class(a, a.is_subnormal(), b)))),
        (_, "f64") => Some((Kind::F64, wide_relation::<f64>(relation)?)),
        (_, "u64") => Some((Kind::B64, wide_relation::<u64>(relation)?)),
        (_, "i64") => Some((Kind::B64, wide_relation::<i64>(relation)?)),
        _ => None,
    }
}

fn wide_mask<A: WideValue, B: WideValue>(f: impl Fn(A, B) -> bool + Send + Sync + 'static) -> WidePredicate {
    Box::new(move |a, b| {
        let holds = |lane: usize| u32::from(f(A::from_bits64(a[lane]), B::from_bits64(b[lane])));
        (0..NUM_LANES).fold(0, |mask, lane| mask | holds(lane) << lane)
    })
}

#[allow(clippy::neg_cmp_op_on_partial_ord)] // As in `float_relation`.
fn wide_relation<T: WideValue + PartialOrd + 'static>(relation: &str) -> Option<WidePredicate> {
    Some(match relation {
        "eq" => wide_mask(|a: T, b: T| a == b),
        "ne" | "neq" => wide_mask(|a: T, b: T| a != b),
        "lt" => wide_mask(|a: T, b: T| a < b),
        "le" => wide_mask(|a: T, b: T| a <= b),
        "gt" => wide_mask(|a: T, b: T| a > b),
        "ge" => wide_mask(|a: T, b: T| a >= b),
        "lg" => wide_mask(|a: T, b: T| a.partial_cmp(&b).is_some_and(Ordering::is_ne)),
        "o" => wide_mask(|a: T, b: T| a.partial_cmp(&b).is_some()),
        "u" => wide_mask(|a: T, b: T| a.partial_cmp(&b).is_none()),
        "nlt" => wide_mask(|a: T, b: T| !(a < b)),
        "nle" => wide_mask(|a: T, b: T| !(a <= b)),
        "ngt" => wide_mask(|a: T, b: T| !(a > b)),
        "nge" => wide_mask(|a: T, b: T| !(a >= b)),
        "nlg" => wide_mask(|a: T, b: T| a.partial_cmp(&b).is_none_or(Ordering::is_eq)),
        _ => return None,
    })
}
