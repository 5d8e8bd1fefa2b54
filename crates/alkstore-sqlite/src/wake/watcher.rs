//! Watches for commits of other processes and wakes the receivers whose data changed.
//!
//! The thread starts with the first receiver. If it ends, every receiver closes, and the next
//! `listen`, `subscribe` or wait starts another.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alkstore::Result;
use alkstore::engine::clock::Clock;
use alkstore::engine::hub::{Hub, Kind};
use alkstore::engine::store_closed;
use tokio::sync::watch;

use crate::conn::Session;
use crate::error::{Fault, sqlite_error};
use crate::{queue, sql};

/// The thread that watches, if it runs.
#[derive(Debug, Default)]
pub(crate) struct Watcher {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    thread: Option<Thread>,
    stopped: bool,
}

#[derive(Debug)]
struct Thread {
    stop: Arc<(Mutex<bool>, Condvar)>,
    running: watch::Receiver<()>,
}

impl Watcher {
    /// Starts the thread unless it runs; what commits from then on is seen.
    pub(crate) fn ensure(
        &self,
        open: impl FnOnce() -> Result<(Session, Hub, Duration)>,
    ) -> Result<()> {
        let mut state = self.lock();
        if state.stopped {
            return Err(store_closed());
        }
        if state.thread.as_ref().is_some_and(|thread| thread.running.has_changed().is_ok()) {
            return Ok(());
        }
        let (session, hub, poll_interval) = open()?;
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let (ending, running) = watch::channel(());
        let stopped = stop.clone();
        let mut seen = Seen::new(&session).map_err(sqlite_error)?;
        std::thread::Builder::new()
            .name("alkstore-watcher".into())
            .spawn(move || {
                let watched = catch_unwind(AssertUnwindSafe(|| -> rusqlite::Result<()> {
                    while !sleep(&stopped, poll_interval) {
                        seen.look(&session, &hub)?;
                    }
                    Ok(())
                }));
                if let Ok(Err(error)) = watched {
                    tracing::error!(%error, "cannot watch for commits; receivers close");
                }
                drop(session);
                drop(ending);
                hub.close_receivers();
            })
            .map_err(Fault::Thread)?;
        state.thread = Some(Thread { stop, running });
        Ok(())
    }

    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        if let Some(thread) = &state.thread {
            *thread.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            thread.stop.1.notify_all();
        }
    }

    pub(crate) async fn stopped(&self) {
        let running = self.lock().thread.as_ref().map(|thread| thread.running.clone());
        if let Some(mut running) = running {
            while running.changed().await.is_ok() {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits for the interval; `true` if told to stop.
fn sleep(stop: &(Mutex<bool>, Condvar), interval: Duration) -> bool {
    let stopped = stop.0.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = stop.1.wait_timeout_while(stopped, interval, |stopped| !*stopped);
    *waited.unwrap_or_else(PoisonError::into_inner).0
}

/// What was seen of the database so far.
#[derive(Debug)]
struct Seen {
    data_version: i64,
    notification: i64,
    next_fire_us: Option<i64>,
    heads: HashMap<String, i64>,
    queues: HashMap<String, (bool, Option<i64>)>,
}

impl Seen {
    fn new(session: &Session) -> rusqlite::Result<Self> {
        Ok(Self {
            data_version: data_version(session)?,
            notification: session.one(&sql::SEQUENCES, [], |row| row.get(3))?,
            next_fire_us: session.one(&sql::SCHEDULE_NEXT, [], |row| row.get(0))?,
            heads: HashMap::new(),
            queues: HashMap::new(),
        })
    }

    /// Wakes those whose data changed since the last look.
    fn look(&mut self, session: &Session, hub: &Hub) -> rusqlite::Result<()> {
        let data_version = data_version(session)?;
        if data_version == self.data_version {
            return Ok(());
        }
        self.data_version = data_version;
        self.channels(session, hub)?;
        self.streams(session, hub)?;
        self.queues(session, hub)?;
        self.schedules(session, hub)
    }

    fn channels(&mut self, session: &Session, hub: &Hub) -> rusqlite::Result<()> {
        let sent = session.all(&sql::NOTIFY_READ_SINCE, [self.notification], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
        })?;
        for (channel, id) in sent {
            hub.wake_caused(Kind::Channel, &channel, id);
            self.notification = id;
        }
        Ok(())
    }

    fn streams(&mut self, session: &Session, hub: &Hub) -> rusqlite::Result<()> {
        let names = hub.names(Kind::Stream);
        self.heads.retain(|name, _| names.contains(name));
        for name in names {
            let head = session.one(&sql::STREAM_HEAD, [&name], |row| row.get(0))?;
            let head: i64 = Option::unwrap_or(head, 0);
            if self.heads.get(&name) != Some(&head) {
                hub.wake(Kind::Stream, &name);
                self.heads.insert(name, head);
            }
        }
        Ok(())
    }

    fn queues(&mut self, session: &Session, hub: &Hub) -> rusqlite::Result<()> {
        let names = hub.names(Kind::Queue);
        self.queues.retain(|name, _| names.contains(name));
        for name in names {
            let found = queue::work(session, &name, Clock::System.now_us())?;
            if found.0 || self.queues.get(&name) != Some(&found) {
                hub.wake(Kind::Queue, &name);
                self.queues.insert(name, found);
            }
        }
        Ok(())
    }

    fn schedules(&mut self, session: &Session, hub: &Hub) -> rusqlite::Result<()> {
        let next_fire_us = session.one(&sql::SCHEDULE_NEXT, [], |row| row.get(0))?;
        if next_fire_us != self.next_fire_us {
            self.next_fire_us = next_fire_us;
            hub.wake(Kind::Schedules, "");
        }
        Ok(())
    }
}

fn data_version(session: &Session) -> rusqlite::Result<i64> {
    session.one(&sql::DATA_VERSION, [], |row| row.get(0))
}
