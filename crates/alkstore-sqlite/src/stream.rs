//! Streams: rows in offset order. There is one writer, so offsets and commits have one order.

use std::collections::VecDeque;
use std::sync::Arc;

use alkstore::engine::domain::{extent, whole_seconds};
use alkstore::engine::hub::{Kind, Signal};
use alkstore::engine::rows::EventRow;
use alkstore::{
    Error, EventReceiver, Result, StreamEvent, StreamHandle, async_trait, encode_payload,
    validate_local_name,
};
use rusqlite::{Statement, params};
use serde_json::Value;

use crate::conn::{Core, Sequence, Session, Write};
use crate::{rows, sql};

/// A receiver reads ahead by at most this many events, or this many bytes and one event.
const PAGE: i64 = 256;
const PAGE_BYTES: usize = 1 << 20;
/// Events that one write transaction deletes, so that other writers get a turn.
const TRIM_CHUNK: i64 = 2_000;

/// A handle to a stream.
#[derive(Debug)]
pub(crate) struct SqliteStream {
    core: Arc<Core>,
    name: Arc<str>,
}

impl SqliteStream {
    pub(crate) fn new(core: Arc<Core>, name: &str) -> Self {
        Self { core, name: name.into() }
    }
}

/// An event that is ready to be written.
#[derive(Debug)]
pub(crate) struct NewEvent {
    key: Option<String>,
    payload: Vec<u8>,
    created_at: i64,
}

impl NewEvent {
    /// Checks an event, its key first, created at this reading of the clock.
    pub(crate) fn new(
        now_us: i64,
        key: Option<String>,
        payload: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<Self> {
        if let Some(key) = &key {
            validate_local_name(key)?;
        }
        Ok(Self { key, payload: payload()?, created_at: whole_seconds(now_us) })
    }

    /// Checks and encodes a batch.
    pub(crate) fn batch(now_us: i64, events: Vec<(Option<String>, Value)>) -> Result<Vec<Self>> {
        let new = |(key, payload): (_, Value)| Self::new(now_us, key, || encode_payload(&payload));
        events.into_iter().map(new).collect()
    }
}

#[async_trait]
impl StreamHandle for SqliteStream {
    fn name(&self) -> &str {
        &self.name
    }

    async fn publish(&self, payload: Value) -> Result<i64> {
        self.publish_with_key(None, payload).await
    }

    async fn publish_with_key(&self, key: Option<String>, payload: Value) -> Result<i64> {
        let event = NewEvent::new(self.core.clock.now_us(), key, || encode_payload(&payload))?;
        let stream = self.name.clone();
        self.core.write_one(move |write| publish(write, &stream, &event)).await
    }

    async fn read_since(&self, offset: i64, limit: i64) -> Result<Vec<StreamEvent>> {
        read_events(&self.core, &self.name, offset, limit).await
    }

    async fn read_from_consumer(&self, consumer: &str, limit: i64) -> Result<Vec<StreamEvent>> {
        validate_local_name(consumer)?;
        let Some(limit) = extent(limit) else {
            return Ok(Vec::new());
        };
        let (stream, consumer) = (self.name.clone(), consumer.to_owned());
        let rows = self.core.read(move |session| {
            let offset = get_offset(session, &stream, &consumer)?;
            read_since(session, &stream, offset, limit)
        });
        Ok(into_events(rows.await?))
    }

    async fn save_offset(&self, consumer: &str, offset: i64) -> Result<()> {
        validate_local_name(consumer)?;
        let (stream, consumer) = (self.name.clone(), consumer.to_owned());
        self.core.write_one(move |write| save_offset(write, &stream, &consumer, offset)).await
    }

    async fn get_offset(&self, consumer: &str) -> Result<i64> {
        validate_local_name(consumer)?;
        let (stream, consumer) = (self.name.clone(), consumer.to_owned());
        self.core.read(move |session| get_offset(session, &stream, &consumer)).await
    }

    async fn trim_to(&self, horizon: i64) -> Result<i64> {
        let mut trimmed = 0;
        loop {
            let stream = self.name.clone();
            let chunk = self.core.write(move |write| trim(write, &stream, horizon)).await?;
            trimmed += chunk;
            if chunk < TRIM_CHUNK {
                return Ok(trimmed);
            }
        }
    }

