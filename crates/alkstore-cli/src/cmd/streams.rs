//! `alkstore streams`: every stream, or the consumers of one.

use anyhow::Result;
use serde::Serialize;

use crate::connect::Engine;
use crate::output::{Output, shown};

/// Lists the streams, or the consumers of the one that is named.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The stream whose consumers to list.
    stream: Option<String>,
}

#[derive(Serialize)]
struct StreamLine<'a> {
    stream: &'a str,
    first: i64,
    head: i64,
    length: i64,
}

#[derive(Serialize)]
struct ConsumerLine<'a> {
    stream: &'a str,
    consumer: &'a str,
    offset: i64,
    lag: i64,
    ahead_of_log: bool,
    trimmed_past: bool,
}

/// Lists streams or consumers.
pub(crate) async fn run(args: Args, store: &dyn Engine, out: &mut Output) -> Result<()> {
    match args.stream {
        Some(stream) => consumers(&stream, store, out).await,
        None => streams(store, out).await,
    }
}

async fn streams(store: &dyn Engine, out: &mut Output) -> Result<()> {
    let mut rows = Vec::new();
    for stream in store.streams().await? {
        if out.is_json() {
            out.object(&StreamLine {
                stream: &stream.name,
                first: stream.first,
                head: stream.head,
                length: stream.length,
            })?;
            continue;
        }
        rows.push(vec![
            shown(&stream.name),
            stream.first.to_string(),
            stream.head.to_string(),
            stream.length.to_string(),
        ]);
    }
    if out.is_json() {
        return Ok(());
    }
    out.table(&["STREAM", ">FIRST", ">HEAD", ">EVENTS"], rows)
}

async fn consumers(stream: &str, store: &dyn Engine, out: &mut Output) -> Result<()> {
    let mut rows = Vec::new();
    for consumer in store.consumers(stream).await? {
        if out.is_json() {
            out.object(&ConsumerLine {
                stream,
                consumer: &consumer.consumer,
                offset: consumer.offset,
                lag: consumer.lag,
                ahead_of_log: consumer.ahead_of_log,
                trimmed_past: consumer.trimmed_past,
            })?;
            continue;
        }
        let note = match (consumer.ahead_of_log, consumer.trimmed_past) {
            (true, _) => "ahead of the log",
            (_, true) => "events were trimmed before it read them",
            _ => "",
        };
        rows.push(vec![
            shown(&consumer.consumer),
            consumer.offset.to_string(),
            consumer.lag.to_string(),
            note.to_owned(),
        ]);
    }
    if out.is_json() {
        return Ok(());
    }
    out.table(&["CONSUMER", ">OFFSET", ">LAG", "NOTE"], rows)
}
