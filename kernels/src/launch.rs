//! One launch of one kernel, as a value: made by the geometry functions, checked here, executed by a driver.

use crate::{Args, Kernel, LaunchError};

/// LDS that a block can have on any device we build for.
const LDS_LIMIT: u32 = 64 << 10;

/// A kernel by name, how many blocks of how many threads, and its arguments.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The image that holds the kernel: the stem of its `.hip` file.
    pub module: &'static str,
    pub kernel: String,
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: u32,
    /// Dynamic LDS in bytes, beyond what the kernel declares.
    pub lds: u32,
    pub args: Args,
}

impl Launch {
    /// Whether the kernel that was loaded is the one this launch was written for: a mistake here would read arguments
    /// at the wrong place, or run with too few registers, and say nothing.
    pub fn check(&self, kernel: &Kernel) -> Result<(), LaunchError> {
        self.check_args(kernel)?;
        let name = || self.kernel.clone();
        if self.block != kernel.max_block_threads {
            return Err(LaunchError::Block { kernel: name(), takes: kernel.max_block_threads, has: self.block });
        }
        if kernel.lds.saturating_add(self.lds) > LDS_LIMIT {
            return Err(LaunchError::Lds { kernel: name(), fixed: kernel.lds, dynamic: self.lds, limit: LDS_LIMIT });
        }
        let [x, y, z] = self.grid;
        if self.grid.contains(&0) || x > i32::MAX as u32 || y.max(z) > 65535 {
            return Err(LaunchError::Grid { kernel: name(), grid: self.grid });
        }
        Ok(())
    }

    fn check_args(&self, kernel: &Kernel) -> Result<(), LaunchError> {
        let places = self.args.places();
        if places.len() != kernel.args.len() {
            let (takes, has) = (kernel.args.len(), places.len());
            return Err(LaunchError::NumArgs { kernel: self.kernel.clone(), takes, has });
        }
        for (index, ((has_offset, has_size), takes)) in places.zip(&kernel.args).enumerate() {
            if (has_offset, has_size) != (takes.offset, takes.size) {
                let (takes_offset, takes_size) = (takes.offset, takes.size);
                let kernel = self.kernel.clone();
                return Err(LaunchError::Arg { kernel, index, takes_offset, takes_size, has_offset, has_size });
            }
        }
        Ok(())
    }
}
