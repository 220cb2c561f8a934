//! How does a wave read memory into scalar registers? Kernel arguments and whatever all lanes share.

use super::operands::{Kind, ScalarSource};
use super::{Context, Step};
use crate::asm::Line;
use crate::wave::{Flow, NUM_LANES};

/// What a scalar load reads: whole words, or a part of one with its sign.
#[derive(Clone, Copy)]
enum Width {
    Words(u64),
    Part { len: u64, is_signed: bool },
}

pub fn build(line: &mut Line, _: &Context<'_>) -> Result<Option<Step>, String> {
    let mnemonic = line.mnemonic.clone();
    let (is_buffer, name) = match (mnemonic.strip_prefix("s_load_"), mnemonic.strip_prefix("s_buffer_load_")) {
        (Some(name), _) => (false, name),
        (_, Some(name)) => (true, name),
        _ => return Ok(None),
    };
    let Some(width) = width_named(name) else { return Ok(None) };
    load(line, width, is_buffer).map(Some)
}

fn width_named(name: &str) -> Option<Width> {
    Some(match name {
        "b32" => Width::Words(1),
        "b64" => Width::Words(2),
        "b96" => Width::Words(3),
        "b128" => Width::Words(4),
        "b256" => Width::Words(8),
        "b512" => Width::Words(16),
        "u8" => Width::Part { len: 1, is_signed: false },
        "i8" => Width::Part { len: 1, is_signed: true },
        "u16" => Width::Part { len: 2, is_signed: false },
        "i16" => Width::Part { len: 2, is_signed: true },
        _ => return None,
    })
}

fn load(line: &mut Line, width: Width, is_buffer: bool) -> Result<Step, String> {
    let (target, base) = (line.scalar_register(0)?, line.scalar_register(1)?);
    let offset = ScalarSource::new(line.operand(2)?, Kind::B32)?;
    let immediate = line.take_number("offset")?;
    Ok(Box::new(move |wave, group| {
        let mut address = wave.scalar64(base);
        if is_buffer {
            // A descriptor: 48 bits of address, and what else it says does not concern raw scalar loads.
            address = ((address << 16) as i64 >> 16) as u64;
        }
        let offset = match offset {
            // Register offsets are unsigned, those in the instruction signed.
            ScalarSource::Constant(value) => i64::from(value as u32 as i32),
            _ => i64::from(offset.get(wave)),
        };
        let address = address.wrapping_add_signed(offset + immediate);
        let len = match width {
            Width::Words(count) => 4 * count,
            Width::Part { len, .. } => len,
        };
        let address = if len >= 4 { address & !3 } else { address };
        let Some(allocation) = group.memory.find(address, len, &mut wave.last_allocation) else {
            return Err(group.memory.describe_miss("reads", address, len, None));
        };
        group.note(&[address; NUM_LANES], 1, len, false);
        let at = address - allocation.base;
        match width {
            Width::Words(count) => {
                for word in 0..count {
                    wave.set_scalar(target + word as usize, allocation.word(at + 4 * word));
                }
            }
            Width::Part { len, is_signed } => wave.set_scalar(target, extend(allocation.word(at), len, is_signed)),
        }
        Ok(Flow::Next)
    }))
}

fn extend(word: u32, len: u64, is_signed: bool) -> u32 {
    match (len, is_signed) {
        (1, false) => word & 0xFF,
        (1, true) => word as i8 as u32,
        (_, false) => word & 0xFFFF,
        (_, true) => word as i16 as u32,
    }
}
