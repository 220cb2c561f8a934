//! How much memory a model needs, and what is chosen so that it fits: all before the first byte is allocated.

use candle_core::DType;
use taper_models::CachePlan;
use taper_models::spec::DecoderSpec;

use crate::engine::blocks::peak_blocks;

/// What the user set, with what the machine has.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Longest sequence asked for. `None`: the checkpoint's limit, or less if that does not fit.
    pub ctx_size: Option<usize>,
    /// Bytes for the KV cache. `None`: chosen here.
    pub kv_cache_memory: Option<u64>,
    /// Sequences that run at once.
    pub parallel: usize,
    /// Tokens of one step.
    pub step_tokens: usize,
    pub block_size: usize,
    pub kv_dtype: DType,
    /// Bytes that this process may still take. `None`: unknown.
    pub available: Option<u64>,
}

/// What a model gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capacity {
    pub max_model_len: usize,
    pub num_blocks: usize,
    pub block_bytes: u64,
    /// Blocks that one sequence of `max_model_len` takes.
    pub blocks_per_sequence: usize,
    pub weight_bytes: u64,
}

impl Capacity {
    /// Bytes of the KV cache.
    pub fn kv_bytes(&self) -> u64 {
        self.num_blocks as u64 * self.block_bytes
    }
}

/// Why a model does not fit.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum CapacityError {
    #[error(
        "the weights need {}, but only {} of memory is available; use a smaller model or a smaller quantisation, or \
         free memory",
        bytes(*.weights), bytes(*.available)
    )]
    Weights { weights: u64, available: u64 },
    #[error(
        "--kv-cache-memory asks for {}, but beside the weights only {} of memory is available; lower it, or free memory",
        bytes(*.asked), bytes(*.left)
    )]
    Cache { asked: u64, left: u64 },
    #[error(
        "a context of {ctx_size} tokens needs {} of KV cache, but {} is available for it; lower --ctx-size \
         (at most {possible} fits), or {remedy}",
        bytes(*.needed), bytes(*.budget)
    )]
    Context { ctx_size: usize, needed: u64, budget: u64, possible: usize, remedy: &'static str },
    #[error("the KV cache has {}, but the shortest useful context needs {}; {remedy}", bytes(*.budget), bytes(*.needed))]
    TooSmall { budget: u64, needed: u64, remedy: &'static str },
    #[error("--ctx-size {ctx_size} is more than the {max_position} tokens this model is made for")]
    BeyondModel { ctx_size: usize, max_position: usize },
}

/// Contexts shorter than this are of no use.
const MIN_CONTEXT: usize = 16;
/// Left to the rest of the machine when the cache's size is chosen here.
const AVAILABLE_SHARE: f64 = 0.8;

/// Chooses context length and cache size for a model of `spec` whose weights take `weight_bytes`.
pub fn plan(
    spec: &DecoderSpec,
    cache: &CachePlan,
    weight_bytes: u64,
    limits: &Limits,
) -> Result<Capacity, CapacityError> {
    let asked = limits.ctx_size.unwrap_or(spec.max_position);
    if asked > spec.context_limit() {
        return Err(CapacityError::BeyondModel { ctx_size: asked, max_position: spec.context_limit() });
    }
    let windows = cache.windows();
    let blocks = |len: usize| peak_blocks(&windows, limits.block_size, len, limits.step_tokens);
    let block_bytes = cache.block_bytes(limits.block_size, limits.kv_dtype) as u64;
    let wanted = (blocks(asked) as u64).saturating_mul(limits.parallel as u64).saturating_mul(block_bytes);
    let budget = cache_budget(wanted, weight_bytes, limits)?;
    let num_blocks = usize::try_from(budget / block_bytes).unwrap_or(usize::MAX).min(MAX_SLOTS / limits.block_size);
    let possible = longest(asked, |len| blocks(len) <= num_blocks);
    let given = limits.kv_cache_memory.is_some();
    let remedy = if given { "raise --kv-cache-memory" } else { "free memory" };
    let needed = |len: usize| (blocks(len) as u64).saturating_mul(block_bytes);
    let shortest = MIN_CONTEXT.min(asked);
    match limits.ctx_size {
        _ if possible < shortest => Err(CapacityError::TooSmall { budget, needed: needed(shortest), remedy }),
        Some(ctx_size) if possible < ctx_size => {
            Err(CapacityError::Context { ctx_size, needed: needed(ctx_size), budget, possible, remedy })
        }
        _ => {
            let blocks_per_sequence = blocks(possible);
            Ok(Capacity { max_model_len: possible, num_blocks, block_bytes, blocks_per_sequence, weight_bytes })
        }
    }
}

/// Bytes for the cache: what was given, or what is wanted if a share of what the weights leave holds it.
fn cache_budget(wanted: u64, weights: u64, limits: &Limits) -> Result<u64, CapacityError> {
    let left = match limits.available {
        Some(available) if weights > available => return Err(CapacityError::Weights { weights, available }),
        available => available.map(|available| available - weights),
    };
    match (limits.kv_cache_memory, left) {
        (Some(asked), Some(left)) if asked > left => Err(CapacityError::Cache { asked, left }),
        (Some(given), _) => Ok(given),
        (None, Some(left)) => Ok(wanted.min((left as f64 * AVAILABLE_SHARE) as u64)),
        (None, None) => Ok(wanted),
    }
}

/// Slots are numbered with 32 bits, and the highest number is taken.
const MAX_SLOTS: usize = u32::MAX as usize - 1;

/// The largest length up to `limit` for which `fits` holds; `fits` is true up to some length and false beyond.
fn longest(limit: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, limit);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// A number of things in words: `1 file`, `2 files`.
pub fn plural(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// `1.5 GiB` for people.
pub fn bytes(count: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", units[unit]) }
}

/// Bytes that this process may still take: of the machine, or of its container if that is less. `None`: unknown.
pub fn available_memory() -> Option<u64> {
    let mut system = sysinfo::System::new().ok()?;
    system.refresh_memory();
    // What the container's own processes hold; files that it has read count as used there, but make room when asked.
    let of_container = system.cgroup_limits().map_or(u64::MAX, |limits| limits.total_memory.saturating_sub(limits.rss));
    let available = system.available_memory().min(of_container).min(address_space().unwrap_or(u64::MAX));
    Some(available).filter(|available| *available > 0)
}

/// What is left of the address space where it is limited (`ulimit -v`): the cache is reserved whole, and a reservation
/// that fails ends the process.
fn address_space() -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    // "unlimited" is no number.
    let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let used = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?.trim().strip_suffix(" kB")?;
    Some(limit.saturating_sub(used.parse::<u64>().ok()?.saturating_mul(1024)))
}
