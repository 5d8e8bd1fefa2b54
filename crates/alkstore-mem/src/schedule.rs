//! Schedules: rows with a next boundary, and the leader that fires them.

use alkstore::engine::clock::Clock;
use alkstore::engine::hub::{Kind, Signal};
use alkstore::engine::leader::{Leader, Tick};
use alkstore::engine::rows::ScheduleRow;
use alkstore::engine::stamps::{PLAIN, of_schedule};
use alkstore::engine::{SCHEDULER_LOCK, SCHEDULER_TTL_S, every};
use alkstore::{Lock, Result, ScheduleOpts, async_trait};
use tokio::task::yield_now;

use crate::conn::{Conn, State};
use crate::lock::{self, MemLock};
use crate::queue::enqueue;

/// Schedules that one tick fires, with up to 64 jobs each.
const TICK: usize = 64;

/// One run of `run_schedules`.
#[derive(Debug)]
pub(crate) struct MemLeader {
    conn: Conn,
    owner: String,
}

impl MemLeader {
    pub(crate) async fn new(conn: Conn) -> Result<Self> {
        let run = conn.write(State::next_runner).await?;
        Ok(Self { conn, owner: format!("runner-{run}") })
    }
}

#[async_trait]
impl Leader for MemLeader {
    async fn lead(&self) -> Result<Option<Box<dyn Lock>>> {
        let token = self
            .conn
            .write(|state| lock::acquire(state, SCHEDULER_LOCK, &self.owner, SCHEDULER_TTL_S))
            .await?;
        let held = |token| MemLock::new(self.conn.clone(), SCHEDULER_LOCK.to_owned(), token);
        Ok(token.map(|token| Box::new(held(token)) as Box<dyn Lock>))
    }

    async fn tick(&self, token: i64) -> Result<Tick> {
        let (tick, queues) = self.conn.write(|state| tick(state, token)).await?;
        for queue in queues {
            self.conn.wake(Kind::Queue, &queue);
        }
        if tick == Tick::More {
            yield_now().await;
        }
        Ok(tick)
    }

    async fn changes(&self) -> Result<Signal> {
        Ok(self.conn.subscribe(Kind::Schedules, ""))
    }

    fn clock(&self) -> &Clock {
        self.conn.clock()
    }
}

/// What a registration says.
pub(crate) struct Registration<'a> {
    pub(crate) name: &'a str,
    pub(crate) spec: &'a str,
    pub(crate) queue: &'a str,
    pub(crate) payload: Vec<u8>,
    pub(crate) opts: ScheduleOpts,
}

/// The same spec keeps its next boundary; a changed one starts anew.
pub(crate) fn register(state: &mut State, new: Registration<'_>, interval_s: i64) -> ScheduleRow {
    let (next_fire_us, last_fire_us) = match state.schedules.get(new.name) {
        Some(old) if old.spec == new.spec => (old.next_fire_us, old.last_fire_us),
        old => {
            let last_fire_us = old.and_then(|old| old.last_fire_us);
            (every::first(state.now_us, interval_s), last_fire_us)
        }
    };
    let row = ScheduleRow {
        name: new.name.to_owned(),
        spec: new.spec.to_owned(),
        queue: new.queue.to_owned(),
        payload: new.payload,
        opts: new.opts,
        next_fire_us,
        last_fire_us,
    };
    state.schedules.insert(row.name.clone(), row.clone());
    row
}

pub(crate) fn remove(state: &mut State, name: &str) -> bool {
    state.schedules.remove(name).is_some()
}

/// Fires what is due if the tenure `token` leads; returns the queues that got jobs.
pub(crate) fn tick(state: &mut State, token: i64) -> (Tick, Vec<String>) {
    if lock::held(state, SCHEDULER_LOCK).is_none_or(|row| row.fencing_token != token) {
        return (Tick::Lost, Vec::new());
    }
    let now_us = state.now_us;
    let is_due = |row: &&ScheduleRow| row.next_fire_us <= now_us;
    let mut due: Vec<ScheduleRow> = state.schedules.values().filter(is_due).cloned().collect();
    due.sort_by_key(|row| row.next_fire_us);
    due.truncate(TICK);
    let queues = due.into_iter().filter_map(|row| fire(state, row)).collect();
    let next_us = state.schedules.values().map(|row| row.next_fire_us).min();
    let tick = match next_us {
        Some(next_us) if next_us <= now_us => Tick::More,
        next_us => Tick::Idle(next_us.map(|us| us.saturating_sub(now_us))),
    };
    (tick, queues)
}

/// Enqueues a job per elapsed boundary and advances the schedule.
fn fire(state: &mut State, row: ScheduleRow) -> Option<String> {
    let interval_s = every::parse(&row.spec).ok()?;
    let due = every::due(row.next_fire_us, interval_s, state.now_us)?;
    let opts = of_schedule(&row.opts);
    for _ in 0..due.fires {
        enqueue(state, &row.queue, &opts, &PLAIN, row.payload.clone());
    }
    let queue = row.queue.clone();
    let fired = ScheduleRow { next_fire_us: due.next_us, last_fire_us: Some(due.last_us), ..row };
    state.schedules.insert(fired.name.clone(), fired);
    Some(queue)
}
