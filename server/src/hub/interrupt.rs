//! How a pull is told to end early.

use std::sync::Arc;

use tokio::sync::Notify;

/// Ends the pulls that hold it; clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<Notify>);

impl Interrupt {
    /// Ends the pull that is running, or else the next.
    pub fn raise(&self) {
        self.0.notify_one();
    }

    pub(super) async fn raised(&self) {
        self.0.notified().await;
    }
}
