//! Tier `cli`: the binary as a user meets it.

mod talk;
mod usage;
