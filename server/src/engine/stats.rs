//! Numbers about the engine that other threads read without disturbing it: the worker stores, anyone loads.
//!
//! Each number is exact when stored; a snapshot taken during a step may mix the numbers of two neighbouring steps.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// A snapshot of the engine's gauges and totals.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct EngineStats {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The shared cell behind [`EngineStats`].
        #[derive(Debug, Default)]
        pub(super) struct StatsCell {
            $($name: AtomicU64,)*
        }

        impl StatsCell {
            pub(super) fn store(&self, stats: &EngineStats) {
                $(self.$name.store(stats.$name, Relaxed);)*
            }

            pub(super) fn load(&self) -> EngineStats {
                EngineStats { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

stats! {
    /// Sequences that hold blocks and take part in steps.
    running_seqs,
    /// Sequences that wait for their first step, or again after a preemption.
    waiting_seqs,
    /// Blocks that hold nothing of use.
    free_blocks,
    /// Blocks that no sequence uses but whose prefix can be reused.
    cached_blocks,
    /// Blocks in use by running sequences.
    used_blocks,
    /// Steps run since the start.
    steps,
    /// Tokens sampled since the start.
    generated_tokens,
    /// Prompt tokens run through the model since the start, those run again after a preemption included.
    prefill_tokens,
    /// Tokens that did not have to be run because their prefix was cached.
    prefix_hit_tokens,
    /// Times a running sequence lost its blocks to an older one.
    preemptions,
    /// Tokens guessed since the start, and those of them that were right.
    draft_tokens,
    accepted_tokens,
}
