//! Ctrl-C and SIGTERM.

/// Returns when the user or the system asks the process to end. Cancel-safe.
pub(crate) async fn interrupted() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => return,
                () = ctrl_c() => return,
            }
        }
    }
    ctrl_c().await;
}

async fn ctrl_c() {
    if tokio::signal::ctrl_c().await.is_err() {
        // No handler could be set, so the signal ends the process by itself.
        std::future::pending::<()>().await;
    }
}
