//! The commands. One file each: its `Args`, then `run`.

mod ack;
mod cancel;
mod claim;
mod demo;
mod discard;
mod enqueue;
mod init;
mod jobs;
mod listen;
mod locks;
mod notify;
mod publish;
mod queues;
mod redrive;
mod run_schedules;
mod schedule;
mod schedules;
mod streams;
mod sweep;
mod tail;
mod trim;
mod unschedule;

use std::collections::HashMap;

use alkstore::ops::{QueueAddress, QueueKind};
use anyhow::Result;
use clap::Subcommand;

use crate::connect::{Durability, Engine, IfMissing, Location, open};
use crate::output::{Output, shown};
use crate::report::Usage;

/// What the program can do.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run an order pipeline in several processes, kill some of them, and audit what is left.
    Demo(demo::Args),
    /// Create a store, or bring an older one up to date.
    Init,

    /// Enqueue one job, or one per line of standard input.
    Enqueue(enqueue::Args),
    /// Claim ready jobs.
    Claim(claim::Args),
    /// Ack jobs that are claimed.
    Ack(ack::Args),
    /// Delete jobs that are not dead.
    Cancel(cancel::Args),
    /// List queues and outboxes.
    Queues,
    /// List the jobs of a queue or outbox.
    Jobs(jobs::Args),
    /// List the dead jobs of a queue or outbox.
    Dead(jobs::DeadArgs),
    /// Enqueue dead jobs anew.
    Redrive(redrive::Args),
    /// Delete dead jobs.
    Discard(discard::Args),
    /// Bury expired and exhausted jobs; delete dead ones past their retention.
    Sweep(sweep::Args),

    /// Publish one event, or one per line of standard input.
    Publish(publish::Args),
    /// Print the events of a stream.
    Tail(tail::Args),
    /// List streams, or the consumers of one.
    Streams(streams::Args),
    /// Delete a stream's events up to an offset.
    Trim(trim::Args),

    /// Wake the listeners of a channel.
    Notify(notify::Args),
    /// Print a line for each wake of a channel.
    Listen(listen::Args),

    /// List the locks that are held.
    Locks,

    /// Register a schedule, or replace it.
    Schedule(schedule::Args),
    /// Remove a schedule.
    Unschedule(unschedule::Args),
    /// List schedules.
    Schedules,
    /// Fire schedules until interrupted.
    RunSchedules,

    #[command(hide = true)]
    DemoProcess(demo::process::Args),
    #[command(hide = true)]
    DemoAudit(demo::audit::Args),
}

impl Command {
    /// Runs the command on the store that the URL names.
    pub(crate) async fn run(self, url: Option<&str>, out: &mut Output) -> Result<()> {
        if let Self::Demo(args) = self {
            return demo::run(args, url, out).await;
        }
        let location = Location::parse(url)?;
        match self {
            Self::DemoProcess(args) => return demo::process::run(args, &location).await,
            Self::DemoAudit(args) => return demo::audit::run(args, &location, out).await,
            _ => {}
        }
        let opened = open(&location, self.if_missing(), Durability::Full)?;
        if let Self::Init = self {
            init::run(&opened.about, out)?;
        } else {
            self.run_on(&*opened.store, out).await?;
        }
        out.flush()?;
        opened.store.shut_down().await;
        Ok(())
    }

    /// A command that puts something in may start a new store; the others would only find a
    /// mistyped path empty.
    fn if_missing(&self) -> IfMissing {
        match self {
            Self::Init | Self::Enqueue(_) | Self::Publish(_) | Self::Schedule(_) => {
                IfMissing::Create
            }
            _ => IfMissing::Refuse,
        }
    }

    async fn run_on(self, store: &dyn Engine, out: &mut Output) -> Result<()> {
        match self {
            Self::Enqueue(args) => enqueue::run(args, store, out).await,
            Self::Claim(args) => claim::run(args, store, out).await,
            Self::Ack(args) => ack::run(args, store, out).await,
            Self::Cancel(args) => cancel::run(args, store, out).await,
            Self::Queues => queues::run(store, out).await,
            Self::Jobs(args) => jobs::run(args, store, out).await,
            Self::Dead(args) => jobs::run(args.into(), store, out).await,
            Self::Redrive(args) => redrive::run(args, store, out).await,
            Self::Discard(args) => discard::run(args, store, out).await,
            Self::Sweep(args) => sweep::run(args, store, out).await,
            Self::Publish(args) => publish::run(args, store, out).await,
            Self::Tail(args) => tail::run(args, store, out).await,
            Self::Streams(args) => streams::run(args, store, out).await,
            Self::Trim(args) => trim::run(args, store, out).await,
            Self::Notify(args) => notify::run(args, store).await,
            Self::Listen(args) => listen::run(args, store, out).await,
            Self::Locks => locks::run(store, out).await,
            Self::Schedule(args) => schedule::run(args, store, out).await,
            Self::Unschedule(args) => unschedule::run(args, store, out).await,
            Self::Schedules => schedules::run(store, out).await,
            Self::RunSchedules => run_schedules::run(store).await,
            Self::Init | Self::Demo(_) | Self::DemoProcess(_) | Self::DemoAudit(_) => Ok(()),
        }
    }
}

/// The queue that an address names.
///
/// An outbox is refused: its deliveries are the application's to make.
fn plain_queue(address: &str) -> Result<String> {
    let address = QueueAddress::parse(address);
    if address.kind != QueueKind::Queue {
        return Err(Usage(format!(
            "outbox:{} is an outbox: its deliveries are made by the application's own relay \
             (Outbox::run_once)",
            shown(&address.name)
        ))
        .into());
    }
    Ok(address.name)
}

/// Prints a number and what it counts, which is its JSON name too.
fn report_count(out: &mut Output, what: &str, n: i64) -> Result<()> {
    if out.is_json() {
        out.object(&HashMap::from([(what, n)]))
    } else {
        out.line(format_args!("{n} {what}"))
    }
}
