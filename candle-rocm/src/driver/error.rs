//! What can go wrong with a driver, said so that its reader can mend it.

use taper_kernels::{LaunchError, MetadataError};

#[derive(Debug, Clone, thiserror::Error)]
pub enum DriverError {
    #[error("{driver} was not found (tried {}): {fix}", tried.join(", "))]
    NoLibrary { driver: &'static str, tried: Vec<String>, fix: &'static str },
    #[error("{driver} is there and cannot be opened: {reason}; {fix}")]
    UnusableLibrary { driver: &'static str, reason: String, fix: &'static str },
    #[error("{library} has no function {symbol}: {fix}")]
    NoSymbol { library: String, symbol: &'static str, fix: &'static str },
    #[error("{call} failed with code {code} ({message}){}", kernel.as_ref().map(|name| format!(" for the kernel {name}")).unwrap_or_default())]
    Call { call: &'static str, code: i32, message: String, kernel: Option<String> },
    #[error("device {ordinal} does not exist: {driver} sees {count}")]
    NoDevice { driver: &'static str, ordinal: u32, count: u32 },
    #[error(
        "this build has no kernels for {target}, only for {}; build with TAPER_GPU_TARGETS naming it, or without that \
         variable",
        if built.is_empty() { "no target at all".to_owned() } else { built.join(" ") }
    )]
    NoImage { target: String, built: Vec<&'static str> },
    #[error("the module {module} has no kernel {kernel}")]
    NoKernel { module: &'static str, kernel: String },
    #[error("{what}: {bytes} bytes at {offset} are outside a buffer of {len}")]
    OutOfBounds { what: &'static str, offset: usize, bytes: usize, len: usize },
    #[error("{what} of another device's context")]
    OtherContext { what: &'static str },
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    Image(#[from] MetadataError),
}

impl DriverError {
    /// The same failure, of this kernel.
    #[must_use]
    pub fn of_kernel(self, name: &str) -> Self {
        match self {
            Self::Call { call, code, message, .. } => Self::Call { call, code, message, kernel: Some(name.to_owned()) },
            other => other,
        }
    }
}
