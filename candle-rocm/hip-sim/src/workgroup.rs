//! How does one workgroup run? Its waves take turns from barrier to barrier, until all have ended.

use crate::asm::{EXEC, TTMP};
use crate::code_object::{
    DISPATCH_ID, DISPATCH_POINTER, Descriptor, KERNARG_POINTER, KernelCode, PRIVATE_BUFFER, PRIVATE_SIZE,
    QUEUE_POINTER, SCRATCH_INIT,
};
use crate::fault::{Fault, Trap};
use crate::isa::Outcome;
use crate::launch::Counts;
use crate::lds::Lds;
use crate::memory::Snapshot;
use crate::program::Program;
use crate::target::Generation;
use crate::touched::Recorder;
use crate::wave::{Flow, NUM_LANES, Wave};
use std::collections::HashMap;

/// What the waves of a workgroup share.
pub struct Workgroup<'a> {
    pub lds: &'a mut Lds,
    pub memory: &'a Snapshot,
    /// Device address of the code object.
    pub code_base: u64,
    index_at: &'a HashMap<u64, u32>,
    recorder: Option<&'a Recorder>,
}

impl Workgroup<'_> {
    /// Says what the active lanes touch of device memory, where somebody wants to know.
    #[inline]
    pub fn note(&self, addresses: &[u64; NUM_LANES], exec: u32, len: u64, is_write: bool) {
        if let Some(recorder) = self.recorder {
            recorder.add(addresses, exec, len, is_write);
        }
    }

    /// To the instruction at a device address.
    pub fn jump_to(&self, address: u64) -> Outcome {
        match self.index_at.get(&address.wrapping_sub(self.code_base)) {
            Some(index) => Ok(Flow::Jump(*index)),
            None => Err(Trap::new(format!("jumps to {address:#x}, where no instruction is"))),
        }
    }
}

/// What all workgroups of a launch have in common.
pub struct Launch<'a> {
    pub program: &'a Program,
    pub kernel: &'a KernelCode,
    pub block: [u32; 3],
    /// Device address of the kernel's arguments.
    pub kernarg: u64,
    /// Device address of the dispatch packet.
    pub dispatch: u64,
    pub memory: &'a Snapshot,
    /// Instructions that one wave may execute.
    pub budget: u64,
    /// Decides in which order waves run between barriers.
    pub seed: u64,
    /// Where to say what is touched.
    pub recorder: Option<&'a Recorder>,
}

