//! What does an instruction do? Turns each line of disassembly, once, into a closure with its operands resolved. The
//! files are families of instructions; each looks a mnemonic up and answers `None` where it is another family's.

mod arithmetic;
mod carry;
mod compare;
mod control;
mod dot;
mod dpp;
mod lane_ops;
mod lanes;
mod lds;
mod matrix;
mod memory;
mod operands;
mod packed;
mod scalar;
mod scalar_memory;
mod values;
mod vector;
mod wide;

pub use operands::{PRIVATE_APERTURE, SHARED_APERTURE};

use crate::asm::Line;
use crate::fault::Trap;
use crate::target::Generation;
use crate::wave::{Flow, Wave};
use crate::workgroup::Workgroup;
use std::collections::HashMap;

pub type Outcome = Result<Flow, Box<Trap>>;

/// One instruction, ready to run.
pub type Step = Box<dyn Fn(&mut Wave, &mut Workgroup<'_>) -> Outcome + Send + Sync>;

/// What an instruction can depend on besides its own text.
pub struct Context<'a> {
    pub generation: Generation,
    /// Offset in the code object of the instruction after this one.
    pub next_offset: u64,
    /// Index of the instruction at an offset in the code object.
    pub index_at: &'a HashMap<u64, u32>,
}

type Family = fn(&mut Line, &Context<'_>) -> Result<Option<Step>, String>;

const FAMILIES: [Family; 13] = [
    control::build,
    scalar::build,
    scalar_memory::build,
    vector::build,
    compare::build,
    carry::build,
    wide::build,
    packed::build,
    dot::build,
    lanes::build,
    memory::build,
    lds::build,
    matrix::build,
];

/// Translates the text of one instruction. The error says what about it is not supported.
pub fn translate(text: &str, context: &Context<'_>) -> Result<Step, String> {
    if let Some((first, second)) = text.split_once("::") {
        return vector::build_pair(first, second);
    }
    if control::has_no_effect(text.split_whitespace().next().unwrap_or_default()) {
        return Ok(Box::new(|wave, _| {
            wave.counts.idle += 1;
            Ok(Flow::Next)
        }));
    }
    let mut line = Line::parse(text)?;
    for family in FAMILIES {
        if let Some(step) = family(&mut line, context)? {
            line.finish()?;
            return Ok(step);
        }
    }
    Err("unknown mnemonic".to_string())
}
