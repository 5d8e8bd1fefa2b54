//! What the audit measures: how fast the run was. Nothing is demanded of these figures.

use anyhow::Result;
use serde::Serialize;

use crate::business::{Reader, params};
use crate::output::Output;

use super::order::Pipeline;
use super::report::grouped;

/// How fast a run was, and how often something came again.
#[derive(Serialize)]
pub(super) struct Figures {
    orders_per_s: Option<i64>,
    emails_per_s: Option<i64>,
    emails_sent: i64,
    emails_sent_again: i64,
    jobs_claimed_again: i64,
    wakes: usize,
    wake_p50_us: Option<i64>,
    wake_p99_us: Option<i64>,
}

impl Figures {
    pub(super) fn read(reader: &Reader, pipeline: &Pipeline) -> Result<Self> {
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

    pub(super) fn print(&self, out: &mut Output) -> Result<()> {
        let per_s = |n: Option<i64>| n.map_or_else(|| "–".to_owned(), grouped);
        out.line(format_args!(
            "throughput    orders {}/s, emails {}/s",
            per_s(self.orders_per_s),
            per_s(self.emails_per_s)
        ))?;
        out.line(format_args!(
            "redeliveries  jobs claimed again {}, emails sent again {} of {}",
            grouped(self.jobs_claimed_again),
            grouped(self.emails_sent_again),
            grouped(self.emails_sent)
        ))?;
        let ms = |us: Option<i64>| {
            us.map_or_else(|| "–".to_owned(), |us| format!("{}.{:03} ms", us / 1_000, us % 1_000))
        };
        out.line(format_args!(
            "wake latency  p50 {}, p99 {}: commit to start in another process, {} wakes",
            ms(self.wake_p50_us),
            ms(self.wake_p99_us),
            self.wakes
        ))
    }
}

/// The nearest rank, of sorted values.
fn percentile(sorted: &[i64], percent: usize) -> Option<i64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let values: Vec<i64> = (1..=200).collect();
        assert_eq!((percentile(&values, 50), percentile(&values, 99)), (Some(100), Some(198)));
        assert_eq!((percentile(&[7], 50), percentile(&[7], 99)), (Some(7), Some(7)));
        assert_eq!(percentile(&[], 50), None);
    }
}
