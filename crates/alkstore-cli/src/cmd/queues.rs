//! `alkstore queues`: every queue and outbox that holds a job.

use alkstore::ops::QueueInfo;
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

impl From<QueueInfo> for QueueLine {
    fn from(queue: QueueInfo) -> Self {
        Self {
            queue: queue.address(),
            pending: queue.pending,
            ready: queue.ready,
            processing: queue.processing,
            dead: queue.dead,
            oldest_ready_age_s: queue.oldest_ready_age_s,
        }
    }
}

/// Lists the queues.
pub(crate) async fn run(store: &dyn Engine, out: &mut Output) -> Result<()> {
    let queues = store.queues().await?.into_iter().map(QueueLine::from);
    let header = ["QUEUE", ">PENDING", ">READY", ">PROCESSING", ">DEAD", ">OLDEST READY"];
    out.list(&header, queues, |queue| {
        vec![
            shown(&queue.queue),
            queue.pending.to_string(),
            queue.ready.to_string(),
            queue.processing.to_string(),
            queue.dead.to_string(),
            queue.oldest_ready_age_s.map(|age| format!("{age} s")).unwrap_or_default(),
        ]
    })
}
