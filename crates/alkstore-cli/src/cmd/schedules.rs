//! `alkstore schedules`: every schedule and its boundaries.

use alkstore::ops::ScheduleInfo;
use anyhow::Result;
use serde::Serialize;

use crate::connect::Engine;
use crate::output::{Output, shown, utc};

#[derive(Serialize)]
struct ScheduleLine {
    schedule: String,
    spec: String,
    queue: String,
    priority: i64,
    max_attempts: Option<i64>,
    expires: Option<i64>,
    next_fire_at: i64,
    last_fire_at: Option<i64>,
}

impl From<ScheduleInfo> for ScheduleLine {
    fn from(info: ScheduleInfo) -> Self {
        Self {
            schedule: info.schedule.name,
            spec: info.schedule.spec,
            queue: info.schedule.queue,
            priority: info.schedule.opts.priority,
            max_attempts: info.schedule.opts.max_attempts,
            expires: info.schedule.opts.expires,
            next_fire_at: info.next_fire_at,
            last_fire_at: info.last_fire_at,
        }
    }
}

/// Lists the schedules.
pub(crate) async fn run(store: &dyn Engine, out: &mut Output) -> Result<()> {
    let schedules = store.schedules().await?.into_iter().map(ScheduleLine::from);
    let header = ["SCHEDULE", "SPEC", "QUEUE", "NEXT (UTC)", "LAST (UTC)"];
    out.list(&header, schedules, |schedule| {
        vec![
            shown(&schedule.schedule),
            shown(&schedule.spec),
            shown(&schedule.queue),
            utc(schedule.next_fire_at),
            schedule.last_fire_at.map(utc).unwrap_or_default(),
        ]
    })
}
