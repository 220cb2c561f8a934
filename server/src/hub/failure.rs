//! What goes wrong in a single request, which of it passes by itself, and how long to wait for that.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hf_hub::HFError;
use tokio::time::{sleep, timeout};

use super::error::{rest, status};
use super::limits::Limits;

/// Why a request gave nothing, or not all.
#[derive(Debug)]
pub(super) enum Failure {
    Hub(HFError),
    /// Nothing came for this long.
    Silent(Duration),
    /// The answer ended early.
    Short {
        received: u64,
        asked: u64,
    },
    /// More came than was asked for: the file is longer than it was said to be, or the server knows no ranges.
    TooLong,
    Disk {
        path: PathBuf,
        source: io::Error,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hub(error) => match status(error) {
                Some(status) => write!(f, "the server answered with status {status}"),
                None => write!(f, "{}", root_cause(error)),
            },
            Self::Silent(time) => write!(f, "the server was silent for {} s", time.as_secs_f64()),
            Self::Short { received, asked } => write!(f, "the answer ended after {received} of {asked} bytes"),
            Self::TooLong => write!(f, "the server sent more than it was asked for"),
            Self::Disk { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

impl Failure {
    pub fn disk(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Disk { path, source }
    }

    /// How long to wait before asking again, after `failures` in a row. `None`: no use, or not any more.
    pub fn wait(&self, failures: u32, attempts: u32, limits: &Limits) -> Option<Duration> {
        let told = match self {
            Self::Hub(error) => rest(error),
            _ => None,
        };
        let wait = told.unwrap_or_else(|| limits.delay_after(failures));
        (self.passes() && failures < attempts && wait <= limits.longest_wait).then_some(wait)
    }

    fn passes(&self) -> bool {
        match self {
            Self::Hub(HFError::Request { source, .. }) => !source.is_builder() && !is_nonsense(source),
            Self::Hub(HFError::Xet { .. }) | Self::Silent(_) | Self::Short { .. } => true,
            Self::Hub(error) => matches!(status(error), Some(408 | 429 | 500..)),
            Self::TooLong | Self::Disk { .. } => false,
        }
    }
}

/// The innermost cause: the outer ones name addresses and layers of the HTTP client.
pub(super) fn root_cause(error: &(dyn Error + 'static)) -> String {
    innermost(error).to_string()
}

/// Whether an answer came whole and is not what the Hub says. An answer that broke off is also "not decoded" to the HTTP
/// client, but that passes.
pub(super) fn is_nonsense(error: &(dyn Error + 'static)) -> bool {
    innermost(error).is::<serde_json::Error>()
}

fn innermost<'a>(mut error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    while let Some(source) = error.source() {
        error = source;
    }
    error
}

/// Asks until there is an answer, as long as failures pass by themselves. Few times: nothing has been received yet.
pub(super) async fn answer<T>(limits: &Limits, ask: impl AsyncFn() -> Result<T, HFError>) -> Result<T, Failure> {
    let mut failures = 0;
    loop {
        let failure = match timeout(limits.stall, ask()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => Failure::Hub(error),
            Err(_) => Failure::Silent(limits.stall),
        };
        failures += 1;
        match failure.wait(failures, limits.attempts.min(3), limits) {
            Some(wait) => sleep(wait).await,
            None => return Err(failure),
        }
    }
}
