//! What is the state of 32 lanes? Registers of one wave, and how operands are read and results written under EXEC.

use crate::asm::{EXEC, NULL};
use crate::fault::Trap;
use crate::launch::Counts;
use crate::lds::Access;
use crate::memory::POISON;

pub const NUM_LANES: usize = 32;

/// One vector register: a value for each lane.
pub type Lanes = [u32; NUM_LANES];

pub const FULL: u32 = u32::MAX;

/// Number of scalar registers with an encoding of their own, vcc, the trap registers, m0 and exec included.
const NUM_SCALARS: usize = 128;

/// What becomes of the wave after an instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Flow {
    Next,
    /// To the instruction of this index.
    Jump(u32),
    /// Waits for the other waves of the workgroup.
    Barrier,
    End,
}

pub struct Wave {
    pub vgprs: Vec<Lanes>,
    pub sgprs: [u32; NUM_SCALARS],
    pub scc: bool,
    /// Index of the next instruction.
    pub pc: u32,
    /// Within its workgroup.
    pub index: u32,
    /// Between the two halves of a split barrier.
    pub has_signalled: bool,
    /// Private memory: `scratch_bytes` for each lane, one lane after the other.
    pub scratch: Vec<u8>,
    /// Index of the allocation that the last access hit.
    pub last_allocation: usize,
    /// Without the number of instructions.
    pub counts: Counts,
}

impl Wave {
    pub fn new(index: u32, num_vgprs: usize, scratch_bytes: usize) -> Wave {
        let mut wave = Wave {
            vgprs: vec![[POISON; NUM_LANES]; num_vgprs],
            sgprs: [POISON; NUM_SCALARS],
            scc: false,
            pc: 0,
            index,
            has_signalled: false,
            scratch: POISON.to_le_bytes().repeat(scratch_bytes * NUM_LANES / 4),
            last_allocation: 0,
            counts: Counts::default(),
        };
        wave.sgprs[NULL] = 0;
        wave.sgprs[EXEC + 1] = 0;
        wave
    }

    /// Who an access to LDS is by; an error between the halves of a split barrier, which does not say whether such an
    /// access comes before or after it.
    #[inline]
    pub fn lds_access(&self) -> Result<Access, Box<Trap>> {
        if self.has_signalled {
            return Err(Trap::new("accesses LDS between the signal of a barrier and the wait for it"));
        }
        Ok(Access { wave: self.index, pc: self.pc })
    }

    #[inline]
    pub fn exec(&self) -> u32 {
        self.sgprs[EXEC]
    }

    #[inline]
    pub fn set_scalar(&mut self, register: usize, value: u32) {
        self.sgprs[register] = value;
        self.sgprs[NULL] = 0;
    }

    pub fn scalar64(&self, register: usize) -> u64 {
        u64::from(self.sgprs[register]) | u64::from(self.sgprs[register + 1]) << 32
    }

    pub fn set_scalar64(&mut self, register: usize, value: u64) {
        if register != NULL {
            self.set_scalar(register, value as u32);
            self.set_scalar(register + 1, (value >> 32) as u32);
        }
    }

    /// Replaces the lanes of a vector register that are active.
    #[inline]
    pub fn write(&mut self, register: usize, value: &Lanes) {
        let exec = self.exec();
        self.write_masked(register, value, exec);
    }

    #[inline]
    pub fn write_masked(&mut self, register: usize, value: &Lanes, mask: u32) {
        let target = &mut self.vgprs[register];
        if mask == FULL {
            *target = *value;
            return;
        }
        for lane in 0..NUM_LANES {
            let keep = (mask >> lane & 1).wrapping_sub(1);
            target[lane] = (target[lane] & keep) | (value[lane] & !keep);
        }
    }

    pub fn lane64(&self, register: usize, lane: usize) -> u64 {
        u64::from(self.vgprs[register][lane]) | u64::from(self.vgprs[register + 1][lane]) << 32
    }

    pub fn set_lane64(&mut self, register: usize, lane: usize, value: u64) {
        self.vgprs[register][lane] = value as u32;
        self.vgprs[register + 1][lane] = (value >> 32) as u32;
    }
}

/// The active lanes of a mask, in ascending order.
#[inline]
pub fn lanes_of(mask: u32) -> impl Iterator<Item = usize> {
    (0..NUM_LANES).filter(move |lane| mask >> lane & 1 == 1)
}
