//! How is the simulated GPU chosen and limited? One string of `name=value` pairs, from the environment variable
//! `HIP_SIM` or from [`crate::api::hipSimReset`]; this is the only file that knows the names.

use crate::target::{DEFAULT, Target};

/// The environment variable that is read when the library is first used.
pub const VARIABLE: &str = "HIP_SIM";

const KNOWN: &str = "gpu, memory, reported_total, reported_free, processors, integrated, version, threads, budget, seed, lazy, \
                     races, fail_malloc, fail_launch, fail_copy, hang, mistake";

/// As `hipRuntimeGetVersion` says it.
const HIP_7_1: u64 = 70_125_424;

#[derive(Clone, Debug)]
pub struct Options {
    /// `None`: there is no device.
    pub gpu: Option<&'static Target>,
    /// Bytes that can be allocated.
    pub memory: u64,
    /// Bytes that `hipMemGetInfo` claims in total, which on some systems is not the truth.
    pub reported_total: Option<u64>,
    /// Threads that run workgroups.
    pub threads: usize,
    /// Instructions that one wave may execute.
    pub budget: u64,
    /// Order of waves between barriers: 0 is ascending, others are shuffled.
    pub seed: u64,
    /// The allocation, counted from 1, that fails with out of memory; 0 for none. So for launches.
    pub fail_malloc: u64,
    pub fail_launch: u64,
    /// 0: work is done when it is submitted. Else as late as a call waits for it, or some time before, decided by this.
    pub lazy: u64,
    /// Two works that touch the same memory must be ordered by an event, a wait or a stream.
    pub races: bool,
    pub fail_copy: u64,
    /// The launch, counted from 1, that never ends; 0 for none.
    pub hang: u64,
    /// Multiprocessors, and whether memory is shared with the host, where not the target's.
    pub processors: Option<u64>,
    pub integrated: Option<bool>,
    /// What `hipMemGetInfo` claims to be free, which on some machines is more than the total.
    pub reported_free: Option<u64>,
    /// What the runtime calls its version.
    pub version: u64,
    /// A mistake for tests of the tests: an instruction that does what another should.
    pub mistake: Option<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            gpu: Target::named(DEFAULT),
            memory: 8 << 30,
            reported_total: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            budget: 500_000_000,
            seed: 0,
            fail_malloc: 0,
            fail_launch: 0,
            lazy: 0,
            races: false,
            fail_copy: 0,
            hang: 0,
            processors: None,
            integrated: None,
            reported_free: None,
            version: HIP_7_1,
            mistake: None,
        }
    }
}

impl Options {
    /// Options of the environment.
    pub fn from_environment() -> Result<Options, String> {
        Options::parse(&std::env::var(VARIABLE).unwrap_or_default())
    }

    /// Options of a string such as `gpu=gfx1201 memory=512M seed=7`; what is not named has its default.
    pub fn parse(text: &str) -> Result<Options, String> {
        let mut options = Options::default();
        for pair in text.split([' ', ',']).filter(|pair| !pair.is_empty()) {
            let (name, value) =
                pair.split_once('=').ok_or_else(|| format!("hip-sim option '{pair}': write name=value"))?;
            options.set(name, value)?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number = || {
            parse_size(value)
                .ok_or_else(|| format!("hip-sim option {name}={value}: not a number (K, M and G are understood)"))
        };
        match name {
            "gpu" if value == "none" => self.gpu = None,
            "gpu" => {
                let target = Target::named(value);
                self.gpu = Some(
                    target.ok_or_else(|| format!("hip-sim option gpu={value}: known are {}, none", known_targets()))?,
                );
            }
            "memory" => self.memory = number()?,
            "reported_total" => self.reported_total = Some(number()?),
            "threads" => self.threads = number()?.max(1) as usize,
            "budget" => self.budget = number()?,
            "seed" => self.seed = number()?,
            "fail_malloc" => self.fail_malloc = number()?,
            "lazy" => self.lazy = number()?,
            "races" => self.races = number()? != 0,
            "fail_copy" => self.fail_copy = number()?,
            "hang" => self.hang = number()?,
            "processors" => self.processors = Some(number()?),
            "integrated" => self.integrated = Some(number()? != 0),
            "reported_free" => self.reported_free = Some(number()?),
            "version" => self.version = number()?,
            "mistake" => {
                let pair =
                    value.split_once(':').ok_or("hip-sim option mistake: write mistake=INSTRUCTION:INSTRUCTION")?;
                self.mistake = Some((pair.0.to_string(), pair.1.to_string()));
            }
            "fail_launch" => self.fail_launch = number()?,
            _ => {
                return Err(format!("hip-sim option '{name}': known are {KNOWN}"));
            }
        }
        Ok(())
    }
}

fn known_targets() -> String {
    crate::target::TARGETS.map(|target| target.name).join(", ")
}

/// `512M` and the like, in powers of 1024.
fn parse_size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(digits) if text.ends_with('K') => (digits, 10),
        Some(digits) if text.ends_with('M') => (digits, 20),
        Some(digits) => (digits, 30),
        None => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_pairs_and_sizes_have_units() {
        let options = Options::parse("gpu=gfx1201, memory=512M seed=7").unwrap();
        assert_eq!(options.gpu.map(|target| target.name), Some("gfx1201"));
        assert_eq!((options.memory, options.seed), (512 << 20, 7));
    }

    #[test]
    fn an_unknown_gpu_or_option_is_named_with_what_is_known() {
        assert!(Options::parse("gpu=gfx942").unwrap_err().contains("gfx1151"));
        assert!(Options::parse("speed=9").unwrap_err().contains("known are gpu, memory"));
    }
}
