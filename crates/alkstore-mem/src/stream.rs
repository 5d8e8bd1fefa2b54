//! Streams: append, read, checkpoints, and the receivers that follow.

use std::collections::BTreeMap;

use alkstore::engine::domain::whole_seconds;
use alkstore::engine::hub::{Kind, Signal};
use alkstore::{
    Error, EventReceiver, Result, StreamEvent, StreamHandle, async_trait, encode_payload,
    validate_local_name,
};
use serde_json::Value;
use tokio::task::coop::consume_budget;

use crate::conn::{Conn, Event, State};
use crate::queue::count;

/// A stream.
#[derive(Debug)]
pub(crate) struct MemStream {
    conn: Conn,
    name: String,
}

impl MemStream {
    pub(crate) fn new(conn: Conn, name: String) -> Self {
        Self { conn, name }
    }
}

#[async_trait]
impl StreamHandle for MemStream {
    fn name(&self) -> &str {
        &self.name
    }

    async fn publish(&self, payload: Value) -> Result<i64> {
        self.publish_with_key(None, payload).await
    }

    async fn publish_with_key(&self, key: Option<String>, payload: Value) -> Result<i64> {
        let draft = draft(key, &payload)?;
        let offset = self.conn.write(|state| publish(state, &self.name, draft)).await?;
        self.conn.wake(Kind::Stream, &self.name);
        Ok(offset)
    }

    async fn read_since(&self, offset: i64, limit: i64) -> Result<Vec<StreamEvent>> {
        self.conn.read(|state| read_since(state, &self.name, offset, limit)).await
    }

    async fn read_from_consumer(&self, consumer: &str, limit: i64) -> Result<Vec<StreamEvent>> {
        validate_local_name(consumer)?;
        self.conn
            .read(|state| {
                let offset = get_offset(state, &self.name, consumer);
                read_since(state, &self.name, offset, limit)
            })
            .await
    }

    async fn save_offset(&self, consumer: &str, offset: i64) -> Result<()> {
        validate_local_name(consumer)?;
        self.conn.write(|state| save_offset(state, &self.name, consumer, offset)).await
    }

    async fn get_offset(&self, consumer: &str) -> Result<i64> {
        validate_local_name(consumer)?;
        self.conn.read(|state| get_offset(state, &self.name, consumer)).await
    }

    async fn trim_to(&self, horizon: i64) -> Result<i64> {
        // The events are dropped here, after the lock.
        let trimmed = self.conn.write(|state| trim_to(state, &self.name, horizon)).await?;
        Ok(count(trimmed.len()))
    }

    async fn subscribe(&self, consumer: &str) -> Result<Box<dyn EventReceiver>> {
        validate_local_name(consumer)?;
        let signal = self.conn.subscribe(Kind::Stream, &self.name);
        let position = self.conn.read(|state| get_offset(state, &self.name, consumer)).await?;
        Ok(Box::new(MemEvents {
            conn: self.conn.clone(),
            stream: self.name.clone(),
            consumer: consumer.to_owned(),
            signal,
            position,
            yielded: None,
        }))
    }

    async fn publish_batch(&self, events: Vec<(Option<String>, Value)>) -> Result<Vec<i64>> {
        let drafts = draft_batch(events)?;
        let offsets = self
            .conn
            .write(|state| {
                let one = |draft| publish(state, &self.name, draft);
                drafts.into_iter().map(one).collect::<Vec<_>>()
            })
            .await?;
        if !offsets.is_empty() {
            self.conn.wake(Kind::Stream, &self.name);
        }
        Ok(offsets)
    }
}

/// Follows a stream. It holds its position and no events.
#[derive(Debug)]
struct MemEvents {
    conn: Conn,
    stream: String,
    consumer: String,
    signal: Signal,
    position: i64,
    yielded: Option<i64>,
}

