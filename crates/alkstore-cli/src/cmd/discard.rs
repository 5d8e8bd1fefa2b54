//! `alkstore discard`: deletes dead jobs.

use anyhow::Result;

use crate::connect::Engine;
use crate::output::Output;

#[derive(clap::Args)]
#[command(after_help = "Jobs that are not dead are left alone.")]
pub(crate) struct Args {
    /// The queue, or outbox:NAME.
    queue: String,
    /// The dead jobs' ids.
    #[arg(required = true)]
    ids: Vec<i64>,
}

/// Discards and prints how many there were.
pub(crate) async fn run(args: Args, store: &dyn Engine, out: &mut Output) -> Result<()> {
    let discarded = store.discard(&args.queue, &args.ids).await?;
    super::report_count(out, "discarded", discarded)
}
