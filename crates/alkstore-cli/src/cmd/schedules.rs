//! `alkstore schedules`: every schedule and its boundaries.

use anyhow::Result;
use serde::Serialize;

use crate::connect::Engine;
use crate::output::{Output, shown, utc};

#[derive(Serialize)]
struct ScheduleLine<'a> {
    schedule: &'a str,
    spec: &'a str,
    queue: &'a str,
    priority: i64,
    max_attempts: Option<i64>,
    expires: Option<i64>,
    next_fire_at: i64,
    last_fire_at: Option<i64>,
}

/// Lists the schedules.
pub(crate) async fn run(store: &dyn Engine, out: &mut Output) -> Result<()> {
    let mut rows = Vec::new();
    for info in store.schedules().await? {
        let schedule = &info.schedule;
        if out.is_json() {
            out.object(&ScheduleLine {
                schedule: &schedule.name,
                spec: &schedule.spec,
                queue: &schedule.queue,
                priority: schedule.opts.priority,
                max_attempts: schedule.opts.max_attempts,
                expires: schedule.opts.expires,
                next_fire_at: info.next_fire_at,
                last_fire_at: info.last_fire_at,
            })?;
            continue;
        }
        rows.push(vec![
            shown(&schedule.name),
            shown(&schedule.spec),
            shown(&schedule.queue),
            utc(info.next_fire_at),
            info.last_fire_at.map(utc).unwrap_or_default(),
        ]);
    }
    if out.is_json() {
        return Ok(());
    }
    out.table(
        &["SCHEDULE", "SPEC", "QUEUE", "NEXT (UTC)", "LAST (UTC)"],
        rows,
    )
}