#[async_trait]
impl EventReceiver for MemEvents {
    async fn recv(&mut self) -> Option<Result<StreamEvent>> {
        // A long backlog must not keep this task from yielding.
        consume_budget().await;
        loop {
            match self.try_recv() {
                Ok(Some(event)) => return Some(Ok(event)),
                Ok(None) => {}
                Err(_) => return None,
            }
            // Whether this is a wake or the end: look again, an event may have come before it.
            let _ = self.signal.recv().await;
        }
    }

    fn try_recv(&mut self) -> Result<Option<StreamEvent>> {
        let (event, closed) = self.conn.drain(|state| {
            let mut events = read_since(state, &self.stream, self.position, 1);
            (events.pop(), state.closed)
        });
        match event {
            Some(event) => {
                self.position = event.offset;
                self.yielded = Some(event.offset);
                Ok(Some(event))
            }
            None if closed => Err(Error::Closed),
            None => Ok(None),
        }
    }

    async fn read_since(&mut self, offset: i64, limit: i64) -> Result<Vec<StreamEvent>> {
        self.conn.read(|state| read_since(state, &self.stream, offset, limit)).await
    }

    async fn save_offset(&mut self) -> Result<()> {
        self.conn
            .write(|state| {
                if let Some(offset) = self.yielded {
                    save_offset(state, &self.stream, &self.consumer, offset);
                }
            })
            .await
    }

    fn offset(&self) -> i64 {
        self.yielded.unwrap_or(0)
    }
}

/// An event that has been checked and has no place in a stream yet.
pub(crate) struct Draft {
    key: Option<String>,
    payload: Vec<u8>,
}

impl Draft {
    /// The event, published now.
    pub(crate) fn publish(self, state: &State) -> Event {
        let created_at = whole_seconds(state.now_us);
        Event { key: self.key, payload: self.payload, created_at }
    }
}

pub(crate) fn draft(key: Option<String>, payload: &Value) -> Result<Draft> {
    if let Some(key) = &key {
        validate_local_name(key)?;
    }
    Ok(Draft { key, payload: encode_payload(payload)? })
}

pub(crate) fn draft_batch(events: Vec<(Option<String>, Value)>) -> Result<Vec<Draft>> {
    events.into_iter().map(|(key, payload)| draft(key, &payload)).collect()
}

pub(crate) fn publish(state: &mut State, stream: &str, draft: Draft) -> i64 {
    let event = draft.publish(state);
    let offset = state.next_offset();
    state.log(stream).append(offset, event);
    offset
}

/// Gives an open transaction offsets for its events; with its first ones in the stream, announces
/// how far others may read until it ends.
pub(crate) fn stage(
    state: &mut State,
    stream: &str,
    drafts: Vec<Draft>,
    is_first: bool,
) -> Vec<(i64, Event)> {
    let events: Vec<_> =
        drafts.into_iter().map(|draft| (state.next_offset(), draft.publish(state))).collect();
    if let Some((lowest, _)) = events.first().filter(|_| is_first) {
        state.log(stream).announce(*lowest);
    }
    events
}

pub(crate) fn read_since(state: &State, stream: &str, offset: i64, limit: i64) -> Vec<StreamEvent> {
    let Some(log) = state.streams.get(stream) else {
        return Vec::new();
    };
    let limit = usize::try_from(limit).unwrap_or(0);
    let events = log.between(offset, log.horizon(None)).take(limit);
    events.map(|(offset, event)| event.at(stream, offset)).collect()
}

/// Only raises the checkpoint; an absent one counts as 0.
pub(crate) fn save_offset(state: &mut State, stream: &str, consumer: &str, offset: i64) {
    if offset > get_offset(state, stream, consumer) {
        state.log(stream).set_checkpoint(consumer, offset);
    }
}

pub(crate) fn get_offset(state: &State, stream: &str, consumer: &str) -> i64 {
    state.streams.get(stream).map_or(0, |log| log.checkpoint(consumer))
}

pub(crate) fn trim_to(state: &mut State, stream: &str, horizon: i64) -> BTreeMap<i64, Event> {
    state.with_log(stream, |log| log.trim(horizon))
}
