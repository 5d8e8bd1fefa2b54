//! Raw: one connection, one prepared statement per commit, no thread in between.
//!
//! Tasks share the connection behind a mutex, which they hold only while a statement runs.

use std::sync::{Mutex, MutexGuard};

use rusqlite::{Connection, Result};

use super::{ACK, BUSINESS, Claimed, ENQUEUE, Event, LAPSED, LEASE, NOTIFY, PUBLISH, READ, READY};

pub(crate) struct Raw(Mutex<Connection>);

impl Raw {
    pub(crate) fn new(conn: Connection) -> Self {
        Self(Mutex::new(conn))
    }

    pub(crate) fn into_inner(self) -> Connection {
        self.0.into_inner().expect("no statement panics")
    }

    pub(crate) fn enqueue(&self, data: &[u8]) -> Result<i64> {
        let conn = self.conn();
        super::enqueue(&conn, &mut *conn.prepare_cached(ENQUEUE)?, data)
    }

    pub(crate) fn enqueue_batch(&self, batch: &[Vec<u8>]) -> Result<Vec<i64>> {
        self.transaction(|conn| {
            let mut insert = conn.prepare_cached(ENQUEUE)?;
            batch.iter().map(|data| super::enqueue(conn, &mut insert, data)).collect()
        })
    }

    /// A business row and a job in one transaction.
    pub(crate) fn order(&self, data: &[u8]) -> Result<i64> {
        self.transaction(|conn| {
            super::business(&mut *conn.prepare_cached(BUSINESS)?, data)?;
            super::enqueue(conn, &mut *conn.prepare_cached(ENQUEUE)?, data)
        })
    }

    pub(crate) fn claim(&self, n: usize) -> Result<Vec<Claimed>> {
        self.transaction(|conn| {
            let (mut ready, mut lapsed) =
                (conn.prepare_cached(READY)?, conn.prepare_cached(LAPSED)?);
            super::claim([&mut ready, &mut lapsed, &mut *conn.prepare_cached(LEASE)?], n)
        })
    }

    pub(crate) fn ack(&self, job: &Claimed) -> Result<bool> {
        super::ack(&mut *self.conn().prepare_cached(ACK)?, job)
    }

    pub(crate) fn ack_batch(&self, jobs: &[Claimed]) -> Result<usize> {
        self.transaction(|conn| {
            let mut delete = conn.prepare_cached(ACK)?;
            let mut acked = 0;
            for job in jobs {
                acked += usize::from(super::ack(&mut delete, job)?);
            }
            Ok(acked)
        })
    }

    pub(crate) fn publish(&self, data: &[u8]) -> Result<i64> {
        let conn = self.conn();
        super::publish(&conn, &mut *conn.prepare_cached(PUBLISH)?, data)
    }

    pub(crate) fn publish_batch(&self, data: &[u8], n: usize) -> Result<Vec<i64>> {
        self.transaction(|conn| {
            let mut insert = conn.prepare_cached(PUBLISH)?;
            (0..n).map(|_| super::publish(conn, &mut insert, data)).collect()
        })
    }

    pub(crate) fn read(&self, offset: i64, limit: i64) -> Result<Vec<Event>> {
        super::read(&mut *self.conn().prepare_cached(READ)?, offset, limit)
    }

    pub(crate) fn notify(&self) -> Result<()> {
        super::notify(&mut *self.conn().prepare_cached(NOTIFY)?)
    }

    fn transaction<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let conn = self.conn();
        conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let done = work(&conn)?;
        conn.prepare_cached("COMMIT")?.execute([])?;
        Ok(done)
    }

    fn conn(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().expect("no statement panics")
    }
}
