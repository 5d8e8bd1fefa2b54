//! `alkstore ack`: ends jobs that an earlier claim has left claimed.

use alkstore::QueueOpts;
use anyhow::Result;

use crate::connect::Engine;
use crate::output::Output;

#[derive(clap::Args)]
#[command(after_help = "Jobs that are not claimed, or whose claim has lapsed, are left alone.")]
pub(crate) struct Args {
    /// The queue.
    queue: String,
    /// The jobs' ids.
    #[arg(required = true)]
    ids: Vec<i64>,
}

/// Acks and prints how many there were.
pub(crate) async fn run(args: Args, store: &dyn Engine, out: &mut Output) -> Result<()> {
    let queue = super::plain_queue(&args.queue)?;
    let queue = store.queue(&queue, QueueOpts::default()).await?;
    let acked = queue.ack_batch(&args.ids).await?;
    super::report_count(out, "acked", acked)
}
