//! Tier `cli`: the binary as a user meets it.

mod memory;
mod talk;
mod usage;
