//! The subcommands of `taper`, one file each.

pub mod bench;
pub mod inspect;
pub mod run;
pub mod serve;

mod keyboard;
mod progress;
