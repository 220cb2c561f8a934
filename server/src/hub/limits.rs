//! How patient a pull is, and in which portions it asks.

use std::time::Duration;

/// Patience and portions; the defaults suit the Hub.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Longest silence of a connection before it is given up and made anew.
    pub stall: Duration,
    /// Attempts without any progress before a pull fails.
    pub attempts: u32,
    /// Wait before the second attempt; each further one waits twice as long.
    pub delay: Duration,
    /// Longest wait that a server may ask for; beyond it the pull fails and says so.
    pub longest_wait: Duration,
    /// Connections over all files, at most.
    pub connections: usize,
    /// Bytes that one request asks for. Between the two, so that all connections have work; not less, since the Hub counts
    /// requests.
    pub smallest_piece: u64,
    pub largest_piece: u64,
    /// Bytes that a crash may lose of each connection.
    pub unnoted_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            stall: Duration::from_secs(30),
            attempts: 5,
            delay: Duration::from_millis(500),
            longest_wait: Duration::from_secs(60),
            connections: 8,
            smallest_piece: 16 << 20,
            largest_piece: 256 << 20,
            unnoted_bytes: 32 << 20,
        }
    }
}

impl Limits {
    /// The defaults, changed by what the environment says.
    ///
    /// The first variable is one of the Hub's tools; the others are for tests and for networks stranger than ours.
    pub fn from_env() -> Self {
        let mut limits = Self::default();
        if let Some(seconds) = number::<f64>("HF_HUB_DOWNLOAD_TIMEOUT").filter(|seconds| *seconds > 0.0) {
            limits.stall = Duration::try_from_secs_f64(seconds).unwrap_or(limits.stall);
        }
        if let Some(milliseconds) = number("TAPER_HUB_RETRY_MS") {
            limits.delay = Duration::from_millis(milliseconds);
        }
        if let Some(bytes) = number("TAPER_HUB_PIECE_BYTES").filter(|bytes| *bytes > 0) {
            (limits.smallest_piece, limits.largest_piece) = (bytes, bytes);
        }
        limits
    }

    /// Bytes of the pieces of a file of `size` bytes.
    pub(super) fn piece_of(&self, size: u64) -> u64 {
        (size / (2 * self.connections.max(1) as u64)).clamp(self.smallest_piece, self.largest_piece)
    }

    /// The wait after `failures` attempts in a row.
    pub(super) fn delay_after(&self, failures: u32) -> Duration {
        self.delay * 2u32.saturating_pow(failures.saturating_sub(1)).min(64)
    }
}

/// The variable's value. What is no number is as good as nothing: other tools read these variables, too.
fn number<T: std::str::FromStr>(variable: &str) -> Option<T> {
    std::env::var(variable).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_keep_all_connections_busy_with_few_requests() {
        let pieces = [1, 1000, 100_000].map(|mebibytes| Limits::default().piece_of(mebibytes << 20) >> 20);
        assert_eq!(pieces, [16, 62, 256]);
    }

    #[test]
    fn waits_double() {
        let limits = Limits { delay: Duration::from_millis(500), ..Limits::default() };
        let waits = [1, 2, 3].map(|failures| limits.delay_after(failures).as_millis());
        assert_eq!(waits, [500, 1000, 2000]);
    }
}
