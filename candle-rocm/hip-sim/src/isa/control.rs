//! Where does a wave go next? Branches, calls, barriers, the end; and what has no effect here: waits, hints, caches.

use super::operands::{Kind, ScalarSource};
use super::{Context, Step};
use crate::asm::{EXEC, Line, VCC, parse_integer};
use crate::fault::Trap;
use crate::wave::{Flow, Wave};

#[rustfmt::skip]
/// Instructions that wait for what is complete here already, or that only concern timing and caches.
const NO_EFFECT: [&str; 22] = [
    "s_nop", "v_nop", "s_delay_alu", "s_clause", "s_waitcnt", "s_waitcnt_vscnt", "s_waitcnt_vmcnt", "s_waitcnt_lgkmcnt",
    "s_waitcnt_expcnt", "s_waitcnt_depctr", "s_set_inst_prefetch_distance", "s_sendmsg", "s_sleep", "s_setprio",
    "s_icache_inv", "s_wait_alu", "s_wait_idle", "buffer_gl0_inv", "buffer_gl1_inv", "global_inv", "global_wb", "global_wbinv",
];

/// Whether an instruction does nothing here. Operands of such have a syntax of their own, which is not read.
pub fn has_no_effect(mnemonic: &str) -> bool {
    NO_EFFECT.contains(&mnemonic) || mnemonic.starts_with("s_wait_") || mnemonic.starts_with("s_prefetch_")
}

pub fn build(line: &mut Line, context: &Context<'_>) -> Result<Option<Step>, String> {
    let mnemonic = line.mnemonic.as_str();
    let step: Step = match mnemonic {
        "s_endpgm" => Box::new(|_, _| Ok(Flow::End)),
        "s_code_end" => Box::new(|_, _| Err(Trap::new("ran past the end of the kernel"))),
        "s_trap" => Box::new(|_, _| Err(Trap::new("trap instruction (an assertion or unreachable code)"))),
        "s_barrier" => Box::new(|_, _| Ok(Flow::Barrier)),
        "s_barrier_signal" => signal(line)?,
        "s_barrier_wait" => Box::new(|wave, _| wait(wave)),
        "s_branch" => jump_if(line, context, |_| true)?,
        "s_cbranch_scc0" => jump_if(line, context, |wave| !wave.scc)?,
        "s_cbranch_scc1" => jump_if(line, context, |wave| wave.scc)?,
        "s_cbranch_vccz" => jump_if(line, context, |wave| wave.sgprs[VCC] == 0)?,
        "s_cbranch_vccnz" => jump_if(line, context, |wave| wave.sgprs[VCC] != 0)?,
        "s_cbranch_execz" => jump_if(line, context, |wave| wave.sgprs[EXEC] == 0)?,
        "s_cbranch_execnz" => jump_if(line, context, |wave| wave.sgprs[EXEC] != 0)?,
        "s_getpc_b64" => get_pc(line, context)?,
        "s_setpc_b64" => {
            let target = ScalarSource::new(line.operand(0)?, Kind::B64)?;
            Box::new(move |wave, group| group.jump_to(target.get64(wave)))
        }
        "s_swappc_b64" => call(line, context)?,
        "s_round_mode" => expect_mode(line, &["0x0", "0"])?,
        "s_denorm_mode" => denorm_mode(line)?,
        "s_setreg_imm32_b32" | "s_setreg_b32" => set_register(line)?,
        "s_getreg_b32" => get_register(line)?,
        _ => return Ok(None),
    };
    Ok(Some(step))
}

fn jump_if(
    line: &Line,
    context: &Context<'_>,
    condition: impl Fn(&Wave) -> bool + Send + Sync + 'static,
) -> Result<Step, String> {
    // A signed count of words, printed as if it were unsigned.
    let words = parse_integer(&line.rest).ok_or_else(|| format!("branch to '{}'", line.rest))? as u16 as i16;
    let offset = context.next_offset.wrapping_add_signed(i64::from(words) * 4);
    let index =
        *context.index_at.get(&offset).ok_or_else(|| format!("branch to {offset:#x}, where no instruction is"))?;
    Ok(Box::new(move |wave, _| Ok(if condition(wave) { Flow::Jump(index) } else { Flow::Next })))
}

