//! The engine: turns submitted token ids into sampled token ids, many requests at a time.
//!
//! One thread owns the model, the cache and all sequences; its loop takes no lock. It sees token ids only: templates,
//! text and stop strings belong to its callers. The life of a request:
//!
//! 1. [`EngineHandle::submit`] checks it on the caller's thread and queues it (`request.rs`, `handle.rs`).
//! 2. The worker drains the queue and hands the [`sequence::Sequence`] to the scheduler (`worker.rs`).
//! 3. The scheduler gives it tokens of the step's budget and blocks of the pool (`scheduler.rs`, `blocks.rs`, `pool.rs`).
//!    What is left of the budget goes to guesses (`drafter.rs`) where they pay (`step_costs.rs`).
//! 4. The step's sequences become one ragged `Batch`, which the [`ModelRunner`] turns into logits (`runner.rs`).
//! 5. Each finished row is sampled with the request's own parameters and random stream (`sampling/`).
//! 6. The token goes to the caller as an [`Event`]; the last event says why it ended (`events.rs`).

pub mod blocks;
mod config;
mod constraint;
mod drafter;
mod events;
mod handle;
mod places;
mod pool;
mod repetition;
mod request;
mod runner;
pub mod sampling;
pub mod scheduler;
pub mod sequence;
mod shares;
mod stats;
mod step_costs;
mod worker;

pub use config::{ConfigError, EngineConfig};
pub use constraint::{Constraint, ConstraintError};
pub use events::{Event, FinishReason, Timings, Usage};
pub use handle::{Canceller, EngineHandle, Progress, RequestHandle, Shutdown, SpawnError, spawn};
pub use pool::{BlockCounts, BlockId};
pub use request::{Request, SubmitError};
pub use runner::{Logits, ModelRunner, RunnerError};
pub use shares::{ANYONE, Party, Tier};
pub use stats::EngineStats;
