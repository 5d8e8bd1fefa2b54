//! `alkstore unschedule`: removes a schedule.

use anyhow::{Result, bail};

use crate::connect::Engine;
use crate::output::{Output, shown};

#[derive(clap::Args)]
#[command(after_help = "Jobs that it has enqueued stay.")]
pub(crate) struct Args {
    /// The schedule's name.
    name: String,
}

/// Removes the schedule; fails if there is none of this name.
pub(crate) async fn run(args: Args, store: &dyn Engine, out: &mut Output) -> Result<()> {
    if !store.unschedule(&args.name).await? {
        bail!("there is no schedule {:?}: see alkstore schedules", shown(&args.name));
    }
    super::report_count(out, "unscheduled", 1)
}
