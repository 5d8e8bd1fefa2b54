//! `alkstore queues`: every queue and outbox that holds a job.

use anyhow::Result;
use serde::Serialize;

use crate::connect::Engine;
use crate::output::{Output, shown};

#[derive(Serialize)]
struct QueueLine {
    queue: String,
    pending: i64,
    ready: i64,
    processing: i64,
    dead: i64,
    oldest_ready_age_s: Option<i64>,
}

/// Lists the queues.
pub(crate) async fn run(store: &dyn Engine, out: &mut Output) -> Result<()> {
    let mut rows = Vec::new();
    for queue in store.queues().await? {
        let line = QueueLine {
            queue: queue.address(),
            pending: queue.pending,
            ready: queue.ready,
            processing: queue.processing,
            dead: queue.dead,
            oldest_ready_age_s: queue.oldest_ready_age_s,
        };
        if out.is_json() {
            out.object(&line)?;
            continue;
        }
        rows.push(vec![
            shown(&line.queue),
            line.pending.to_string(),
            line.ready.to_string(),
            line.processing.to_string(),
            line.dead.to_string(),
            line.oldest_ready_age_s
                .map(|age| format!("{age} s"))
                .unwrap_or_default(),
        ]);
    }
    if out.is_json() {
        return Ok(());
    }
    out.table(
        &[
            "QUEUE",
            ">PENDING",
            ">READY",
            ">PROCESSING",
            ">DEAD",
            ">READY SINCE",
        ],
        rows,
    )
}
