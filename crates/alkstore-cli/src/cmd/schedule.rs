//! `alkstore schedule`: registers a schedule or replaces it.

use alkstore::ScheduleOpts;
use anyhow::Result;
use serde::Serialize;

use crate::connect::Engine;
use crate::json_text::JsonText;
use crate::output::{Output, shown};

#[derive(clap::Args)]
#[command(
    after_help = "It fires while some process runs the schedules: see `alkstore run-schedules`."
)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Args {
    /// The schedule's name.
    name: String,
    /// How often, as in "@every 15m"; units are s, m, h and d.
    spec: String,
    /// The queue that each fire enqueues on.
    queue: String,
    /// The payload of each job, as JSON.
    #[arg(default_value = "null")]
    payload: String,
    /// Higher is claimed first.
    #[arg(long, default_value_t = 0)]
    priority: i64,
    /// Claims after which a job is dead [default: 3].
    #[arg(long, value_name = "N")]
    max_attempts: Option<i64>,
    /// Seconds from the fire after which a job is not handed out any more.
    #[arg(long, value_name = "SECONDS")]
    expires: Option<i64>,
}

#[derive(Serialize)]
struct Scheduled<'a> {
    schedule: &'a str,
    spec: &'a str,
    queue: &'a str,
}

/// Registers the schedule.
pub(crate) async fn run(args: Args, store: &dyn Engine, out: &mut Output) -> Result<()> {
    let payload = JsonText::parse(&args.payload)?.value()?;
    let opts = ScheduleOpts {
        priority: args.priority,
        max_attempts: args.max_attempts,
        expires: args.expires,
    };
    let made = store.schedule(&args.name, &args.spec, &args.queue, payload, opts).await?;
    if out.is_json() {
        return out.object(&Scheduled {
            schedule: &made.name,
            spec: &made.spec,
            queue: &made.queue,
        });
    }
    out.line(format_args!("{}: {} on {}", shown(&made.name), made.spec, shown(&made.queue)))
}
