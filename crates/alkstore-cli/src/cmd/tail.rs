//! `alkstore tail`: the events of a stream, from an offset or a consumer's checkpoint.

use alkstore::engine::clock::Clock;
use alkstore::{EventReceiver, StreamEvent, StreamHandle};
use anyhow::{Result, bail};

use crate::connect::Engine;
use crate::interrupt::interrupted;
use crate::output::{Output, shown, utc};
use crate::view::{EventLine, payload_line};

/// Events read at once.
const PAGE: i64 = 1_000;

#[derive(clap::Args)]
#[command(after_help = "Starts at the beginning unless told otherwise.")]
pub(crate) struct Args {
    /// The stream.
    stream: String,
    /// Only events beyond this offset.
    #[arg(long, value_name = "OFFSET", default_value_t = 0, conflicts_with = "consumer")]
    since: i64,
    /// Only events beyond this consumer's checkpoint.
    #[arg(long)]
    consumer: Option<String>,
    /// Save the consumer's checkpoint once the events are printed.
    #[arg(long, requires = "consumer")]
    save: bool,
    /// Go on with events as they come, until interrupted.
    #[arg(short, long)]
    follow: bool,
    /// How many at most.
    #[arg(short = 'n', long, value_parser = clap::value_parser!(i64).range(0..))]
    limit: Option<i64>,
}

/// Prints events, each batch before its checkpoint is saved.
pub(crate) async fn run(args: Args, store: &dyn Engine, out: &mut Output) -> Result<()> {
    let stream = store.stream(&args.stream).await?;
    let left = args.limit.unwrap_or(i64::MAX);
    let shown = async {
        if args.follow {
            let mut events = subscribe(&args, store, &*stream).await?;
            follow(&mut *events, args.save, left, out).await
        } else {
            pages(&args, &*stream, left, out).await
        }
    };
    tokio::select! {
        outcome = shown => outcome,
        () = interrupted() => Ok(()),
    }
}

async fn pages(
    args: &Args,
    stream: &dyn StreamHandle,
    mut left: i64,
    out: &mut Output,
) -> Result<()> {
    let mut offset = match &args.consumer {
        Some(consumer) => stream.get_offset(consumer).await?,
        None => args.since,
    };
    while left > 0 {
        let wanted = left.min(PAGE);
        let events = stream.read_since(offset, wanted).await?;
        print(&events, out)?;
        let read = i64::try_from(events.len())?;
        offset = events.last().map_or(offset, |event| event.offset);
        if let Some(consumer) = args.consumer.as_deref().filter(|_| args.save && read > 0) {
            stream.save_offset(consumer, offset).await?;
        }
        left -= read;
        if read < wanted {
            break;
        }
    }
    Ok(())
}

async fn follow(
    receiver: &mut dyn EventReceiver,
    save: bool,
    mut left: i64,
    out: &mut Output,
) -> Result<()> {
    while left > 0 {
        let Some(first) = receiver.recv().await else {
            bail!("the store was closed under the receiver");
        };
        let mut events = vec![first?];
        left -= 1;
        while left > 0
            && events.len() < 1_000
            && let Ok(Some(event)) = receiver.try_recv()
        {
            events.push(event);
            left -= 1;
        }
        print(&events, out)?;
        if save {
            receiver.save_offset().await?;
        }
    }
    Ok(())
}

/// A receiver that starts where the arguments say.
async fn subscribe(
    args: &Args,
    store: &dyn Engine,
    stream: &dyn StreamHandle,
) -> Result<Box<dyn EventReceiver>> {
    if let Some(consumer) = &args.consumer {
        return Ok(stream.subscribe(consumer).await?);
    }
    // A receiver starts at a checkpoint, so an offset needs one for a moment.
    let consumer = format!("alkstore-tail-{}-{}", std::process::id(), Clock::System.now_us());
    if args.since <= 0 {
        return Ok(stream.subscribe(&consumer).await?);
    }
    stream.save_offset(&consumer, args.since).await?;
    let receiver = stream.subscribe(&consumer).await;
    store.forget_consumer(&args.stream, &consumer).await?;
    Ok(receiver?)
}

fn print(events: &[StreamEvent], out: &mut Output) -> Result<()> {
    for event in events {
        if out.is_json() {
            out.object(&EventLine::from(event))?;
            continue;
        }
        let (at, payload) = (utc(event.created_at), payload_line(&event.payload));
        let key = event.key.as_deref().map(|key| format!("  {}", shown(key))).unwrap_or_default();
        out.line(format_args!("{}  {at}{key}  {payload}", event.offset))?;
    }
    out.flush()
}
