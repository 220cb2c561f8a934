//! Which GPUs can be simulated, and what does each say about itself? Numbers are those that a runtime reports, not those
//! that the interpreter needs: speed is not simulated.

/// The instruction set's generation; within one, targets differ only in instructions that the disassembler knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    Gfx11,
    Gfx12,
}

/// One GPU. Counts are of workgroup processors, since that is what the runtime calls multiprocessors on these GPUs.
#[derive(Debug)]
pub struct Target {
    pub name: &'static str,
    pub marketing_name: &'static str,
    pub generation: Generation,
    pub num_workgroup_processors: i32,
    pub is_integrated: bool,
    pub clock_khz: i32,
    pub memory_clock_khz: i32,
    pub memory_bus_bits: i32,
    pub l2_bytes: i32,
}

use Generation::{Gfx11, Gfx12};

/// The GPU that is simulated unless another is asked for.
pub const DEFAULT: &str = "gfx1151";

#[rustfmt::skip]
pub const TARGETS: [Target; 9] = [
    target("gfx1100", "Radeon RX 7900 XTX", Gfx11, 48, false, 2_500_000, 1_250_000, 384, 6 << 20),
    target("gfx1101", "Radeon RX 7800 XT",  Gfx11, 30, false, 2_430_000, 1_218_000, 256, 4 << 20),
    target("gfx1102", "Radeon RX 7600",     Gfx11, 16, false, 2_655_000, 1_125_000, 128, 2 << 20),
    target("gfx1103", "Radeon 780M",        Gfx11,  6, true,  2_700_000, 2_800_000, 128, 2 << 20),
    target("gfx1150", "Radeon 890M",        Gfx11,  8, true,  2_900_000, 3_750_000, 128, 2 << 20),
    target("gfx1151", "Radeon 8060S",       Gfx11, 20, true,  2_900_000, 4_000_000, 256, 2 << 20),
    target("gfx1152", "Radeon 860M",        Gfx11,  4, true,  3_000_000, 3_750_000, 128, 2 << 20),
    target("gfx1200", "Radeon RX 9060 XT",  Gfx12, 16, false, 3_130_000, 1_250_000, 128, 4 << 20),
    target("gfx1201", "Radeon RX 9070 XT",  Gfx12, 32, false, 2_970_000, 1_250_000, 256, 8 << 20),
];

#[allow(clippy::too_many_arguments)] // One row of the table above.
const fn target(
    name: &'static str,
    marketing_name: &'static str,
    generation: Generation,
    num_workgroup_processors: i32,
    is_integrated: bool,
    clock_khz: i32,
    memory_clock_khz: i32,
    memory_bus_bits: i32,
    l2_bytes: i32,
) -> Target {
    Target {
        name,
        marketing_name,
        generation,
        num_workgroup_processors,
        is_integrated,
        clock_khz,
        memory_clock_khz,
        memory_bus_bits,
        l2_bytes,
    }
}

impl Target {
    /// The target of a name such as `gfx1151`.
    pub fn named(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// Whether a code object for `name` runs here: the same target, or the generic one of the generation.
    pub fn runs(&self, name: &str) -> bool {
        let generic = match self.generation {
            Gfx11 => "gfx11-generic",
            Gfx12 => "gfx12-generic",
        };
        name == self.name || name == generic
    }

    /// Major, minor and stepping: `gfx1151` is 11, 5, 1.
    pub fn version(&self) -> (i32, i32, i32) {
        let digits: i32 = self.name[3..].parse().expect("names of targets are gfx and four digits");
        (digits / 100, digits / 10 % 10, digits % 10)
    }
}
