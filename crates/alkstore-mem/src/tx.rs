//! Transactions: writes are staged and merged into the state at the commit.
//!
//! Nothing is locked between calls, so any number may be open side by side, on one thread too.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use alkstore::engine::hub::Kind;
use alkstore::engine::outbox_queue;
use alkstore::engine::stamps::{OUTBOX, PLAIN};
use alkstore::{
    EnqueueOpts, Job, QueueOpts, Result, StreamEvent, TxHandle, async_trait, encode_payload,
    validate_local_name, validate_shared_name,
};
use serde_json::Value;

use crate::conn::{Conn, Event, Row, State};
use crate::notify::notify;
use crate::queue::{encode_batch, get_job, insert, new_job};
use crate::stream::{Draft, draft, draft_batch, get_offset, save_offset, stage};

/// An open transaction of a [`MemStore`](crate::MemStore).
pub struct MemTx {
    conn: Conn,
    staged: Staged,
}

/// What a transaction has written so far.
#[derive(Default)]
struct Staged {
    /// Per queue, by id.
    jobs: HashMap<String, Vec<(i64, Box<Row>)>>,
    /// Per stream, by offset. The first one's is announced.
    events: HashMap<String, Vec<(i64, Event)>>,
    /// Per stream and consumer.
    offsets: HashMap<String, HashMap<String, i64>>,
    channels: BTreeSet<String>,
}

/// Whom a commit wakes.
struct Wakes {
    queues: Vec<String>,
    streams: Vec<String>,
    channels: BTreeSet<String>,
    notification: i64,
}

impl MemTx {
    pub(crate) async fn begin(conn: &Conn) -> Result<Self> {
        conn.read(|_| ()).await?;
        Ok(Self { conn: conn.clone(), staged: Staged::default() })
    }

    async fn enqueue(
        &mut self,
        queue: &str,
        stamps: &QueueOpts,
        jobs: Vec<(Vec<u8>, EnqueueOpts)>,
    ) -> Result<Vec<i64>> {
        let rows: Vec<_> = self
            .conn
            .write(|state| {
                let one = |(payload, opts)| new_job(state, &opts, stamps, payload);
                jobs.into_iter().map(one).collect()
            })
            .await?;
        let ids = rows.iter().map(|(id, _)| *id).collect();
        if !rows.is_empty() {
            entry(&mut self.staged.jobs, queue).extend(rows);
        }
        Ok(ids)
    }

    async fn publish(&mut self, stream: &str, drafts: Vec<Draft>) -> Result<Vec<i64>> {
        let is_first = !self.staged.events.contains_key(stream);
        let events = self.conn.write(|state| stage(state, stream, drafts, is_first)).await?;
        let offsets = events.iter().map(|(offset, _)| *offset).collect();
        if !events.is_empty() {
            entry(&mut self.staged.events, stream).extend(events);
        }
        Ok(offsets)
    }
}

#[async_trait]
impl TxHandle for MemTx {
    async fn enqueue_tx(&mut self, queue: &str, opts: EnqueueOpts, payload: Value) -> Result<i64> {
        validate_shared_name(queue)?;
        let payload = encode_payload(&payload)?;
        self.enqueue(queue, &PLAIN, vec![(payload, opts)]).await.map(only)
    }

    async fn publish_tx(&mut self, stream: &str, payload: Value) -> Result<i64> {
        self.publish_with_key_tx(stream, None, payload).await
    }

    async fn publish_with_key_tx(
        &mut self,
        stream: &str,
        key: Option<String>,
        payload: Value,
    ) -> Result<i64> {
        validate_shared_name(stream)?;
        let draft = draft(key, &payload)?;
        self.publish(stream, vec![draft]).await.map(only)
    }

    async fn notify_tx(&mut self, channel: &str, payload: Value) -> Result<()> {
        validate_shared_name(channel)?;
        encode_payload(&payload)?;
        self.conn.read(|_| ()).await?;
        self.staged.channels.insert(channel.to_owned());
        Ok(())
    }

    async fn save_offset_tx(&mut self, stream: &str, consumer: &str, offset: i64) -> Result<()> {
        validate_shared_name(stream)?;
        validate_local_name(consumer)?;
        let seen = self.conn.read(|state| self.staged.offset(state, stream, consumer)).await?;
        if offset > seen {
            entry(&mut self.staged.offsets, stream).insert(consumer.to_owned(), offset);
        }
        Ok(())
    }

    async fn get_job_tx(&mut self, queue: &str, job_id: i64) -> Result<Option<Job>> {
        validate_shared_name(queue)?;
        self.conn
            .read(|state| self.staged.job(queue, job_id).or_else(|| get_job(state, queue, job_id)))
            .await
    }

    async fn get_offset_tx(&mut self, stream: &str, consumer: &str) -> Result<i64> {
        validate_shared_name(stream)?;
        validate_local_name(consumer)?;
        self.conn.read(|state| self.staged.offset(state, stream, consumer)).await
    }

    async fn read_since_tx(
        &mut self,
        stream: &str,
        offset: i64,
        limit: i64,
    ) -> Result<Vec<StreamEvent>> {
        validate_shared_name(stream)?;
        self.conn.read(|state| self.staged.read_since(state, stream, offset, limit)).await
    }

