//! `alkstore jobs` and `alkstore dead`: the jobs of a queue, by id.

use alkstore::{Job, JobState};
use anyhow::Result;
use clap::ValueEnum;

use crate::connect::Engine;
use crate::output::Output;
use crate::view::{JOB_HEADER, JobLine, job_row};

/// Jobs asked for at once; a longer list comes in several pages.
const PAGE: i64 = 500;

/// Which jobs to list.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The queue, or outbox:NAME.
    queue: String,
    /// Only jobs in this state.
    #[arg(long)]
    state: Option<State>,
    #[command(flatten)]
    range: Range,
}

/// Which dead jobs to list.
#[derive(clap::Args)]
pub(crate) struct DeadArgs {
    /// The queue, or outbox:NAME.
    queue: String,
    #[command(flatten)]
    range: Range,
}

#[derive(clap::Args)]
struct Range {
    /// Only jobs with a higher id.
    #[arg(long, value_name = "ID")]
    after: Option<i64>,
    /// How many at most.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i64).range(0..))]
    limit: i64,
}

#[derive(Clone, Copy, ValueEnum)]
enum State {
    /// Waiting to be claimed, now or later.
    Pending,
    /// Claimed; the claim may have lapsed.
    Processing,
    /// Given up.
    Dead,
}

impl From<State> for JobState {
    fn from(state: State) -> Self {
        match state {
            State::Pending => Self::Pending,
            State::Processing => Self::Processing,
            State::Dead => Self::Dead,
        }
    }
}

impl From<DeadArgs> for Args {
    fn from(args: DeadArgs) -> Self {
        Self { queue: args.queue, state: Some(State::Dead), range: args.range }
    }
}

/// Lists the jobs; says how to go on if there are more.
pub(crate) async fn run(args: Args, store: &dyn Engine, out: &mut Output) -> Result<()> {
    let state = args.state.map(JobState::from);
    let (mut after, mut left) = (args.range.after, args.range.limit);
    let mut rows = Vec::new();
    loop {
        let jobs: Vec<Job> = store.jobs(&args.queue, state, after, left.min(PAGE)).await?;
        for job in &jobs {
            if out.is_json() {
                out.object(&JobLine::from(job))?;
            } else {
                rows.push(job_row(job));
            }
        }
        let read = i64::try_from(jobs.len())?;
        left -= read;
        after = jobs.last().map(|job| job.id).or(after);
        if read < PAGE || left == 0 {
            break;
        }
    }
    if !out.is_json() {
        out.table(JOB_HEADER, rows)?;
    }
    if let Some(last) = after.filter(|_| left == 0 && args.range.limit > 0) {
        eprintln!("there may be more: go on with --after {last}");
    }
    Ok(())
}
