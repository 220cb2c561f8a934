//! The subcommands of `taper`, one file each.

pub mod bench;
pub mod completions;
pub mod inspect;
pub mod list;
pub mod pull;
pub mod rm;
pub mod run;
pub mod serve;
pub mod show;

#[cfg(feature = "hub")]
mod download_progress;
#[cfg(feature = "hub")]
mod interrupt;
mod keyboard;
mod model;
mod progress;
