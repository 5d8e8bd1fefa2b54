//! The audit: recomputes from the tables and the stream what a run must have led to.
//!
//! It trusts no counter of the processes: orders that committed are the truth, and everything
//! else is compared with them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use alkstore::{StreamEvent, StreamHandle};
use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::business::{Cell, Reader, params};
use crate::connect::{Engine, IfMissing, Location, open};
use crate::output::{Output, count};

use super::order::{Order, Pipeline};
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
    let opened = open(location, IfMissing::Refuse)?;
    let reader = Reader::open(location)?;
    let row = reader
        .numbers(
            "SELECT orders FROM demo_run WHERE run = $1",
            &params![args.run],
        )
        .context("this store has no demo's tables")?;
    let [orders] = row[..] else {
        bail!("this store has no run {}", args.run)
    };
    let report = audit(&*opened.store, &reader, &Pipeline::new(args.run, orders)).await?;
    report.print(None, out)?;
    opened.store.shut_down().await;
    report.verdict()
}

/// What must hold for a figure.
#[derive(Clone, Copy)]
enum Expected {
    Exactly(i64),
    AtLeast(i64),
}

/// One line of the audit.
struct Check {
    what: &'static str,
    expected: Expected,
    found: i64,
}

/// Figures that nothing is demanded of.
#[derive(Serialize)]
struct Figures {
    orders_per_s: Option<i64>,
    emails_per_s: Option<i64>,
    emails_sent: i64,
    emails_sent_again: i64,
    jobs_claimed_again: i64,
    wakes: usize,
    wake_p50_us: Option<i64>,
    wake_p99_us: Option<i64>,
}

/// What the audit of a run found.
pub(super) struct Report {
    run: i64,
    checks: Vec<Check>,
    figures: Figures,
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
    checks.push(exactly("events behind the totals' checkpoint", 0, behind));
    let mut left = 0;
    for queue in [&pipeline.emails, &format!("outbox:{}", pipeline.webhooks)] {
        left += i64::try_from(store.jobs(queue, None, None, PAGE).await?.len())?;
    }
    checks.push(exactly("jobs left over, waiting, claimed or dead", 0, left));
    Ok(Report {
        run: pipeline.run,
        checks,
        figures: Figures::read(reader, pipeline)?,
    })
}

fn check_rows(
    reader: &Reader,
    pipeline: &Pipeline,
    orders: &BTreeMap<i64, Order>,
    events: &Events,
) -> Result<Vec<Check>> {
    let number = |sql| {
        reader
            .numbers(sql, &params![pipeline.run])
            .map(|row| row[0])
    };
    let committed = i64::try_from(orders.len())?;
    let called_off = number("SELECT coalesce(max(called_off), 0) FROM demo_run WHERE run = $1")?;
    let survivors = orders
        .values()
        .filter(|order| order.is_called_off())
        .count();
    let refused = orders
        .keys()
        .filter(|&&seq| relay::is_refused(seq, 1))
        .count();
    let held = number("SELECT count(*) FROM demo_held WHERE run = $1")?;
    let lost = number(LOST)? + events.missing;
    let ghosts = number(GHOSTS)? + events.ghosts;
    Ok(vec![
        exactly("orders committed", pipeline.orders - called_off, committed),
        exactly(
            "orders rolled back",
            called_off,
            called_off - i64::try_from(survivors)?,
        ),
        exactly("events published", committed, events.count),
        exactly(
            "emails sent",
            committed,
            number("SELECT count(*) FROM demo_email WHERE run = $1")?,
        ),
        exactly(
            "webhooks delivered",
            committed,
            number("SELECT count(*) FROM demo_webhook WHERE run = $1")?,
        ),
        exactly("ghosts: an effect without its order", 0, ghosts),
        exactly("lost: an order without an effect", 0, lost),
        exactly("customers with wrong totals", 0, number(WRONG_TOTALS)?),
        at_least("jobs that the killed worker held", 1, held),
        exactly(
            "of those, claimed again and done",
            held,
            number(TAKEN_OVER)?,
        ),
        exactly(
            "refused webhooks, delivered later",
            i64::try_from(refused)?,
            redelivered(reader, pipeline)?,
        ),
        at_least(
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
    Ok(i64::try_from(
        rows.iter()
            .filter(|row| relay::is_refused(row[0].int(), 1))
            .count(),
    )?)
}

fn read_orders(reader: &Reader, run: i64) -> Result<BTreeMap<i64, Order>> {
    let sql = "SELECT seq, customer, amount_cents FROM demo_order WHERE run = $1";
    let rows = reader.query(sql, &params![run])?;
    let order = |row: &Vec<Cell>| {
        let (seq, amount_cents) = (row[0].int(), row[2].int());
        (
            seq,
            Order {
                seq,
                customer: row[1].text().to_owned(),
                amount_cents,
            },
        )
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
            let told: Result<Vec<Order>, _> = page.iter().map(StreamEvent::payload_as).collect();
            for order in told.context("an event is no order")? {
                events.ghosts += i64::from(unseen.remove(&order.seq) != Some(order));
            }
        }
        events.missing = i64::try_from(unseen.len())?;
        Ok(events)
    }
}

impl Figures {
    fn read(reader: &Reader, pipeline: &Pipeline) -> Result<Self> {
        let run = &params![pipeline.run];
        let after_calm = &params![pipeline.run, pipeline.calm_orders()];
        let rate = |sql| -> Result<Option<i64>> {
            let row = reader.numbers(sql, after_calm)?;
            Ok((row[1] > 0).then(|| row[0].saturating_mul(1_000_000) / row[1]))
        };
        let sends = reader.numbers(
            "SELECT coalesce(sum(sends), 0), coalesce(sum(sends - 1), 0),
                    coalesce(sum(CASE WHEN attempts > 1 THEN 1 ELSE 0 END), 0)
             FROM demo_email WHERE run = $1",
            run,
        )?;
        let wakes = reader.query(
            "SELECT e.started_us - c.committed_us FROM demo_email AS e
             JOIN demo_commit AS c ON c.run = e.run AND c.seq = e.seq
             WHERE e.run = $1 AND e.seq <= $2 AND e.attempts = 1 ORDER BY 1",
            after_calm,
        )?;
        // A worker may start before the producer has heard that its commit is done.
        let wakes: Vec<i64> = wakes.iter().map(|row| row[0].int().max(0)).collect();
        Ok(Self {
            orders_per_s: rate(
                "SELECT count(*), max(committed_us) - min(committed_us) FROM demo_commit
                 WHERE run = $1 AND seq > $2",
            )?,
            emails_per_s: rate(
                "SELECT count(*), max(sent_us) - min(sent_us) FROM demo_email
                 WHERE run = $1 AND seq > $2 AND attempts = 1",
            )?,
            emails_sent: sends[0],
            emails_sent_again: sends[1],
            jobs_claimed_again: sends[2],
            wakes: wakes.len(),
            wake_p50_us: percentile(&wakes, 50),
            wake_p99_us: percentile(&wakes, 99),
        })
    }
}

/// The nearest rank, of sorted values.
fn percentile(sorted: &[i64], percent: usize) -> Option<i64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.max(1) - 1).copied()
}

