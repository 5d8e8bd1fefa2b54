//! `alkstore cancel`: deletes jobs, whether they wait or are being worked on.

use alkstore::QueueOpts;
use anyhow::Result;

use crate::connect::Engine;
use crate::output::Output;

#[derive(clap::Args)]
#[command(
    after_help = "A worker that has one of the jobs is not interrupted. Dead jobs are left alone."
)]
pub(crate) struct Args {
    /// The queue.
    queue: String,
    /// The jobs' ids.
    #[arg(required = true)]
    ids: Vec<i64>,
}

/// Cancels and prints how many there were.
pub(crate) async fn run(args: Args, store: &dyn Engine, out: &mut Output) -> Result<()> {
    let queue = super::plain_queue(&args.queue)?;
    let queue = store.queue(&queue, QueueOpts::default()).await?;
    let mut cancelled = 0;
    for &id in &args.ids {
        cancelled += i64::from(queue.cancel(id).await?);
    }
    super::report_count(out, "cancelled", cancelled)
}
