//! `alkstore sweep`: buries what has expired or used up its attempts.

use alkstore::QueueOpts;
use anyhow::Result;

use crate::connect::Engine;
use crate::output::Output;

#[derive(clap::Args)]
#[command(after_help = "Nothing sweeps by itself: run this now and then.")]
pub(crate) struct Args {
    /// The queue.
    queue: String,
}

/// Sweeps and prints how many jobs were moved or deleted.
pub(crate) async fn run(args: Args, store: &dyn Engine, out: &mut Output) -> Result<()> {
    let queue = super::plain_queue(&args.queue)?;
    let queue = store.queue(&queue, QueueOpts::default()).await?;
    let swept = queue.sweep_expired().await?;
    super::report_count(out, "swept", swept)
}
