//! `alkstore claim`: takes ready jobs, prints them, and ends them if asked to.

use std::time::{Duration, Instant};

use alkstore::{JobHandle, Queue, QueueOpts};
use anyhow::{Result, bail};

use crate::connect::Engine;
use crate::interrupt::interrupted;
use crate::output::Output;
use crate::view::{JOB_HEADER, JobLine, job_row};

#[derive(clap::Args)]
#[command(
    after_help = "The jobs stay claimed until their claim lapses, unless --ack, --retry or --fail ends them."
)]
#[command(group = clap::ArgGroup::new("end"))]
pub(crate) struct Args {
    /// The queue.
    queue: String,
    /// Who claims [default: alkstore-PID].
    #[arg(long)]
    worker: Option<String>,
    /// How many at most.
    #[arg(short, long = "number", default_value_t = 1, value_parser = clap::value_parser!(i64).range(1..=100_000))]
    n: i64,
    /// Seconds to wait for a job if none is ready.
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
    /// Ack them once they are printed.
    #[arg(long, group = "end")]
    ack: bool,
    /// Have them tried again, after a while.
    #[arg(long, group = "end")]
    retry: bool,
    /// Give them up: dead.
    #[arg(long, group = "end")]
    fail: bool,
    /// Seconds before the retry [default: the job's own curve].
    #[arg(long, value_name = "SECONDS", requires = "retry")]
    delay: Option<i64>,
    /// Why they are retried or given up.
    #[arg(long, value_name = "TEXT", conflicts_with = "ack", requires = "end")]
    error: Option<String>,
}

/// Prints before it ends a job: a job whose output was lost comes again.
pub(crate) async fn run(args: Args, store: &dyn Engine, out: &mut Output) -> Result<()> {
    let queue = super::plain_queue(&args.queue)?;
    let queue = store.queue(&queue, QueueOpts::default()).await?;
    let worker = args.worker.clone().unwrap_or_else(|| format!("alkstore-{}", std::process::id()));
    let jobs = tokio::select! {
        jobs = claim(&*queue, &worker, &args) => jobs?,
        () = interrupted() => return Ok(()),
    };
    if jobs.is_empty() {
        eprintln!("no job is ready");
        return Ok(());
    }
    if out.is_json() {
        for job in &jobs {
            out.object(&JobLine::from(job.job()))?;
        }
    } else {
        out.table(JOB_HEADER, jobs.iter().map(|job| job_row(job.job())).collect())?;
    }
    out.flush()?;
    let mut lapsed = Vec::new();
    for job in jobs {
        let id = job.job().id;
        if !end(job, &args).await? {
            lapsed.push(id.to_string());
        }
    }
    if !lapsed.is_empty() {
        bail!("the claim was over before it was ended, so nothing changed: {}", lapsed.join(", "));
    }
    Ok(())
}

async fn claim(queue: &dyn Queue, worker: &str, args: &Args) -> Result<Vec<Box<dyn JobHandle>>> {
    let start = Instant::now();
    let wait = Duration::from_secs(args.wait.unwrap_or(0));
    loop {
        let jobs = queue.claim_batch(worker, args.n).await?;
        let left = wait.saturating_sub(start.elapsed());
        if !jobs.is_empty() || left.is_zero() {
            return Ok(jobs);
        }
        queue.wait_ready(left).await?;
    }
}

async fn end(job: Box<dyn JobHandle>, args: &Args) -> Result<bool> {
    Ok(if args.ack {
        job.ack().await?
    } else if args.retry {
        job.retry(args.error.clone(), args.delay).await?
    } else if args.fail {
        job.fail(args.error.clone()).await?
    } else {
        true
    })
}
