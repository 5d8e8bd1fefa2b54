//! `alkstore run-schedules`: fires schedules until interrupted.

use alkstore::StopToken;
use anyhow::{Context, Result};

use crate::connect::Engine;
use crate::interrupt::interrupted;

/// Leads the schedules; fails if another process does.
pub(crate) async fn run(store: &dyn Engine) -> Result<()> {
    let stop = StopToken::new();
    let leading = store.run_schedules(stop.clone());
    let stopping = async {
        interrupted().await;
        stop.cancel();
        std::future::pending::<()>().await;
    };
    eprintln!("firing schedules until interrupted");
    tokio::select! {
        outcome = leading => outcome.context("the schedules are not run any more"),
        () = stopping => Ok(()),
    }
}
