//! How a run goes: the processes start, orders come in, two of the processes are killed, and
//! the others bring everything to its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use alkstore::engine::clock::Clock;
use alkstore::{JobState, Store};
use anyhow::{Context, Result, bail};
use tokio::task::JoinSet;
use tokio::time::interval;

use crate::business::{Reader, params};
use crate::connect::{Engine, Location};

use super::children::{Children, Said};
use super::order::{self, Order, Pipeline};
use super::process::{HOLDING, Role};
use super::progress::{Counts, Progress};
use super::tables;

/// How often the tables are looked at.
const TICK: Duration = Duration::from_millis(100);

/// The pause between the first orders.
const CALM: Duration = Duration::from_millis(15);

/// Nothing has moved for so long: something is wrong.
const STUCK: Duration = Duration::from_secs(30);

/// Drives a run from the first order to the last effect.
pub(super) struct Supervisor<'a> {
    pub(super) store: &'a Arc<dyn Engine>,
    pub(super) location: &'a Location,
    pub(super) pipeline: &'a Pipeline,
    pub(super) progress: &'a Progress,
    pub(super) workers: u32,
}

impl Supervisor<'_> {
    /// Returns when everything that the orders have caused is done.
    pub(super) async fn run(&self, orders: Vec<Order>, children: &mut Children) -> Result<()> {
        for n in 1..=self.workers {
            children.start(Role::Worker, &format!("worker-{n}"))?;
        }
        children.start(Role::Projection, "projection-1")?;
        children.start(Role::Relay, "relay")?;
        children.start(Role::Housekeeper, "housekeeper")?;
        children.ready().await?;

        let committed = orders.iter().filter(|order| !order.is_called_off()).count();
        self.progress.expect(u64::try_from(committed)?);
        // A task of its own, so that the watching does not delay the orders.
        let mut placing = JoinSet::new();
        placing.spawn(place_all(Arc::clone(self.store), self.pipeline.clone(), orders));
        self.watch(i64::try_from(committed)?, &mut placing, children).await
    }

    async fn watch(
        &self,
        committed: i64,
        placing: &mut JoinSet<alkstore::Result<()>>,
        children: &mut Children,
    ) -> Result<()> {
        let reader = Reader::open(self.location)?;
        let mut ticks = interval(TICK);
        let (mut last, mut moved) = (Counts::default(), Instant::now());
        let mut projection_killed = false;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                Some(placed) = placing.join_next() => {
                    placed.context("placing the orders broke off")?.context("an order failed")?;
                }
                Said { name, line } = children.heard() => {
                    if line == HOLDING {
                        self.replace(children, Role::Worker, &name, "while it held jobs").await?;
                    }
                    continue;
                }
            }
            children.check().await?;
            let counts = read_counts(&reader, self.pipeline.run)?;
            self.progress.show(counts);
            if !projection_killed && counts.events * 2 >= committed {
                projection_killed = true;
                let name = children.any(Role::Projection).context("the projection runs")?;
                self.replace(children, Role::Projection, &name, "halfway through").await?;
            }
            if counts != last {
                (last, moved) = (counts, Instant::now());
            } else if moved.elapsed() > STUCK {
                bail!("nothing has moved for {} s: {counts:?} of {committed}", STUCK.as_secs());
            }
            let all = [counts.orders, counts.emails, counts.events, counts.webhooks];
            if placing.is_empty()
                && all.iter().all(|&n| n >= committed)
                && counts.reports > 0
                && self.is_drained().await?
            {
                return Ok(());
            }
        }
    }

    /// Kills a process and starts another one in its role, as a supervisor would.
    async fn replace(
        &self,
        children: &mut Children,
        role: Role,
        name: &str,
        when: &str,
    ) -> Result<()> {
        children.kill(name).await?;
        let heir = match role {
            Role::Worker => format!("worker-{}", self.workers + 1),
            _ => "projection-2".to_owned(),
        };
        children.start(role, &heir)?;
        self.progress.say(format!("{name} killed {when}; {heir} started"));
        Ok(())
    }

    /// Whether no job waits or is claimed. Dead ones are for the audit to find.
    async fn is_drained(&self) -> Result<bool> {
        let outbox = format!("outbox:{}", self.pipeline.webhooks);
        for queue in [&self.pipeline.emails, &outbox] {
            for state in [JobState::Pending, JobState::Processing] {
                if !self.store.jobs(queue, Some(state), None, 1).await?.is_empty() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// The producer: a few orders one by one, then all others as fast as they go.
async fn place_all(
    store: Arc<dyn Engine>,
    pipeline: Pipeline,
    orders: Vec<Order>,
) -> alkstore::Result<()> {
    let store: &dyn Store = &*store;
    let mut commits = Vec::with_capacity(orders.len());
    let mut pauses = interval(CALM);
    for order in &orders {
        if order.seq <= pipeline.calm_orders() {
            pauses.tick().await;
        }
        order::place(store, &pipeline, order).await?;
        if !order.is_called_off() {
            commits.push((order.seq, Clock::System.now_us()));
        }
    }
    tables::record_commits(store, &pipeline, &commits).await
}

fn read_counts(reader: &Reader, run: i64) -> Result<Counts> {
    let numbers = reader.numbers(
        "SELECT (SELECT count(*) FROM demo_order WHERE run = $1),
                (SELECT count(*) FROM demo_email WHERE run = $1),
                (SELECT coalesce(sum(orders), 0) FROM demo_total WHERE run = $1),
                (SELECT count(*) FROM demo_webhook WHERE run = $1),
                (SELECT count(*) FROM demo_report WHERE run = $1)",
        &params![run],
    )?;
    match numbers[..] {
        [orders, emails, events, webhooks, reports] => {
            Ok(Counts { orders, emails, events, webhooks, reports })
        }
        _ => bail!("the counts are not five numbers"),
    }
}
