//! `alkstore publish`: one event, or one per line of standard input.

use alkstore::validate_shared_name;
use anyhow::Result;
use serde::Serialize;

use crate::connect::Engine;
use crate::input::in_batches;
use crate::json_text::JsonText;
use crate::output::{Output, count, shown};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The stream.
    stream: String,
    /// The payload, as JSON; without it, each line of standard input is one.
    payload: Option<String>,
    /// The key of every event.
    #[arg(long)]
    key: Option<String>,
    /// The top-level field of each payload that holds its key; events without it have none.
    #[arg(long, value_name = "NAME", conflicts_with = "key")]
    key_field: Option<String>,
    /// Lines of standard input per transaction; a pause in the input ends one too.
    #[arg(long, value_name = "LINES", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batch: u32,
}

/// Publishes and prints the offsets.
pub(crate) async fn run(args: Args, store: &dyn Engine, out: &mut Output) -> Result<()> {
    validate_shared_name(&args.stream)?;
    let (key, field) = (args.key.clone(), args.key_field.clone());
    let parse = move |text: &str| {
        let payload = JsonText::parse(text)?;
        let key = match &field {
            Some(field) => payload.key(field)?,
            None => key.clone(),
        };
        Ok((key, payload.into_text()))
    };
    if let Some(payload) = &args.payload {
        let offsets = store.publish_texts(&args.stream, vec![parse(payload)?]).await?;
        return report(&args.stream, &offsets, out);
    }
    let mut keyless = 0;
    let stored = in_batches(args.batch, parse, async |events| {
        keyless += events.iter().filter(|(key, _)| key.is_none()).count() as u64;
        let offsets = store.publish_texts(&args.stream, events).await?;
        if out.is_json() {
            report(&args.stream, &offsets, out)?;
        }
        Ok(offsets)
    })
    .await?;
    if let Some(field) = args.key_field.filter(|_| keyless > 0) {
        eprintln!("{} events have no field {field:?}, so they have no key", count(keyless));
    }
    if out.is_json() {
        return Ok(());
    }
    let (stream, offsets) = (shown(&args.stream), stored.span("offsets"));
    out.line(format_args!("{stream}: {} published{offsets}", count(stored.count)))
}

#[derive(Serialize)]
struct Published<'a> {
    stream: &'a str,
    offset: i64,
}

fn report(stream: &str, offsets: &[i64], out: &mut Output) -> Result<()> {
    for &offset in offsets {
        if out.is_json() {
            out.object(&Published { stream, offset })?;
        } else {
            out.line(format_args!("{}: offset {offset}", shown(stream)))?;
        }
    }
    Ok(())
}