impl Launch<'_> {
    fn num_threads(&self) -> u32 {
        self.block.iter().product()
    }

    /// Runs one workgroup; returns what its waves did.
    pub fn run(&self, id: [u32; 3], lds: &mut Lds) -> Result<Counts, Box<Fault>> {
        lds.reset();
        let program = self.program;
        let mut group = Workgroup {
            lds,
            memory: self.memory,
            code_base: program.base,
            index_at: &program.index_at,
            recorder: self.recorder,
        };
        let num_waves = self.num_threads().div_ceil(NUM_LANES as u32);
        let mut waves: Vec<Wave> = (0..num_waves).map(|index| self.wave(index, id)).collect();
        let mut states = vec![Flow::Next; waves.len()];
        let mut budgets = vec![self.budget; waves.len()];
        let mut round = 0;
        loop {
            for i in wave_order(waves.len(), self.seed, round) {
                if states[i] != Flow::End {
                    let flow = run_wave(program, &mut waves[i], &mut group, &mut budgets[i]);
                    states[i] = flow.map_err(|trap| self.fault(id, &waves[i], waves[i].pc, self.message(*trap)))?;
                }
            }
            if states.iter().all(|state| *state == Flow::End) {
                let mut counts = Counts::default();
                for (wave, left) in waves.iter().zip(&budgets) {
                    counts += Counts { instructions: self.budget - left, ..wave.counts };
                }
                return Ok(counts);
            }
            self.check_barrier(id, &waves, &states)?;
            group.lds.pass_barrier();
            round += 1;
        }
    }

    /// Some waves wait at a barrier: all of them must.
    fn check_barrier(&self, id: [u32; 3], waves: &[Wave], states: &[Flow]) -> Result<(), Box<Fault>> {
        let Some(missing) = states.iter().position(|state| *state == Flow::End) else { return Ok(()) };
        let waiting = states.iter().position(|state| *state == Flow::Barrier).expect("not all have ended");
        let what = format!(
            "waits at a barrier that wave {missing} never reaches, since it has ended; all {} waves must pass each barrier",
            waves.len()
        );
        Err(self.fault(id, &waves[waiting], waves[waiting].pc - 1, what))
    }

    /// What a trap says, with the instruction of the other side where there is one.
    fn message(&self, trap: Trap) -> String {
        let Some((pc, rest)) = trap.other_side else { return trap.what };
        match self.instruction(pc) {
            Some((offset, text)) => format!("{}, at +{offset:#x} `{text}`, {rest}", trap.what),
            None => format!("{}, {rest}", trap.what),
        }
    }

    /// An instruction's distance from the kernel's first one, and its text.
    fn instruction(&self, pc: u32) -> Option<(u64, String)> {
        let source = self.program.sources.get(pc as usize)?;
        Some((source.offset.wrapping_sub(self.kernel.entry), source.text.clone()))
    }

    fn fault(&self, workgroup: [u32; 3], wave: &Wave, pc: u32, what: String) -> Box<Fault> {
        let instruction = self.instruction(pc);
        Box::new(Fault { kernel: self.kernel.metadata.name.clone(), workgroup, wave: wave.index, instruction, what })
    }

    fn wave(&self, index: u32, id: [u32; 3]) -> Wave {
        let descriptor = &self.kernel.descriptor;
        let scratch_bytes = self.kernel.metadata.private_size.next_multiple_of(4);
        // Operands of 64 bits may name a pair whose second register is not allocated, which then is an error elsewhere.
        let mut wave = Wave::new(index, descriptor.num_vgprs + 1, scratch_bytes);
        wave.pc = self.program.index_at[&self.kernel.entry];
        let num_lanes = (self.num_threads() - index * NUM_LANES as u32).min(NUM_LANES as u32);
        wave.sgprs[EXEC] = u32::MAX >> (NUM_LANES as u32 - num_lanes);
        self.set_scalars(&mut wave, descriptor, id);
        self.set_thread_ids(&mut wave, index, num_lanes as usize);
        wave
    }

    /// The first scalar registers hold what the descriptor asks for, then (before gfx12) the workgroup's index.
    fn set_scalars(&self, wave: &mut Wave, descriptor: &Descriptor, id: [u32; 3]) {
        let values: [(u16, usize, u64); 7] = [
            (PRIVATE_BUFFER, 4, 0),
            (DISPATCH_POINTER, 2, self.dispatch),
            (QUEUE_POINTER, 2, 0),
            (KERNARG_POINTER, 2, self.kernarg),
            (DISPATCH_ID, 2, 0),
            (SCRATCH_INIT, 2, 0),
            (PRIVATE_SIZE, 1, self.kernel.metadata.private_size as u64),
        ];
        let mut register = 0;
        for (property, count, value) in values {
            if descriptor.has(property) {
                for word in 0..count {
                    wave.sgprs[register + word] = if word < 2 { (value >> (32 * word)) as u32 } else { 0 };
                }
                register += count;
            }
        }
        if self.program.target.generation == Generation::Gfx12 {
            wave.sgprs[TTMP + 9] = id[0];
            wave.sgprs[TTMP + 7] = id[1] | id[2] << 16;
            return;
        }
        let enabled = (0..3).filter(|dimension| descriptor.has_workgroup_id[*dimension]);
        for (i, dimension) in enabled.enumerate() {
            wave.sgprs[descriptor.num_user_sgprs + i] = id[dimension];
        }
    }

    /// `v0` holds x, y and z in 10 bits each.
    fn set_thread_ids(&self, wave: &mut Wave, index: u32, num_lanes: usize) {
        let [width, height, _] = self.block;
        for lane in 0..num_lanes {
            let thread = index * NUM_LANES as u32 + lane as u32;
            let (x, y, z) = (thread % width, thread / width % height, thread / width / height);
            wave.vgprs[0][lane] = x | y << 10 | z << 20;
        }
    }
}

/// Runs a wave until it waits at a barrier or ends.
fn run_wave(program: &Program, wave: &mut Wave, group: &mut Workgroup<'_>, budget: &mut u64) -> Outcome {
    let steps = program.steps.as_slice();
    let mut left = *budget;
    loop {
        if left == 0 {
            return Err(Trap::new(
                "has executed all instructions of its budget: an endless loop? (the option `budget` raises it)",
            ));
        }
        left -= 1;
        let Some(step) = steps.get(wave.pc as usize) else {
            return Err(Trap::new("ran past the end of the code object"));
        };
        match step(wave, group)? {
            Flow::Next => wave.pc += 1,
            Flow::Jump(target) => wave.pc = target,
            flow => {
                wave.pc += 1;
                *budget = left;
                return Ok(flow);
            }
        }
    }
}

/// The order in which waves run in one round; 0 is ascending. Other seeds find what depends on the order.
fn wave_order(num_waves: usize, seed: u64, round: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..num_waves).collect();
    if seed != 0 {
        let mut state = seed ^ (round + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for i in (1..num_waves).rev() {
            // xorshift: any order will do, as long as it is the same for the same seed.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            order.swap(i, state as usize % (i + 1));
        }
    }
    order
}