fn exactly(what: &'static str, expected: i64, found: i64) -> Check {
    Check {
        what,
        expected: Expected::Exactly(expected),
        found,
    }
}

fn at_least(what: &'static str, expected: i64, found: i64) -> Check {
    Check {
        what,
        expected: Expected::AtLeast(expected),
        found,
    }
}

impl Check {
    fn holds(&self) -> bool {
        match self.expected {
            Expected::Exactly(n) => self.found == n,
            Expected::AtLeast(n) => self.found >= n,
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(n) => f.write_str(&grouped(*n)),
            Self::AtLeast(n) => write!(f, "≥ {}", grouped(*n)),
        }
    }
}

fn grouped(n: i64) -> String {
    u64::try_from(n).map_or_else(|_| n.to_string(), count)
}

#[derive(Serialize)]
struct ReportLine<'a> {
    run: i64,
    clean: bool,
    elapsed_ms: Option<u128>,
    checks: Vec<CheckLine>,
    figures: &'a Figures,
}

#[derive(Serialize)]
struct CheckLine {
    check: &'static str,
    expected: String,
    found: i64,
    ok: bool,
}

impl Report {
    fn faults(&self) -> usize {
        self.checks.iter().filter(|check| !check.holds()).count()
    }

    /// An error if a check does not hold.
    pub(super) fn verdict(&self) -> Result<()> {
        match self.faults() {
            0 => Ok(()),
            faults => bail!("the audit of run {} found {faults} faults", self.run),
        }
    }

    pub(super) fn print(&self, elapsed: Option<Duration>, out: &mut Output) -> Result<()> {
        if out.is_json() {
            return out.object(&ReportLine {
                run: self.run,
                clean: self.faults() == 0,
                elapsed_ms: elapsed.map(|elapsed| elapsed.as_millis()),
                checks: self.checks.iter().map(CheckLine::from).collect(),
                figures: &self.figures,
            });
        }
        let row = |check: &Check| {
            let verdict = if check.holds() { "ok" } else { "FAULT" };
            let (expected, found) = (check.expected.to_string(), grouped(check.found));
            vec![check.what.to_owned(), expected, found, verdict.to_owned()]
        };
        out.table(
            &["AUDIT", ">EXPECTED", ">FOUND", ""],
            self.checks.iter().map(row).collect(),
        )?;
        out.line("")?;
        let figures = &self.figures;
        let per_s = |n: Option<i64>| n.map_or_else(|| "–".to_owned(), grouped);
        out.line(format_args!(
            "throughput    {} orders/s, {} emails/s",
            per_s(figures.orders_per_s),
            per_s(figures.emails_per_s)
        ))?;
        out.line(format_args!(
            "redeliveries  {} jobs claimed again, {} of {} emails sent again",
            grouped(figures.jobs_claimed_again),
            grouped(figures.emails_sent_again),
            grouped(figures.emails_sent)
        ))?;
        let ms = |us: Option<i64>| {
            us.map_or_else(
                || "–".to_owned(),
                |us| format!("{}.{:03} ms", us / 1_000, us % 1_000),
            )
        };
        out.line(format_args!(
            "wake latency  p50 {}, p99 {}, from commit to start in another process, {} wakes",
            ms(figures.wake_p50_us),
            ms(figures.wake_p99_us),
            figures.wakes
        ))?;
        if let Some(elapsed) = elapsed {
            out.line(format_args!("elapsed       {:.1} s", elapsed.as_secs_f64()))?;
        }
        Ok(())
    }
}

impl From<&Check> for CheckLine {
    fn from(check: &Check) -> Self {
        let expected = match check.expected {
            Expected::Exactly(n) => n.to_string(),
            Expected::AtLeast(n) => format!(">={n}"),
        };
        Self {
            check: check.what,
            expected,
            found: check.found,
            ok: check.holds(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let values: Vec<i64> = (1..=200).collect();
        assert_eq!(
            (percentile(&values, 50), percentile(&values, 99)),
            (Some(100), Some(198))
        );
        assert_eq!(
            (percentile(&[7], 50), percentile(&[7], 99)),
            (Some(7), Some(7))
        );
        assert_eq!(percentile(&[], 50), None);
    }
}