    async fn subscribe(&self, consumer: &str) -> Result<Box<dyn EventReceiver>> {
        validate_local_name(consumer)?;
        let signal = self.core.subscribe(Kind::Stream, &self.name).await?;
        let cursor = self.get_offset(consumer).await?;
        Ok(Box::new(SqliteEvents {
            core: self.core.clone(),
            stream: self.name.clone(),
            consumer: consumer.to_owned(),
            signal,
            cursor,
            yielded: None,
            buffer: VecDeque::new(),
            stale: true,
            closed: false,
        }))
    }

    async fn publish_batch(&self, events: Vec<(Option<String>, Value)>) -> Result<Vec<i64>> {
        let events = NewEvent::batch(self.core.clock.now_us(), events)?;
        let stream = self.name.clone();
        self.core.write(move |write| publish_batch(write, &stream, &events)).await
    }
}

/// Follows a stream, a page at a time.
#[derive(Debug)]
struct SqliteEvents {
    core: Arc<Core>,
    stream: Arc<str>,
    consumer: String,
    signal: Signal,
    /// The last offset that was read.
    cursor: i64,
    yielded: Option<i64>,
    buffer: VecDeque<EventRow>,
    /// Whether there may be more beyond the cursor.
    stale: bool,
    closed: bool,
}

impl SqliteEvents {
    fn pop(&mut self) -> Option<StreamEvent> {
        let row = self.buffer.pop_front()?;
        self.yielded = Some(row.offset);
        Some(row.into())
    }

    /// Reads the page beyond a cursor, and whether it ends before the stream does.
    fn page(
        &self,
    ) -> impl FnOnce(&Session) -> rusqlite::Result<(Vec<EventRow>, bool)> + Send + 'static {
        let (stream, cursor) = (self.stream.clone(), self.cursor);
        move |session| read_page(session, &stream, cursor)
    }

    fn filled(&mut self, page: (Vec<EventRow>, bool)) {
        let (rows, more) = page;
        if let Some(last) = rows.last() {
            self.cursor = last.offset;
        }
        self.buffer = rows.into();
        self.stale = more;
    }

    fn failed(&mut self, error: Error) -> Error {
        if self.signal.is_closed() {
            self.closed = true;
            return Error::Closed;
        }
        error
    }
}

#[async_trait]
impl EventReceiver for SqliteEvents {
    async fn recv(&mut self) -> Option<Result<StreamEvent>> {
        loop {
            if let Some(event) = self.pop() {
                return Some(Ok(event));
            }
            if self.closed {
                return None;
            }
            if self.stale {
                match self.core.read(self.page()).await {
                    Ok(page) => self.filled(page),
                    Err(error) => match self.failed(error) {
                        Error::Closed => return None,
                        error => return Some(Err(error)),
                    },
                }
            } else if self.signal.recv().await.is_some() {
                self.stale = true;
            } else {
                self.closed = true;
            }
        }
    }

    fn try_recv(&mut self) -> Result<Option<StreamEvent>> {
        loop {
            if let Some(event) = self.pop() {
                return Ok(Some(event));
            }
            if self.closed {
                return Err(Error::Closed);
            }
            if self.stale {
                // SQLite answers from memory or disk at once; there is no way to ask it later.
                let page = self.core.read_now(self.page()).map_err(|error| self.failed(error))?;
                self.filled(page);
                if self.buffer.is_empty() && !self.stale {
                    return Ok(None);
                }
            } else {
                match self.signal.try_recv() {
                    Ok(Some(_)) => self.stale = true,
                    Ok(None) => return Ok(None),
                    Err(_) => self.closed = true,
                }
            }
        }
    }

    async fn read_since(&mut self, offset: i64, limit: i64) -> Result<Vec<StreamEvent>> {
        read_events(&self.core, &self.stream, offset, limit).await
    }

    async fn save_offset(&mut self) -> Result<()> {
        let Some(offset) = self.yielded else {
            return Ok(());
        };
        let (stream, consumer) = (self.stream.clone(), self.consumer.clone());
        self.core.write_one(move |write| save_offset(write, &stream, &consumer, offset)).await
    }

