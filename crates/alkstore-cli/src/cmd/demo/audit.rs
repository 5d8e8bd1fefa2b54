//! The audit: recomputes from the tables and the stream what a run must have led to.
//!
//! It trusts no counter of the processes: orders that committed are the truth, and everything
//! else is compared with them.

use std::collections::BTreeMap;

use alkstore::StreamHandle;
use anyhow::{Context, Result, bail};

use crate::business::{Cell, Reader, params};
use crate::connect::{Durability, Engine, IfMissing, Location, open};
use crate::output::Output;

use super::figures::Figures;
use super::order::{Order, Pipeline};
use super::report::{Check, Report};
use super::{projection, relay};

/// Events read at once.
const PAGE: i64 = 1_000;

/// Audits an earlier run.
#[derive(clap::Args)]
pub(crate) struct Args {
    run: i64,
}

/// Audits the run and fails if it finds a fault.
pub(crate) async fn run(args: Args, location: &Location, out: &mut Output) -> Result<()> {
    let opened = open(location, IfMissing::Refuse, Durability::Full)?;
    let reader = Reader::open(location)?;
    let row = reader
        .numbers("SELECT orders FROM demo_run WHERE run = $1", &params![args.run])
        .context("this store has no demo's tables")?;
    let [orders] = row[..] else { bail!("this store has no run {}", args.run) };
    let report = audit(&*opened.store, &reader, &Pipeline::new(args.run, orders)).await?;
    report.print(None, out)?;
    opened.store.shut_down().await;
    report.verdict()
}

/// Audits a run that is over.
pub(super) async fn audit(
    store: &dyn Engine,
    reader: &Reader,
    pipeline: &Pipeline,
) -> Result<Report> {
    let orders = read_orders(reader, pipeline.run)?;
    let stream = store.stream(&pipeline.events).await?;
    let events = Events::read(&*stream, &orders).await?;
    let behind = events.last - stream.get_offset(projection::CONSUMER).await?;
    let mut checks = check_rows(reader, pipeline, &orders, &events)?;
    checks.push(Check::exactly("events behind the totals' checkpoint", 0, behind));
    let mut left = 0;
    for queue in [&pipeline.emails, &format!("outbox:{}", pipeline.webhooks)] {
        left += i64::try_from(store.jobs(queue, None, None, PAGE).await?.len())?;
    }
    checks.push(Check::exactly("jobs left over, waiting, claimed or dead", 0, left));
    Ok(Report { run: pipeline.run, checks, figures: Figures::read(reader, pipeline)? })
}

fn check_rows(
    reader: &Reader,
    pipeline: &Pipeline,
    orders: &BTreeMap<i64, Order>,
    events: &Events,
) -> Result<Vec<Check>> {
    let number = |sql| reader.numbers(sql, &params![pipeline.run]).map(|row| row[0]);
    let committed = i64::try_from(orders.len())?;
    let called_off = number("SELECT coalesce(max(called_off), 0) FROM demo_run WHERE run = $1")?;
    let survivors = orders.values().filter(|order| order.is_called_off()).count();
    let refused = orders.keys().filter(|&&seq| relay::is_refused(seq, 1)).count();
    let held = number("SELECT count(*) FROM demo_held WHERE run = $1")?;
    let lost = number(LOST)? + events.missing;
    let ghosts = number(GHOSTS)? + events.ghosts;
    Ok(vec![
        Check::exactly("orders committed", pipeline.orders - called_off, committed),
        Check::exactly("orders rolled back", called_off, called_off - i64::try_from(survivors)?),
        Check::exactly("events published", committed, events.count),
        Check::exactly(
            "emails sent",
            committed,
            number("SELECT count(*) FROM demo_email WHERE run = $1")?,
        ),
        Check::exactly(
            "webhooks delivered",
            committed,
            number("SELECT count(*) FROM demo_webhook WHERE run = $1")?,
        ),
        Check::exactly("ghosts: an effect without its order", 0, ghosts),
        Check::exactly("lost: an order without an effect", 0, lost),
        Check::exactly("customers with wrong totals", 0, number(WRONG_TOTALS)?),
        Check::at_least("jobs that the killed worker held", 1, held),
        Check::exactly("of those, claimed again and done", held, number(TAKEN_OVER)?),
        Check::exactly(
            "refused webhooks, delivered later",
            i64::try_from(refused)?,
            redelivered(reader, pipeline)?,
        ),
        Check::at_least(
            "scheduled sweeps",
            1,
            number("SELECT count(*) FROM demo_report WHERE run = $1")?,
        ),
    ])
}

