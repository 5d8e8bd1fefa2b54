//! Lease: a writer thread that a caller-held transaction has to itself, four hops long.
//!
//! Begin, business row, enqueue and commit are each sent to the thread and awaited. Others that
//! begin meanwhile wait in line.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use rusqlite::{Connection, Result};
use tokio::sync::oneshot;

use super::{BUSINESS, ENQUEUE};

enum Hop {
    Begin(oneshot::Sender<()>),
    Business(Vec<u8>, oneshot::Sender<()>),
    Enqueue(Vec<u8>, oneshot::Sender<i64>),
    Commit(oneshot::Sender<()>),
}

/// A handle to the writer; the thread ends with the last one.
#[derive(Clone)]
pub(crate) struct Lease(Sender<Hop>);

impl Lease {
    pub(crate) fn new(conn: Connection) -> Self {
        let (sender, hops) = mpsc::channel();
        thread::spawn(move || write(&conn, &hops).expect("the floor's disk works"));
        Self(sender)
    }

    /// A business row and a job in one transaction.
    pub(crate) async fn order(&self, data: &[u8]) -> i64 {
        self.ask(Hop::Begin).await;
        self.ask(|reply| Hop::Business(data.to_vec(), reply)).await;
        let id = self.ask(|reply| Hop::Enqueue(data.to_vec(), reply)).await;
        self.ask(Hop::Commit).await;
        id
    }

    async fn ask<T>(&self, hop: impl FnOnce(oneshot::Sender<T>) -> Hop) -> T {
        let (reply, answer) = oneshot::channel();
        self.0.send(hop(reply)).expect("the writer runs as long as handles live");
        answer.await.expect("the writer answers every hop")
    }
}

fn write(conn: &Connection, hops: &Receiver<Hop>) -> Result<()> {
    let mut begin = conn.prepare_cached("BEGIN IMMEDIATE")?;
    let mut commit = conn.prepare_cached("COMMIT")?;
    let mut enqueue = conn.prepare_cached(ENQUEUE)?;
    let mut business = conn.prepare_cached(BUSINESS)?;
    let mut line: VecDeque<oneshot::Sender<()>> = VecDeque::new();
    let mut open = false;
    // Only the task whose transaction is open sends anything but Begin. Nobody gives up here,
    // so an answer always has a taker.
    while let Ok(hop) = hops.recv() {
        match hop {
            Hop::Begin(reply) => line.push_back(reply),
            Hop::Business(data, reply) => {
                super::business(&mut business, &data)?;
                let _ = reply.send(());
            }
            Hop::Enqueue(data, reply) => {
                let _ = reply.send(super::enqueue(conn, &mut enqueue, &data)?);
            }
            Hop::Commit(reply) => {
                commit.execute([])?;
                open = false;
                let _ = reply.send(());
            }
        }
        if !open && let Some(next) = line.pop_front() {
            begin.execute([])?;
            open = true;
            let _ = next.send(());
        }
    }
    Ok(())
}
