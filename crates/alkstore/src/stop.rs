//! The cloneable cancel handle of `run_schedules`.

use std::sync::Arc;

use tokio::sync::watch;

/// Tells a running operation to stop; all clones are one token.
///
/// ```
/// let stop = alkstore::StopToken::new();
/// let other = stop.clone();
/// other.cancel();
/// assert!(stop.is_cancelled());
/// ```
#[derive(Clone, Debug)]
pub struct StopToken(Arc<watch::Sender<bool>>);

impl StopToken {
    /// A token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Cancels every clone, for good.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    /// Whether any clone was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns as soon as the token is cancelled. Cancel-safe.
    pub async fn cancelled(&self) {
        // The token itself is a sender, so the channel cannot close while this waits.
        let _ = self.0.subscribe().wait_for(|cancelled| *cancelled).await;
    }
}

impl Default for StopToken {
    fn default() -> Self {
        Self::new()
    }
}