/// Barrier -1 is the workgroup's; others have names, which nothing here allocates.
fn signal(line: &Line) -> Result<Step, String> {
    if line.rest != "-1" {
        return Err(format!("barrier '{}'", line.rest));
    }
    Ok(Box::new(|wave, _| {
        if std::mem::replace(&mut wave.has_signalled, true) {
            return Err(Trap::new("signals a barrier twice without waiting for it in between"));
        }
        Ok(Flow::Next)
    }))
}

fn wait(wave: &mut Wave) -> super::Outcome {
    if !std::mem::take(&mut wave.has_signalled) {
        return Err(Trap::new("waits at a barrier that it has not signalled"));
    }
    Ok(Flow::Barrier)
}

fn get_pc(line: &Line, context: &Context<'_>) -> Result<Step, String> {
    let (target, offset) = (line.scalar_register(0)?, context.next_offset);
    Ok(Box::new(move |wave, group| {
        wave.set_scalar64(target, group.code_base + offset);
        Ok(Flow::Next)
    }))
}

fn call(line: &Line, context: &Context<'_>) -> Result<Step, String> {
    let (link, offset) = (line.scalar_register(0)?, context.next_offset);
    let target = ScalarSource::new(line.operand(1)?, Kind::B64)?;
    Ok(Box::new(move |wave, group| {
        let address = target.get64(wave);
        wave.set_scalar64(link, group.code_base + offset);
        group.jump_to(address)
    }))
}

fn expect_mode(line: &Line, allowed: &[&str]) -> Result<Step, String> {
    if !allowed.contains(&line.rest.as_str()) {
        return Err(format!("rounding mode '{}': only to nearest even is supported", line.rest));
    }
    Ok(Box::new(|_, _| Ok(Flow::Next)))
}

/// Bits 0 and 1 keep subnormal f32 inputs and results, bits 2 and 3 those of f16 and f64.
const KEEP_SUBNORMALS: i64 = 0b1111;

/// The steps of a division set the mode to what it is here, and back.
fn denorm_mode(line: &Line) -> Result<Step, String> {
    match parse_integer(&line.rest) {
        Some(KEEP_SUBNORMALS) => Ok(Box::new(|_, _| Ok(Flow::Next))),
        _ => Err(format!("mode '{}' of subnormal numbers: only to keep them is supported", line.rest)),
    }
}

/// `hwreg(NAME, first bit, number of bits)`, where the bits are all when they are not given.
fn hardware_register(text: &str) -> Option<(&str, u32, u32)> {
    let inner = text.trim().strip_prefix("hwreg(")?.strip_suffix(')')?;
    let mut parts = inner.split(',').map(str::trim);
    let name = parts.next()?;
    let mut number = |default| parts.next().map_or(Some(default), |n| n.parse().ok());
    Some((name, number(0)?, number(32)?))
}

/// What a kernel may set is what is so already: rounding to nearest even, subnormals kept. Else it is refused.
fn set_register(line: &Line) -> Result<Step, String> {
    let refused = || format!("write of '{}'", line.rest);
    let (register, value) = line.rest.rsplit_once(',').ok_or_else(refused)?;
    if line.mnemonic == "s_setreg_b32" {
        return Err(refused());
    }
    let (register, value) =
        (hardware_register(register).ok_or_else(refused)?, parse_integer(value.trim()).ok_or_else(refused)?);
    match register {
        ("HW_REG_MODE" | "HW_REG_WAVE_MODE", 4, 2) if value == 0b11 => Ok(Box::new(|_, _| Ok(Flow::Next))),
        ("HW_REG_MODE" | "HW_REG_WAVE_MODE", 0, 4) if value == 0 => Ok(Box::new(|_, _| Ok(Flow::Next))),
        // How gfx12 schedules; no result depends on it.
        ("HW_REG_WAVE_SCHED_MODE", ..) => Ok(Box::new(|_, _| Ok(Flow::Next))),
        _ => Err(refused()),
    }
}

fn get_register(line: &Line) -> Result<Step, String> {
    let target = line.scalar_register(0)?;
    let text = line.rest.split_once(',').map_or("", |(_, register)| register);
    match hardware_register(text) {
        Some(("HW_REG_SHADER_CYCLES" | "HW_REG_SHADER_CYCLES_LO" | "HW_REG_SHADER_CYCLES_HI", ..)) => {
            Ok(Box::new(move |wave, _| {
                wave.set_scalar(target, 0);
                Ok(Flow::Next)
            }))
        }
        _ => Err(format!("read of '{text}'")),
    }
}
