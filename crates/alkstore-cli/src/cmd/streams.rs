//! `alkstore streams`: every stream, or the consumers of one.

use alkstore::ops::{ConsumerInfo, StreamInfo};
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
struct StreamLine {
    stream: String,
    first: i64,
    head: i64,
    length: i64,
}

impl From<StreamInfo> for StreamLine {
    fn from(stream: StreamInfo) -> Self {
        let StreamInfo { first, head, length, .. } = stream;
        Self { stream: stream.name, first, head, length }
    }
}

#[derive(Serialize)]
struct ConsumerLine<'a> {
    stream: &'a str,
    consumer: String,
    offset: i64,
    lag: i64,
    ahead_of_log: bool,
    trimmed_past: bool,
}

impl<'a> ConsumerLine<'a> {
    fn new(stream: &'a str, consumer: ConsumerInfo) -> Self {
        Self {
            stream,
            consumer: consumer.consumer,
            offset: consumer.offset,
            lag: consumer.lag,
            ahead_of_log: consumer.ahead_of_log,
            trimmed_past: consumer.trimmed_past,
        }
    }

    fn note(&self) -> &'static str {
        match (self.ahead_of_log, self.trimmed_past) {
            (true, _) => "ahead of the log",
            (_, true) => "events were trimmed before it read them",
            _ => "",
        }
    }
}

/// Lists streams or consumers.
pub(crate) async fn run(args: Args, store: &dyn Engine, out: &mut Output) -> Result<()> {
    let Some(name) = args.stream else {
        let streams = store.streams().await?.into_iter().map(StreamLine::from);
        return out.list(&["STREAM", ">FIRST", ">HEAD", ">EVENTS"], streams, |stream| {
            vec![
                shown(&stream.stream),
                stream.first.to_string(),
                stream.head.to_string(),
                stream.length.to_string(),
            ]
        });
    };
    let consumers = store.consumers(&name).await?;
    let lines = consumers.into_iter().map(|consumer| ConsumerLine::new(&name, consumer));
    out.list(&["CONSUMER", ">OFFSET", ">LAG", "NOTE"], lines, |line| {
        vec![
            shown(&line.consumer),
            line.offset.to_string(),
            line.lag.to_string(),
            line.note().to_owned(),
        ]
    })
}