const LOST: &str = "
    SELECT (SELECT count(*) FROM demo_order AS o WHERE run = $1 AND NOT EXISTS
               (SELECT 1 FROM demo_email AS e WHERE e.run = o.run AND e.seq = o.seq))
         + (SELECT count(*) FROM demo_order AS o WHERE run = $1 AND NOT EXISTS
               (SELECT 1 FROM demo_webhook AS w WHERE w.run = o.run AND w.seq = o.seq))";

const GHOSTS: &str = "
    SELECT (SELECT count(*) FROM demo_email AS e WHERE run = $1 AND NOT EXISTS
               (SELECT 1 FROM demo_order AS o WHERE o.run = e.run AND o.seq = e.seq))
         + (SELECT count(*) FROM demo_webhook AS w WHERE run = $1 AND NOT EXISTS
               (SELECT 1 FROM demo_order AS o WHERE o.run = w.run AND o.seq = w.seq))";

const WRONG_TOTALS: &str = "
    SELECT count(*) FROM (
        SELECT customer FROM (
            SELECT customer, 1 AS n, count(*) AS orders, sum(amount_cents) AS amount_cents
            FROM demo_order WHERE run = $1 GROUP BY customer
            UNION ALL
            SELECT customer, 1 AS n, orders, amount_cents FROM demo_total WHERE run = $1
        ) AS both_sides
        GROUP BY customer
        HAVING sum(n) <> 2 OR min(orders) <> max(orders) OR min(amount_cents) <> max(amount_cents)
    ) AS wrong";

const TAKEN_OVER: &str = "
    SELECT count(*) FROM demo_held AS h
    JOIN demo_email AS e ON e.run = h.run AND e.seq = h.seq
    WHERE h.run = $1 AND e.attempts > 1";

/// Webhooks that were refused the first time and took another attempt.
fn redelivered(reader: &Reader, pipeline: &Pipeline) -> Result<i64> {
    let sql = "SELECT seq FROM demo_webhook WHERE run = $1 AND attempts > 1";
    let rows = reader.query(sql, &params![pipeline.run])?;
    Ok(i64::try_from(rows.iter().filter(|row| relay::is_refused(row[0].int(), 1)).count())?)
}

fn read_orders(reader: &Reader, run: i64) -> Result<BTreeMap<i64, Order>> {
    let sql = "SELECT seq, customer, amount_cents FROM demo_order WHERE run = $1";
    let rows = reader.query(sql, &params![run])?;
    let order = |row: &Vec<Cell>| {
        let (seq, amount_cents) = (row[0].int(), row[2].int());
        (seq, Order { seq, customer: row[1].text().to_owned(), amount_cents })
    };
    Ok(rows.iter().map(order).collect())
}

/// What the stream holds, compared with the orders.
#[derive(Default)]
struct Events {
    count: i64,
    last: i64,
    /// Events that no order stands behind, that repeat, or that tell another story.
    ghosts: i64,
    /// Orders without an event.
    missing: i64,
}

impl Events {
    async fn read(stream: &dyn StreamHandle, orders: &BTreeMap<i64, Order>) -> Result<Self> {
        let mut events = Self::default();
        let mut unseen = orders.clone();
        loop {
            let page = stream.read_since(events.last, PAGE).await?;
            let Some(last) = page.last() else { break };
            events.last = last.offset;
            events.count += i64::try_from(page.len())?;
            for event in &page {
                let told = event.payload_as::<Order>().ok();
                let truth = told.as_ref().and_then(|order| unseen.remove(&order.seq));
                events.ghosts += i64::from(told.is_none() || told != truth);
            }
        }
        events.missing = i64::try_from(unseen.len())?;
        Ok(events)
    }
}
