//! The fault of the demo: one worker hangs with jobs in its hands and waits to be killed.

use std::io::Write;

use alkstore::{Result, StopToken, Store};

use crate::business::{self, params};

use super::order::Pipeline;
use super::process::HOLDING;
use super::worker::{self, Email};

/// Strikes the first worker that claims an order of the second half.
pub(super) struct Fault<'a> {
    pipeline: &'a Pipeline,
    worker: &'a str,
    over: bool,
}

impl<'a> Fault<'a> {
    pub(super) fn new(pipeline: &'a Pipeline, worker: &'a str) -> Self {
        Self { pipeline, worker, over: false }
    }

    /// Whether it is this worker's turn. The rows that say so also tell the audit which jobs the
    /// worker held.
    pub(super) async fn strikes(&mut self, store: &dyn Store, emails: &[Email]) -> Result<bool> {
        if self.over {
            return Ok(false);
        }
        if !emails.iter().any(|email| email.order.seq > self.pipeline.orders / 2) {
            return Ok(false);
        }
        self.over = true;
        let mut tx = store.begin_tx().await?;
        let first = business::execute(
            &mut *tx,
            "INSERT INTO demo_victim (run, worker) VALUES ($1, $2) ON CONFLICT (run) DO NOTHING",
            params![self.pipeline.run, self.worker],
        )
        .await?;
        if first == 0 {
            tx.rollback().await?;
            return Ok(false);
        }
        for Email { order, .. } in emails {
            business::execute(
                &mut *tx,
                "INSERT INTO demo_held (run, seq) VALUES ($1, $2)",
                params![self.pipeline.run, order.seq],
            )
            .await?;
        }
        tx.commit().await?;
        Ok(true)
    }

    /// Sends half of the emails, at least one, acks none, tells the parent process, and waits.
    pub(super) async fn hang(
        &self,
        store: &dyn Store,
        emails: &[Email],
        started_us: i64,
        stop: &StopToken,
    ) -> Result<()> {
        let sent = &emails[..emails.len().div_ceil(2)];
        worker::send(store, self.pipeline, self.worker, started_us, sent).await?;
        let mut stdout = std::io::stdout();
        // If the parent does not read any more, it has gone, and `stop` comes.
        let _ = writeln!(stdout, "{HOLDING}").and_then(|()| stdout.flush());
        stop.cancelled().await;
        Ok(())
    }
}
