//! How many waves of a kernel one SIMD holds at once: what hides the latency of memory.

use crate::metadata::{Kernel, Resources};

const MAX_WAVES: u32 = 16;
/// LDS of a work-group processor, which has four SIMDs.
const LDS_OF_FOUR_SIMDS: u32 = 128 << 10;

/// Vector registers of a SIMD, for 32 lanes each, and how many are handed out at once.
fn vgpr_file(target: &str) -> (u32, u32) {
    match target {
        "gfx1102" | "gfx1103" | "gfx1150" | "gfx1152" => (1024, 16),
        _ => (1536, 24),
    }
}

/// Waves of so many vector registers that a SIMD has room for, at most 16.
#[must_use]
pub fn waves_by_registers(target: &str, vgprs: u32) -> u32 {
    let (file, granule) = vgpr_file(target);
    (file / vgprs.max(1).next_multiple_of(granule)).min(MAX_WAVES)
}

/// Waves on a SIMD, at most 16, as limited by vector registers and LDS; nothing for PTX. `target` is like `gfx1151`.
#[must_use]
pub fn waves_per_simd(kernel: &Kernel, target: &str) -> Option<u32> {
    let Resources { vgprs, .. } = kernel.resources?;
    let by_registers = waves_by_registers(target, vgprs);
    let waves_per_block = kernel.max_block_threads.div_ceil(32);
    let by_lds = LDS_OF_FOUR_SIMDS.checked_div(kernel.lds).map_or(MAX_WAVES, |blocks| blocks * waves_per_block / 4);
    Some(by_registers.min(by_lds))
}
