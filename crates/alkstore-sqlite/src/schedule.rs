//! Schedules: a fire and the boundary's advance are one transaction.

use std::sync::Arc;

use alkstore::engine::clock::Clock;
use alkstore::engine::hub::{Kind, Signal};
use alkstore::engine::leader::{Leader, Tick};
use alkstore::engine::rows::ScheduleRow;
use alkstore::engine::stamps::{PLAIN, of_schedule};
use alkstore::engine::{SCHEDULER_LOCK, SCHEDULER_TTL_S, every};
use alkstore::{Lock, Result, Schedule, ScheduleOpts, async_trait};
use rusqlite::params;

use crate::conn::{Core, Write};
use crate::lock::SqliteLock;
use crate::queue::{NewJob, enqueue};
use crate::{rows, sql};

/// Schedules that one tick looks at, with up to 64 fires each.
const TICK: i64 = 8;

/// A schedule as it was registered.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) name: String,
    pub(crate) spec: String,
    pub(crate) queue: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) opts: ScheduleOpts,
}

/// Runs the schedules of a store.
#[derive(Debug)]
pub(crate) struct SqliteLeader {
    core: Arc<Core>,
}

impl SqliteLeader {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }
}

#[async_trait]
impl Leader for SqliteLeader {
    async fn lead(&self) -> Result<Option<Box<dyn Lock>>> {
        let owner = format!("{}-{:016x}", std::process::id(), fastrand::u64(..));
        SqliteLock::acquire(&self.core, SCHEDULER_LOCK, &owner, SCHEDULER_TTL_S).await
    }

    async fn tick(&self, token: i64) -> Result<Tick> {
        self.core.write(move |write| tick(write, token)).await
    }

    async fn changes(&self) -> Result<Signal> {
        self.core.subscribe(Kind::Schedules, "").await
    }

    fn clock(&self) -> &Clock {
        &self.core.clock
    }
}

pub(crate) fn register(
    write: &mut Write<'_>,
    new: &Registration,
    interval_s: i64,
) -> rusqlite::Result<Schedule> {
    let now_us = write.now_us();
    let old = write.first(&sql::SCHEDULE_GET, [&new.name], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, Option<i64>>(2)?))
    })?;
    let (next_fire_us, last_fire_us) = match old {
        Some((spec, next, last)) if spec == new.spec => (next, last),
        Some((_, _, last)) => (every::first(now_us, interval_s), last),
        None => (every::first(now_us, interval_s), None),
    };
    let Registration { name, spec, queue, payload, opts } = new;
    write.run(
        &sql::SCHEDULE_UPSERT,
        params![
            name,
            spec,
            queue,
            payload,
            opts.priority,
            opts.max_attempts,
            opts.expires,
            next_fire_us,
            last_fire_us,
        ],
    )?;
    write.touch(Kind::Schedules, &"".into());
    let row = ScheduleRow {
        name: name.clone(),
        spec: spec.clone(),
        queue: queue.clone(),
        payload: Vec::new(),
        opts: opts.clone(),
        next_fire_us,
        last_fire_us,
    };
    Ok(row.into())
}

pub(crate) fn remove(write: &mut Write<'_>, name: &str) -> rusqlite::Result<bool> {
    write.touch(Kind::Schedules, &"".into());
    Ok(write.run(&sql::SCHEDULE_DELETE, [name])? > 0)
}

fn tick(write: &mut Write<'_>, token: i64) -> rusqlite::Result<Tick> {
    let now_us = write.now_us();
    let leads = write.first(&sql::LOCK_GET, [SCHEDULER_LOCK], |row| {
        Ok(row.get::<_, i64>(1)? == token && row.get::<_, i64>(2)? > now_us)
    })?;
    if leads != Some(true) {
        return Ok(Tick::Lost);
    }
    let due = write.all(&sql::SCHEDULE_DUE, params![now_us, TICK], rows::schedule)?;
    for schedule in &due {
        fire(write, schedule, now_us)?;
    }
    if i64::try_from(due.len()).is_ok_and(|len| len >= TICK) {
        return Ok(Tick::More);
    }
    let next: Option<i64> = write.one(&sql::SCHEDULE_NEXT, [], |row| row.get(0))?;
    Ok(Tick::Idle(next.map(|next| next.saturating_sub(now_us))))
}

fn fire(write: &mut Write<'_>, schedule: &ScheduleRow, now_us: i64) -> rusqlite::Result<()> {
    let Ok(interval_s) = every::parse(&schedule.spec) else {
        tracing::error!(schedule = schedule.name, spec = schedule.spec, "unreadable spec, skipped");
        // Out of the way until it is registered again.
        write
            .run(&sql::SCHEDULE_ADVANCE, params![i64::MAX, schedule.last_fire_us, schedule.name])?;
        return Ok(());
    };
    let Some(due) = every::due(schedule.next_fire_us, interval_s, now_us) else {
        return Ok(());
    };
    let opts = of_schedule(&schedule.opts);
    let job = NewJob::new(now_us, &opts, &PLAIN, schedule.payload.clone());
    let queue: Arc<str> = schedule.queue.as_str().into();
    for _ in 0..due.fires {
        enqueue(write, &queue, &job)?;
    }
    write.run(&sql::SCHEDULE_ADVANCE, params![due.next_us, due.last_us, schedule.name])?;
    Ok(())
}
