//! `alkstore trim`: deletes a stream's oldest events.

use anyhow::{Result, bail};

use crate::connect::Engine;
use crate::output::{Output, shown};

#[derive(clap::Args)]
#[command(after_help = "Refuses to delete what a consumer has not passed, unless forced.")]
pub(crate) struct Args {
    /// The stream.
    stream: String,
    /// The last offset to delete.
    offset: i64,
    /// Also delete events that a consumer has not passed.
    #[arg(long)]
    force: bool,
}

/// Trims and prints how many events there were.
pub(crate) async fn run(args: Args, store: &dyn Engine, out: &mut Output) -> Result<()> {
    let consumers = store.consumers(&args.stream).await?;
    let slowest = consumers.iter().min_by_key(|consumer| consumer.offset);
    if let Some(slowest) = slowest.filter(|slowest| !args.force && slowest.offset < args.offset) {
        bail!(
            "consumer {:?} is at {} only: trim no further than that, or use --force",
            shown(&slowest.consumer),
            slowest.offset
        );
    }
    let trimmed = store.stream(&args.stream).await?.trim_to(args.offset).await?;
    super::report_count(out, "trimmed", trimmed)
}
