//! What a user can choose, and where each choice came from.
//!
//! One table ([`table`]) describes every setting; the command line, the environment, the settings file and the
//! documentation are made from it. A value is looked for on the command line, then in the environment, then in the
//! file, then in the table; [`Settings`] is the typed result that the rest of the program reads. Nothing else in the
//! program reads arguments or `TAPER_*` variables.

mod command_line;
mod error;
mod file;
mod llama_cpp;
mod markdown;
mod resolve;
mod table;
mod types;
mod value;

#[cfg(test)]
mod tests;

pub use command_line::completions;
pub use error::SettingsError;
pub use markdown::markdown;
pub use resolve::{Origin, Resolved};
pub use types::{
    BenchSettings, Command, DescribeSettings, EngineSettings, KvCacheDtype, RequestLimits, RunSettings,
    SamplingSettings, ServerSettings, Settings,
};
