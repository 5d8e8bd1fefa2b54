//! Group: a writer thread; operations that wait at the same moment share a commit.
//!
//! Each runs in a savepoint of its own, so that its failure would undo nothing else, and is
//! answered over a oneshot channel after the commit.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use rusqlite::{CachedStatement, Connection, Result};
use tokio::sync::{Notify, oneshot};

use super::{ACK, BUSINESS, Claimed, ENQUEUE, LAPSED, LEASE, NOTIFY, PUBLISH, READY};

/// More than ever wait at once in these workloads.
const LARGEST_GROUP: usize = 256;

enum Op {
    Enqueue(Vec<u8>, oneshot::Sender<i64>),
    Order(Vec<u8>, oneshot::Sender<i64>),
    Claim(usize, oneshot::Sender<Vec<Claimed>>),
    Ack(Claimed, oneshot::Sender<bool>),
    Publish(Vec<u8>, oneshot::Sender<i64>),
    Notify(oneshot::Sender<bool>),
}

/// An answer that waits for the commit.
enum Done {
    Id(i64, oneshot::Sender<i64>),
    Claimed(Vec<Claimed>, oneshot::Sender<Vec<Claimed>>),
    Acked(bool, oneshot::Sender<bool>),
}

/// A handle to the writer; the thread ends with the last one.
#[derive(Clone)]
pub(crate) struct Group {
    ops: Sender<Op>,
    committed: Arc<Notify>,
}

impl Group {
    pub(crate) fn new(conn: Connection) -> Self {
        let (sender, ops) = mpsc::channel();
        let committed = Arc::new(Notify::new());
        let wake = committed.clone();
        thread::spawn(move || write(&conn, &ops, &wake).expect("the floor's disk works"));
        Self { ops: sender, committed }
    }

    /// Wakes one task after each commit.
    pub(crate) fn committed(&self) -> Arc<Notify> {
        self.committed.clone()
    }

    pub(crate) async fn publish(&self, data: &[u8]) -> i64 {
        self.ask(|reply| Op::Publish(data.to_vec(), reply)).await
    }

    pub(crate) async fn notify(&self) {
        self.ask(Op::Notify).await;
    }

    pub(crate) async fn enqueue(&self, data: &[u8]) -> i64 {
        self.ask(|reply| Op::Enqueue(data.to_vec(), reply)).await
    }

    /// A business row and a job in one transaction.
    pub(crate) async fn order(&self, data: &[u8]) -> i64 {
        self.ask(|reply| Op::Order(data.to_vec(), reply)).await
    }

    pub(crate) async fn claim(&self, n: usize) -> Vec<Claimed> {
        self.ask(|reply| Op::Claim(n, reply)).await
    }

    pub(crate) async fn ack(&self, job: Claimed) -> bool {
        self.ask(|reply| Op::Ack(job, reply)).await
    }

    async fn ask<T>(&self, op: impl FnOnce(oneshot::Sender<T>) -> Op) -> T {
        let (reply, answer) = oneshot::channel();
        self.ops.send(op(reply)).expect("the writer runs as long as handles live");
        answer.await.expect("the writer answers every operation")
    }
}

fn write(conn: &Connection, ops: &Receiver<Op>, committed: &Notify) -> Result<()> {
    let mut statements = Statements::prepare(conn)?;
    let mut done = Vec::with_capacity(LARGEST_GROUP);
    while let Ok(first) = ops.recv() {
        statements.begin.execute([])?;
        let mut next = Some(first);
        while let Some(op) = next {
            statements.savepoint.execute([])?;
            done.push(statements.run(conn, op)?);
            statements.release.execute([])?;
            next = if done.len() < LARGEST_GROUP { ops.try_recv().ok() } else { None };
        }
        statements.commit.execute([])?;
        committed.notify_one();
        done.drain(..).for_each(Done::answer);
    }
    Ok(())
}

struct Statements<'c> {
    begin: CachedStatement<'c>,
    commit: CachedStatement<'c>,
    savepoint: CachedStatement<'c>,
    release: CachedStatement<'c>,
    enqueue: CachedStatement<'c>,
    business: CachedStatement<'c>,
    ready: CachedStatement<'c>,
    lapsed: CachedStatement<'c>,
    lease: CachedStatement<'c>,
    ack: CachedStatement<'c>,
    publish: CachedStatement<'c>,
    notify: CachedStatement<'c>,
}

impl<'c> Statements<'c> {
    fn prepare(conn: &'c Connection) -> Result<Self> {
        Ok(Self {
            begin: conn.prepare_cached("BEGIN IMMEDIATE")?,
            commit: conn.prepare_cached("COMMIT")?,
            savepoint: conn.prepare_cached("SAVEPOINT op")?,
            release: conn.prepare_cached("RELEASE op")?,
            enqueue: conn.prepare_cached(ENQUEUE)?,
            business: conn.prepare_cached(BUSINESS)?,
            ready: conn.prepare_cached(READY)?,
            lapsed: conn.prepare_cached(LAPSED)?,
            lease: conn.prepare_cached(LEASE)?,
            ack: conn.prepare_cached(ACK)?,
            publish: conn.prepare_cached(PUBLISH)?,
            notify: conn.prepare_cached(NOTIFY)?,
        })
    }

    fn run(&mut self, conn: &Connection, op: Op) -> Result<Done> {
        Ok(match op {
            Op::Enqueue(data, reply) => {
                Done::Id(super::enqueue(conn, &mut self.enqueue, &data)?, reply)
            }
            Op::Order(data, reply) => {
                super::business(&mut self.business, &data)?;
                Done::Id(super::enqueue(conn, &mut self.enqueue, &data)?, reply)
            }
            Op::Claim(n, reply) => {
                let jobs = super::claim([&mut self.ready, &mut self.lapsed, &mut self.lease], n)?;
                Done::Claimed(jobs, reply)
            }
            Op::Ack(job, reply) => Done::Acked(super::ack(&mut self.ack, &job)?, reply),
            Op::Publish(data, reply) => {
                Done::Id(super::publish(conn, &mut self.publish, &data)?, reply)
            }
            Op::Notify(reply) => {
                super::notify(&mut self.notify)?;
                Done::Acked(true, reply)
            }
        })
    }
}

impl Done {
    fn answer(self) {
        // A caller that has gone needs no answer.
        match self {
            Self::Id(id, reply) => drop(reply.send(id)),
            Self::Claimed(jobs, reply) => drop(reply.send(jobs)),
            Self::Acked(acked, reply) => drop(reply.send(acked)),
        }
    }
}