    fn offset(&self) -> i64 {
        self.yielded.unwrap_or(0)
    }
}

async fn read_events(
    core: &Core,
    stream: &Arc<str>,
    offset: i64,
    limit: i64,
) -> Result<Vec<StreamEvent>> {
    let Some(limit) = extent(limit) else {
        return Ok(Vec::new());
    };
    let stream = stream.clone();
    let rows = core.read(move |session| read_since(session, &stream, offset, limit)).await?;
    Ok(into_events(rows))
}

pub(crate) fn into_events(rows: Vec<EventRow>) -> Vec<StreamEvent> {
    rows.into_iter().map(StreamEvent::from).collect()
}

pub(crate) fn publish(
    write: &mut Write<'_>,
    stream: &Arc<str>,
    event: &NewEvent,
) -> rusqlite::Result<i64> {
    let offset = write.next_id(Sequence::Event)?;
    insert(&mut *write.prepared(&sql::STREAM_PUBLISH)?, stream, offset, event)?;
    write.touch(Kind::Stream, stream);
    Ok(offset)
}

pub(crate) fn publish_batch(
    write: &mut Write<'_>,
    stream: &Arc<str>,
    events: &[NewEvent],
) -> rusqlite::Result<Vec<i64>> {
    let first = write.next_ids(Sequence::Event, i64::try_from(events.len()).unwrap_or(i64::MAX))?;
    let mut statement = write.prepared(&sql::STREAM_PUBLISH)?;
    for (offset, event) in (first..).zip(events) {
        insert(&mut statement, stream, offset, event)?;
    }
    drop(statement);
    write.touch(Kind::Stream, stream);
    Ok((first..).take(events.len()).collect())
}

fn insert(
    statement: &mut Statement<'_>,
    stream: &str,
    offset: i64,
    event: &NewEvent,
) -> rusqlite::Result<()> {
    statement.execute((stream, offset, &event.key, event.created_at, &event.payload))?;
    Ok(())
}

pub(crate) fn read_since(
    session: &Session,
    stream: &str,
    offset: i64,
    limit: i64,
) -> rusqlite::Result<Vec<EventRow>> {
    session.all(&sql::STREAM_READ_SINCE, params![stream, offset, limit], |row| {
        rows::event(stream, row)
    })
}

/// A page of bounded size, and whether there may be more beyond it.
fn read_page(
    session: &Session,
    stream: &str,
    offset: i64,
) -> rusqlite::Result<(Vec<EventRow>, bool)> {
    let mut bytes = 0;
    let page = session.all_while(
        &sql::STREAM_READ_SINCE,
        params![stream, offset, PAGE],
        |row| rows::event(stream, row),
        |event: &EventRow| {
            bytes += event.payload.len();
            bytes < PAGE_BYTES
        },
    )?;
    let more = bytes >= PAGE_BYTES || i64::try_from(page.len()).is_ok_and(|len| len >= PAGE);
    Ok((page, more))
}

pub(crate) fn save_offset(
    write: &mut Write<'_>,
    stream: &str,
    consumer: &str,
    offset: i64,
) -> rusqlite::Result<()> {
    write.run(&sql::STREAM_SAVE_OFFSET, params![stream, consumer, offset])?;
    Ok(())
}

pub(crate) fn get_offset(session: &Session, stream: &str, consumer: &str) -> rusqlite::Result<i64> {
    let offset =
        session.first(&sql::STREAM_GET_OFFSET, params![stream, consumer], |row| row.get(0));
    Ok(offset?.unwrap_or(0))
}

/// Deletes the first events up to the horizon and returns how many.
fn trim(write: &mut Write<'_>, stream: &str, horizon: i64) -> rusqlite::Result<i64> {
    let end: Option<i64> =
        write.one(&sql::STREAM_TRIM_END, params![stream, horizon, TRIM_CHUNK], |row| row.get(0))?;
    let Some(end) = end else { return Ok(0) };
    let trimmed = write.run(&sql::STREAM_TRIM, params![stream, end])?;
    write.run(&sql::STREAM_TRIM_MARK, params![stream, end])?;
    Ok(i64::try_from(trimmed).unwrap_or(i64::MAX))
}
