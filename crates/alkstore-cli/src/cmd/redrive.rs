//! `alkstore redrive`: enqueues dead jobs anew.

use alkstore::JobState;
use anyhow::Result;
use serde::Serialize;

use crate::connect::Engine;
use crate::output::{Output, count, shown};

/// Jobs moved at once with `--all`.
const PAGE: i64 = 500;

#[derive(clap::Args)]
#[command(
    after_help = "Payload, priority and stamps are kept, attempts start afresh; each job gets a new id."
)]
#[command(group = clap::ArgGroup::new("which").required(true))]
pub(crate) struct Args {
    /// The queue, or outbox:NAME.
    queue: String,
    /// The dead jobs' ids.
    #[arg(group = "which")]
    ids: Vec<i64>,
    /// All that are dead now.
    #[arg(long, group = "which")]
    all: bool,
}

#[derive(Serialize)]
struct Redriven<'a> {
    queue: &'a str,
    id: i64,
}

/// Redrives and prints the new ids to machines, their number to people.
pub(crate) async fn run(args: Args, store: &dyn Engine, out: &mut Output) -> Result<()> {
    let mut redriven: u64 = 0;
    let (mut after, mut first_new) = (None, i64::MAX);
    loop {
        let page = match args.all {
            true => dead_between(&args.queue, after, first_new, store).await?,
            false => args.ids.clone(),
        };
        let new_ids = store.redrive(&args.queue, &page).await?;
        if out.is_json() {
            for &id in &new_ids {
                out.object(&Redriven { queue: &args.queue, id })?;
            }
        }
        redriven += new_ids.len() as u64;
        first_new = first_new.min(new_ids.iter().copied().min().unwrap_or(i64::MAX));
        after = page.last().copied();
        if !args.all || page.is_empty() {
            break;
        }
    }
    if out.is_json() {
        return Ok(());
    }
    out.line(format_args!("{}: {} redriven", shown(&args.queue), count(redriven)))
}

/// A redriven job may die again meanwhile: its id is not below the first new one.
async fn dead_between(
    queue: &str,
    after: Option<i64>,
    before: i64,
    store: &dyn Engine,
) -> Result<Vec<i64>> {
    let jobs = store.jobs(queue, Some(JobState::Dead), after, PAGE).await?;
    Ok(jobs.iter().map(|job| job.id).filter(|&id| id < before).collect())
}
