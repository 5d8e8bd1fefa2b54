//! What changed in the database since the last look, and whom that wakes.

use std::collections::HashMap;

use alkstore::engine::clock::Clock;
use alkstore::engine::hub::{Hub, Kind};

use crate::conn::Session;
use crate::{queue, sql};

/// What was seen of the database so far.
#[derive(Debug)]
pub(super) struct Seen {
    data_version: i64,
    notification: i64,
    next_fire_us: Option<i64>,
    heads: HashMap<String, i64>,
    queues: HashMap<String, (bool, Option<i64>)>,
}

impl Seen {
    pub(super) fn new(session: &Session) -> rusqlite::Result<Self> {
        Ok(Self {
            data_version: data_version(session)?,
            notification: session.one(&sql::SEQUENCES, [], |row| row.get(3))?,
            next_fire_us: session.one(&sql::SCHEDULE_NEXT, [], |row| row.get(0))?,
            heads: HashMap::new(),
            queues: HashMap::new(),
        })
    }

    /// Wakes those whose data changed since the last look; `true` if anything was committed.
    pub(super) fn look(&mut self, session: &Session, hub: &Hub) -> rusqlite::Result<bool> {
        let data_version = data_version(session)?;
        if data_version == self.data_version {
            return Ok(false);
        }
        self.data_version = data_version;
        self.channels(session, hub)?;
        self.streams(session, hub)?;
        self.queues(session, hub)?;
        self.schedules(session, hub)?;
        Ok(true)
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