    async fn read_from_consumer_tx(
        &mut self,
        stream: &str,
        consumer: &str,
        limit: i64,
    ) -> Result<Vec<StreamEvent>> {
        validate_shared_name(stream)?;
        validate_local_name(consumer)?;
        self.conn
            .read(|state| {
                let offset = self.staged.offset(state, stream, consumer);
                self.staged.read_since(state, stream, offset, limit)
            })
            .await
    }

    async fn outbox_enqueue_tx(
        &mut self,
        outbox: &str,
        opts: EnqueueOpts,
        payload: Value,
    ) -> Result<i64> {
        validate_shared_name(outbox)?;
        let payload = encode_payload(&payload)?;
        self.enqueue(&outbox_queue(outbox), &OUTBOX, vec![(payload, opts)]).await.map(only)
    }

    async fn enqueue_batch_tx(
        &mut self,
        queue: &str,
        jobs: Vec<(Value, EnqueueOpts)>,
    ) -> Result<Vec<i64>> {
        validate_shared_name(queue)?;
        let jobs = encode_batch(jobs)?;
        self.enqueue(queue, &PLAIN, jobs).await
    }

    async fn publish_batch_tx(
        &mut self,
        stream: &str,
        events: Vec<(Option<String>, Value)>,
    ) -> Result<Vec<i64>> {
        validate_shared_name(stream)?;
        let drafts = draft_batch(events)?;
        self.publish(stream, drafts).await
    }

    async fn commit(mut self: Box<Self>) -> Result<()> {
        let Self { conn, staged } = &mut *self;
        // Taken only in there: whoever gives up before leaves the rollback to `drop`.
        let wakes = conn.write(|state| std::mem::take(staged).merge(state)).await?;
        for queue in &wakes.queues {
            self.conn.wake(Kind::Queue, queue);
        }
        for stream in &wakes.streams {
            self.conn.wake(Kind::Stream, stream);
        }
        for channel in &wakes.channels {
            self.conn.wake_channel(channel, wakes.notification);
        }
        Ok(())
    }

    async fn rollback(self: Box<Self>) -> Result<()> {
        self.conn.read(|_| ()).await
    }
}

impl Staged {
    fn job(&self, queue: &str, id: i64) -> Option<Job> {
        let rows = self.jobs.get(queue)?;
        let at = rows.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(rows[at].1.job(queue, id))
    }

    fn offset(&self, state: &State, stream: &str, consumer: &str) -> i64 {
        let stored = get_offset(state, stream, consumer);
        let own = self.offsets.get(stream).and_then(|offsets| offsets.get(consumer));
        own.map_or(stored, |own| stored.max(*own))
    }

    /// Committed and own events, in order, up to what another open transaction may still fill:
    /// the caller may save the last one as its checkpoint.
    fn read_since(&self, state: &State, stream: &str, offset: i64, limit: i64) -> Vec<StreamEvent> {
        let Some(log) = state.streams.get(stream) else {
            return Vec::new();
        };
        let limit = usize::try_from(limit).unwrap_or(0);
        let own = self.events.get(stream).map_or(&[][..], Vec::as_slice);
        let horizon = log.horizon(own.first().map(|(offset, _)| *offset));
        let committed = log.between(offset, horizon).take(limit);
        let mut events: Vec<_> =
            committed.map(|(offset, event)| event.at(stream, offset)).collect();
        let start = own.partition_point(|(own, _)| *own <= offset);
        let own = own[start..].iter().take_while(|(own, _)| *own < horizon).take(limit);
        events.extend(own.map(|(offset, event)| event.at(stream, *offset)));
        events.sort_unstable_by_key(|event| event.offset);
        events.truncate(limit);
        events
    }

    fn merge(self, state: &mut State) -> Wakes {
        let mut wakes = Wakes {
            queues: Vec::new(),
            streams: Vec::new(),
            notification: state.notifications,
            channels: self.channels,
        };
        for (queue, rows) in self.jobs {
            for (id, row) in rows {
                insert(state, &queue, id, row);
            }
            wakes.queues.push(queue);
        }
        for (stream, events) in self.events {
            let log = state.log(&stream);
            log.withdraw(events[0].0);
            for (offset, event) in events {
                log.append(offset, event);
            }
            wakes.streams.push(stream);
        }
        for (stream, offsets) in self.offsets {
            for (consumer, offset) in offsets {
                save_offset(state, &stream, &consumer, offset);
            }
        }
        if !wakes.channels.is_empty() {
            wakes.notification = notify(state);
        }
        wakes
    }
}

impl Drop for MemTx {
    /// Rolls back: others may read the streams that this transaction held up.
    fn drop(&mut self) {
        let events = std::mem::take(&mut self.staged.events);
        if events.is_empty() {
            return;
        }
        self.conn.abandon(|state| {
            for (stream, events) in &events {
                state.with_log(stream, |log| log.withdraw(events[0].0));
            }
        });
        for stream in events.keys() {
            self.conn.wake(Kind::Stream, stream);
        }
    }
}

impl fmt::Debug for MemTx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemTx")
    }
}

fn entry<'a, T: Default>(map: &'a mut HashMap<String, T>, name: &str) -> &'a mut T {
    if !map.contains_key(name) {
        map.insert(name.to_owned(), T::default());
    }
    map.get_mut(name).expect("it was just inserted")
}

fn only(ids: Vec<i64>) -> i64 {
    ids[0]
}
