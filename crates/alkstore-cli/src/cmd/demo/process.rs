//! One process of the pipeline, started by the demo: it works until its standard input ends.

use std::io::Write;

use alkstore::StopToken;
use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::connect::{Durability, IfMissing, Location, open};

use super::order::Pipeline;
use super::{housekeeper, projection, relay, worker};

/// Said on standard output once the store is open.
pub(super) const READY: &str = "ready";

/// Said by the worker that hangs with jobs in its hands.
pub(super) const HOLDING: &str = "holding";

/// What the process does, and in which run.
#[derive(clap::Args)]
pub(crate) struct Args {
    role: Role,
    name: String,
    durability: Durability,
    run: i64,
    orders: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Role {
    Worker,
    Projection,
    Relay,
    Housekeeper,
}

/// Plays the role until standard input ends: the parent closes it, or is gone.
pub(crate) async fn run(args: Args, location: &Location) -> Result<()> {
    let stop = StopToken::new();
    let ended = stop.clone();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        ended.cancel();
    });
    let opened = open(location, IfMissing::Refuse, args.durability)?;
    let store = &*opened.store;
    let pipeline = Pipeline::new(args.run, args.orders);
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{READY}").and_then(|()| stdout.flush()).context("the demo has gone")?;
    loop {
        let outcome = match args.role {
            Role::Worker => worker::run(store, &pipeline, &args.name, &stop).await,
            Role::Projection => projection::run(store, &pipeline, &stop).await,
            Role::Relay => relay::run(store, &pipeline, &stop).await,
            Role::Housekeeper => housekeeper::run(store, &pipeline, &stop).await,
        };
        match outcome {
            // A database that is busy for long is no reason to give up: every role can start anew.
            Err(error) if error.is_transient() && !stop.is_cancelled() => {
                eprintln!("{} starts anew: {error}", args.name);
            }
            outcome => break outcome?,
        }
    }
    opened.store.shut_down().await;
    Ok(())
}
