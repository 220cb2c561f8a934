//! How does a grid run? Builds what a kernel finds in memory (its arguments, those that the runtime adds, the dispatch
//! packet), and spreads workgroups over threads.

use crate::code_object::KernelCode;
use crate::fault::Fault;
use crate::lds::Lds;
use crate::memory::{AddressSpace, Allocation};
use crate::options::Options;
use crate::program::Program;
use crate::touched::{Recorder, Touched};
use crate::workgroup::Launch;
use rayon::ThreadPool;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of LDS that a workgroup can have.
pub const MAX_LDS: usize = 64 << 10;

/// What waves have done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Instructions, each for a whole wave; `idle` of them have no effect here, such as waits and hints.
    pub instructions: u64,
    pub idle: u64,
    /// Of device memory, by all lanes together.
    pub bytes_read: u64,
    pub bytes_written: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.instructions += other.instructions;
        self.idle += other.idle;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
    }
}

/// What is launched: sizes are checked already, arguments laid out as the kernel reads them.
#[derive(Clone, Debug)]
pub struct Dispatch {
    pub kernel: KernelCode,
    /// Workgroups in each dimension.
    pub grid: [u32; 3],
    /// Threads of a workgroup in each dimension.
    pub block: [u32; 3],
    pub dynamic_lds: u32,
    /// The explicit arguments.
    pub arguments: Vec<u8>,
}

impl Dispatch {
    /// Runs all workgroups; returns what waves did and, with the option `races`, what they touched.
    pub fn run(
        &self,
        program: &Program,
        memory: &mut AddressSpace,
        options: &Options,
        pool: &ThreadPool,
    ) -> Result<(Counts, Option<Touched>), Box<Fault>> {
        let kernarg = self.kernarg(memory.reserve(self.kernarg_bytes() as u64));
        let packet = self.packet(memory.reserve(PACKET_BYTES as u64), kernarg.base);
        let (kernarg_address, dispatch) = (kernarg.base, packet.base);
        let snapshot = memory.snapshot([kernarg, packet]);
        let recorder = options.races.then(Recorder::default);
        let launch = Launch {
            program,
            kernel: &self.kernel,
            block: self.block,
            kernarg: kernarg_address,
            dispatch,
            memory: &snapshot,
            budget: options.budget,
            seed: options.seed,
            recorder: recorder.as_ref(),
        };
        let counts = self.run_workgroups(&launch, pool)?;
        Ok((counts, recorder.map(Recorder::into_touched)))
    }

    fn lds_size(&self) -> usize {
        self.kernel.metadata.lds_size + self.dynamic_lds as usize
    }

    fn run_workgroups(&self, launch: &Launch<'_>, pool: &ThreadPool) -> Result<Counts, Box<Fault>> {
        let total: u64 = self.grid.iter().map(|n| u64::from(*n)).product();
        let next = AtomicU64::new(0);
        let failed = AtomicU64::new(u64::MAX);
        let worker = || self.run_some(launch, total, &next, &failed);
        if total == 1 || pool.current_num_threads() == 1 {
            return worker().map_err(|(_, fault)| fault);
        }
        let mut executed = Counts::default();
        let mut first_fault: Option<(u64, Box<Fault>)> = None;
        for result in pool.broadcast(|_| worker()) {
            match result {
                Ok(count) => executed += count,
                Err(fault) if first_fault.as_ref().is_none_or(|(index, _)| fault.0 < *index) => {
                    first_fault = Some(fault);
                }
                Err(_) => {}
            }
        }
        first_fault.map_or(Ok(executed), |(_, fault)| Err(fault))
    }

    /// Takes workgroups until none is left or an earlier one has failed; a fault comes with the workgroup's number.
    /// Those before the first that fails are all run, so that every run reports the same one.
    fn run_some(
        &self,
        launch: &Launch<'_>,
        total: u64,
        next: &AtomicU64,
        failed: &AtomicU64,
    ) -> Result<Counts, (u64, Box<Fault>)> {
        let mut lds = Lds::new(self.lds_size());
        let mut executed = Counts::default();
        let [width, height, _] = self.grid.map(u64::from);
        loop {
            let index = next.fetch_add(1, Relaxed);
            if index >= total || index > failed.load(Relaxed) {
                return Ok(executed);
            }
            let id = [index % width, index / width % height, index / width / height].map(|n| n as u32);
            match launch.run(id, &mut lds) {
                Ok(count) => executed += count,
                Err(fault) => {
                    failed.fetch_min(index, Relaxed);
                    return Err((index, fault));
                }
            }
        }
    }

    /// Runtimes place arguments in whole cache lines, and compilers rely on it: they load three words as four.
    fn kernarg_bytes(&self) -> usize {
        self.kernel.metadata.kernarg_size.max(1).next_multiple_of(64)
    }

    /// The arguments in memory: the explicit ones, then those that the runtime adds.
    fn kernarg(&self, base: u64) -> Allocation {
        let mut bytes = vec![0; self.kernarg_bytes()];
        bytes[..self.arguments.len()].copy_from_slice(&self.arguments);
        for argument in self.kernel.metadata.arguments.iter().filter(|argument| argument.is_hidden()) {
            let value = self.hidden_value(&argument.kind).to_le_bytes();
            let len = argument.size.min(value.len());
            if let Some(place) = bytes.get_mut(argument.offset..argument.offset + len) {
                place.copy_from_slice(&value[..len]);
            }
        }
        Allocation::with_contents(base, &bytes)
    }

    /// What is not known here is 0: pointers to services of the runtime, such as `printf`, are null.
    fn hidden_value(&self, kind: &str) -> u64 {
        let dimension = match kind.as_bytes().last() {
            Some(b'y') => 1,
            Some(b'z') => 2,
            _ => 0,
        };
        match kind {
            "hidden_block_count_x" | "hidden_block_count_y" | "hidden_block_count_z" => u64::from(self.grid[dimension]),
            "hidden_group_size_x" | "hidden_group_size_y" | "hidden_group_size_z" => u64::from(self.block[dimension]),
            "hidden_grid_dims" => u64::from(self.num_dimensions()),
            "hidden_dynamic_lds_size" => u64::from(self.dynamic_lds),
            "hidden_shared_base" => crate::isa::SHARED_APERTURE,
            "hidden_private_base" => crate::isa::PRIVATE_APERTURE,
            _ => 0,
        }
    }

    fn num_dimensions(&self) -> u16 {
        (0..3).rev().find(|i| self.grid[*i] * self.block[*i] > 1).map_or(1, |i| i as u16 + 1)
    }

    /// The packet that a queue of the hardware would hold.
    fn packet(&self, base: u64, kernarg: u64) -> Allocation {
        let mut bytes = [0; PACKET_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(2, &self.num_dimensions().to_le_bytes());
        for i in 0..3 {
            put(4 + 2 * i, &(self.block[i] as u16).to_le_bytes());
            put(12 + 4 * i, &self.grid[i].wrapping_mul(self.block[i]).to_le_bytes());
        }
        put(24, &(self.kernel.metadata.private_size as u32).to_le_bytes());
        put(28, &(self.lds_size() as u32).to_le_bytes());
        put(40, &kernarg.to_le_bytes());
        Allocation::with_contents(base, &bytes)
    }
}

const PACKET_BYTES: usize = 64;
