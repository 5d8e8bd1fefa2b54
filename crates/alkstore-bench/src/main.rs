//! Rates of the engines as ratios to floors: hand-written loops with the least SQL for the same
//! promise, at the same durability, in the same run, on the same disk.

#![forbid(unsafe_code)]

mod line;
mod load;
mod memory;
mod report;
mod sqlite;
mod store;

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::line::{Line, Outcome, Plan};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Measures the engines against their floors.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Args {
    /// Short rounds: under two minutes, for a first look
    #[arg(long)]
    quick: bool,
    /// Only this engine
    #[arg(long, value_enum)]
    engine: Option<Engine>,
    /// Only workloads whose number or name contains this, such as W1 or "64 tasks"
    #[arg(long)]
    workload: Option<String>,
    /// Only this durability
    #[arg(long, value_enum)]
    durability: Option<Durability>,
    /// Rounds of each workload
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Where the databases go, which should be a disk
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// Writes the results here as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// An engine that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    Memory,
    Sqlite,
}

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Durability {
    /// Nothing: it is in memory
    None,
    /// The end of the process
    Normal,
    /// The loss of power
    Full,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let plan = Plan {
        rounds: args.rounds.into(),
        time: Duration::from_millis(if args.quick { 200 } else { 2_000 }),
        jobs: if args.quick { 600 } else { 20_000 },
        batched_jobs: 20_000,
        batches: if args.quick { 20 } else { 200 },
        wakes: if args.quick { 50 } else { 300 },
        events: if args.quick { 20_000 } else { 200_000 },
        dir: args.dir.clone(),
    };
    eprintln!("{} rounds each, in {}", plan.rounds, plan.dir.display());
    let mut outcomes: Vec<Outcome> = Vec::new();
    for line in chosen(&args) {
        let measured = line.measure(&plan)?;
        report::progress(&measured);
        outcomes.extend(measured);
    }
    report::table(&outcomes)?;
    if let Some(file) = &args.json {
        std::fs::write(file, report::json(&plan, &outcomes)?)?;
    }
    Ok(())
}

fn chosen(args: &Args) -> Vec<Line> {
    let mut lines = Vec::new();
    let wanted = |durability| args.durability.is_none_or(|wanted| wanted == durability);
    if args.engine.is_none_or(|engine| engine == Engine::Memory) && wanted(Durability::None) {
        lines.extend(memory::lines());
    }
    if args.engine.is_none_or(|engine| engine == Engine::Sqlite) {
        for durability in [Durability::Normal, Durability::Full] {
            if wanted(durability) {
                lines.extend(sqlite::lines(durability));
            }
        }
    }
    lines.retain(|line| args.workload.as_ref().is_none_or(|wanted| line.matches(wanted)));
    lines
}
