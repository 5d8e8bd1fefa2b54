//! Waiting for a condition with a deadline: the only way that a case lets time pass.

use std::panic::Location;
use std::time::Duration;

use tokio::time::Instant;

/// Asks again and again until `condition` gives a value, and fails the case after `deadline`.
#[track_caller]
pub(crate) fn eventually<T>(
    deadline: Duration,
    mut condition: impl AsyncFnMut() -> Option<T>,
) -> impl Future<Output = T> {
    let caller = Location::caller();
    async move {
        let start = Instant::now();
        loop {
            if let Some(value) = condition().await {
                return value;
            }
            assert!(start.elapsed() < deadline, "not within {deadline:?}, waited for at {caller}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
