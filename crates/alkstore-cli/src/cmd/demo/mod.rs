//! `alkstore demo`: an order pipeline in several processes, some of which are killed, and an
//! audit of what they leave.
//!
//! What an application would write is in `order.rs` (the transaction), `worker.rs`,
//! `projection.rs`, `relay.rs` and `housekeeper.rs`; the rest starts, kills and checks them.

pub(super) mod audit;
mod children;
mod fault;
mod figures;
mod housekeeper;
mod order;
mod orders_file;
pub(super) mod process;
mod progress;
mod projection;
mod relay;
mod report;
mod supervise;
mod tables;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use tempfile::TempDir;

use crate::business::Reader;
use crate::connect::{Durability, Engine, IfMissing, Location, open};
use crate::interrupt::interrupted;
use crate::output::{Output, count};

use self::children::Children;
use self::order::Order;
use self::progress::Progress;
use self::supervise::Supervisor;

#[derive(clap::Args)]
#[command(
    after_help = "Runs on a file of its own unless --url is given. The exit code is 1 if the audit finds a fault."
)]
pub(crate) struct Args {
    /// How many orders to place.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    orders: u32,
    /// How many worker processes send the emails.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    /// Orders to place instead: a CSV file with the columns customer and amount_cents.
    #[arg(long, value_name = "FILE", conflicts_with = "orders")]
    input: Option<PathBuf>,
    /// What a commit survives.
    ///
    /// Every order is a commit, and so is each step that follows from it: with full, the run
    /// takes as long as the disk takes to sync each of them.
    #[arg(long, default_value = "normal")]
    durability: Durability,
}

/// Runs the pipeline, audits it, and cleans up whatever happens.
pub(crate) async fn run(args: Args, url: Option<&str>, out: &mut Output) -> Result<()> {
    let orders = match &args.input {
        Some(path) => orders_file::read(path)?,
        None => (1..=i64::from(args.orders)).map(Order::sample).collect(),
    };
    let mut place = Place::new(url)?;
    let opened = open(&place.location, IfMissing::Create, args.durability)?;
    let store: Arc<dyn Engine> = opened.store;
    let progress = Progress::new(orders.len() as u64);
    let started = Instant::now();
    let pipeline = tables::begin_run(&*store, &orders).await?;
    progress.say(format!(
        "run {} on {} {}: {} orders, {} workers, commits survive {}",
        pipeline.run,
        opened.about.engine,
        opened.about.location,
        count(orders.len() as u64),
        args.workers,
        opened.about.commits_survive
    ));

    let mut children = Children::new(pipeline.clone(), &place.location, args.durability);
    let supervisor = Supervisor {
        store: &store,
        location: &place.location,
        pipeline: &pipeline,
        progress: &progress,
        workers: args.workers,
    };
    let played = tokio::select! {
        played = supervisor.run(orders, &mut children) => played,
        () = interrupted() => Err(anyhow!("interrupted: every process is stopped, no audit was made")),
    };
    let stopped = tokio::select! {
        stopped = children.stop() => stopped,
        // Whoever insists does not wait for the processes: dropping them kills them.
        () = interrupted() => Err(anyhow!("interrupted")),
    };
    drop(children);
    let unscheduled = housekeeper::unschedule(&*store).await;
    progress.clear();
    // What ended the play is the cause of what may have gone wrong after it.
    let audited = match played.and(stopped).and(unscheduled) {
        Ok(()) => audit::audit(&*store, &Reader::open(&place.location)?, &pipeline).await,
        Err(error) => Err(error),
    };
    store.shut_down().await;
    let report = audited?;
    report.print(Some(started.elapsed()), out)?;
    report.verdict().map_err(|fault| match place.keep() {
        Some(path) => anyhow!("{fault}; the store is kept at {path}"),
        None => fault,
    })
}

/// Where the demo runs: where `--url` says, or in a folder that is removed at the end.
struct Place {
    location: Location,
    folder: Option<TempDir>,
}

impl Place {
    fn new(url: Option<&str>) -> Result<Self> {
        if url.is_some_and(|url| !url.is_empty()) {
            return Ok(Self { location: Location::parse(url)?, folder: None });
        }
        let folder = tempfile::Builder::new()
            .prefix("alkstore-demo-")
            .tempdir()
            .context("cannot make a folder for the demo's store")?;
        let location = Location::Sqlite(folder.path().join("demo.db"));
        Ok(Self { location, folder: Some(folder) })
    }

    /// Keeps the folder, if it is one of ours, and says where it is.
    fn keep(&mut self) -> Option<String> {
        self.folder.take().map(|folder| folder.keep().display().to_string())
    }
}
