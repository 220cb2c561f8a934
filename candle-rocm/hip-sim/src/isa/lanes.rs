//! How do lanes see each other's values? Reads of one lane, permutations within and across rows, lane counting.

use super::operands::{Kind, ScalarSource, Source};
use super::{Context, Step};
use crate::asm::Line;
use crate::wave::{Flow, Lanes, NUM_LANES, Wave};

pub fn build(line: &mut Line, _: &Context<'_>) -> Result<Option<Step>, String> {
    let step = match line.mnemonic.as_str() {
        "v_readfirstlane_b32" => read_first_lane(line),
        "v_readlane_b32" => read_lane(line),
        "v_writelane_b32" => write_lane(line),
        "v_permlane16_b32" => permute_rows(line, 0),
        "v_permlanex16_b32" => permute_rows(line, 16),
        "v_permlane16_var_b32" => permute_rows_by_vector(line, 0),
        "v_permlanex16_var_b32" => permute_rows_by_vector(line, 16),
        "v_mbcnt_lo_u32_b32" => count_bits_below(line, |lane| (1u32 << lane) - 1),
        // All 32 lanes lie below the upper half of a mask of 64.
        "v_mbcnt_hi_u32_b32" => count_bits_below(line, |_| 0),
        "v_swap_b32" => swap(line),
        _ => return Ok(None),
    };
    step.map(Some)
}

fn read_first_lane(line: &Line) -> Result<Step, String> {
    let (target, source) = (line.scalar_register(0)?, Source::new(line.operand(1)?, Kind::B32)?);
    Ok(Box::new(move |wave, _| {
        // With no active lane it is lane 0.
        let lane = wave.exec().trailing_zeros() as usize % NUM_LANES;
        let value = source.read(wave, &mut [0; NUM_LANES])[lane];
        wave.set_scalar(target, value);
        Ok(Flow::Next)
    }))
}

fn read_lane(line: &Line) -> Result<Step, String> {
    let (target, source) = (line.scalar_register(0)?, Source::new(line.operand(1)?, Kind::B32)?);
    let lane = ScalarSource::new(line.operand(2)?, Kind::B32)?;
    Ok(Box::new(move |wave, _| {
        let value = source.read(wave, &mut [0; NUM_LANES])[lane.get(wave) as usize % NUM_LANES];
        wave.set_scalar(target, value);
        Ok(Flow::Next)
    }))
}

fn write_lane(line: &Line) -> Result<Step, String> {
    let (target, value) = (line.vector_register(0)?, ScalarSource::new(line.operand(1)?, Kind::B32)?);
    let lane = ScalarSource::new(line.operand(2)?, Kind::B32)?;
    Ok(Box::new(move |wave, _| {
        let lane = lane.get(wave) as usize % NUM_LANES;
        wave.vgprs[target][lane] = value.get(wave);
        Ok(Flow::Next)
    }))
}

/// Reads from the same row of 16 (`flip` 0) or the other one (16); selectors of 4 bits lie in two scalars.
fn permute_rows(line: &mut Line, flip: usize) -> Result<Step, String> {
    let low = ScalarSource::new(line.operand(2)?, Kind::B32)?;
    let high = ScalarSource::new(line.operand(3)?, Kind::B32)?;
    permute(line, flip, move |wave| {
        let selectors = u64::from(low.get(wave)) | u64::from(high.get(wave)) << 32;
        std::array::from_fn(|lane| (selectors >> (4 * (lane % 16))) as u32)
    })
}

/// As above, with each lane's selector in a vector register (gfx12).
fn permute_rows_by_vector(line: &mut Line, flip: usize) -> Result<Step, String> {
    let selectors = Source::new(line.operand(2)?, Kind::B32)?;
    permute(line, flip, move |wave| *selectors.read(wave, &mut [0; NUM_LANES]))
}

fn permute(
    line: &mut Line,
    flip: usize,
    selectors: impl Fn(&Wave) -> Lanes + Send + Sync + 'static,
) -> Result<Step, String> {
    let (target, source) = (line.vector_register(0)?, Source::new(line.operand(1)?, Kind::B32)?);
    // Bit 0: inactive lanes can be read. Bit 1: a lane whose source is inactive gets 0 and is written.
    let options = line.take_bits("op_sel").unwrap_or(0);
    Ok(Box::new(move |wave, _| {
        let exec = wave.exec();
        let readable = if options & 1 == 1 { u32::MAX } else { exec };
        let selectors = selectors(wave);
        let mut buffer = [0; NUM_LANES];
        let values = source.read(wave, &mut buffer);
        let (mut out, mut found) = ([0; NUM_LANES], 0);
        for (lane, value) in out.iter_mut().enumerate() {
            let from = ((lane & 16) ^ flip) + (selectors[lane] & 15) as usize;
            if readable >> from & 1 == 1 {
                *value = values[from];
                found |= 1 << lane;
            }
        }
        let written = if options & 2 == 2 { exec } else { exec & found };
        wave.write_masked(target, &out, written);
        Ok(Flow::Next)
    }))
}

fn count_bits_below(line: &Line, below: fn(usize) -> u32) -> Result<Step, String> {
    let target = line.vector_register(0)?;
    let (mask, base) = (Source::new(line.operand(1)?, Kind::B32)?, Source::new(line.operand(2)?, Kind::B32)?);
    Ok(Box::new(move |wave, _| {
        let (mut x, mut y) = ([0; NUM_LANES], [0; NUM_LANES]);
        let (mask, base) = (mask.read(wave, &mut x), base.read(wave, &mut y));
        let out = std::array::from_fn(|lane| (mask[lane] & below(lane)).count_ones().wrapping_add(base[lane]));
        wave.write(target, &out);
        Ok(Flow::Next)
    }))
}

fn swap(line: &Line) -> Result<Step, String> {
    let (first, second) = (line.vector_register(0)?, line.vector_register(1)?);
    Ok(Box::new(move |wave, _| {
        let (a, b) = (wave.vgprs[first], wave.vgprs[second]);
        wave.write(first, &b);
        wave.write(second, &a);
        Ok(Flow::Next)
    }))
}
