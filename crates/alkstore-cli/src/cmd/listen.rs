//! `alkstore listen`: a line for each wake of a channel.

use std::time::Duration;

use alkstore::WakeReceiver;
use alkstore::engine::clock::Clock;
use anyhow::{Result, bail};
use serde::Serialize;

use crate::connect::Engine;
use crate::interrupt::interrupted;
use crate::output::{Output, shown, utc};

#[derive(clap::Args)]
#[command(after_help = "Wakes are hints: they may coalesce and repeat.")]
pub(crate) struct Args {
    /// The channel.
    channel: String,
    /// End after so many wakes.
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after so many seconds; with --count, that is a failure.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
}

#[derive(Serialize)]
struct WakeLine<'a> {
    channel: &'a str,
    at: i64,
}

/// Listens until the count, the timeout or an interrupt.
pub(crate) async fn run(args: Args, store: &dyn Engine, out: &mut Output) -> Result<()> {
    let mut wakes = store.listen(&args.channel).await?;
    eprintln!("listening on {}", shown(&args.channel));
    let mut seen = 0;
    let timeout = async {
        match args.timeout {
            Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        outcome = print(&mut *wakes, args.count, &mut seen, out) => return outcome,
        () = interrupted() => return Ok(()),
        () = timeout => {}
    }
    if let Some(count) = args.count {
        bail!("no more than {seen} of {count} wakes came in time");
    }
    Ok(())
}

async fn print(
    wakes: &mut dyn WakeReceiver,
    count: Option<u64>,
    seen: &mut u64,
    out: &mut Output,
) -> Result<()> {
    while count.is_none_or(|count| *seen < count) {
        let Some(wake) = wakes.recv().await else {
            bail!("the store was closed under the receiver");
        };
        *seen += 1;
        let at = Clock::System.now_us() / 1_000_000;
        if out.is_json() {
            out.object(&WakeLine { channel: &wake.channel, at })?;
        } else {
            out.line(format_args!("{}  {}", utc(at), shown(&wake.channel)))?;
        }
        out.flush()?;
    }
    Ok(())
}
