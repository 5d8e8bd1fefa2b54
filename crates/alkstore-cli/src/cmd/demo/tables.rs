//! The application's own tables.

use alkstore::Store;
use alkstore::engine::clock::Clock;
use anyhow::{Context, Result};

use crate::business::{self, params};

use super::order::{Order, Pipeline};

const TABLES: [&str; 9] = [
    "CREATE TABLE IF NOT EXISTS demo_run (
         run BIGINT PRIMARY KEY, orders BIGINT NOT NULL, called_off BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS demo_order (
         run BIGINT NOT NULL, seq BIGINT NOT NULL, customer TEXT NOT NULL,
         amount_cents BIGINT NOT NULL, PRIMARY KEY (run, seq))",
    "CREATE TABLE IF NOT EXISTS demo_commit (
         run BIGINT NOT NULL, seq BIGINT NOT NULL, committed_us BIGINT NOT NULL,
         PRIMARY KEY (run, seq))",
    "CREATE TABLE IF NOT EXISTS demo_email (
         run BIGINT NOT NULL, seq BIGINT NOT NULL, worker TEXT NOT NULL,
         attempts BIGINT NOT NULL, sends BIGINT NOT NULL, started_us BIGINT NOT NULL,
         sent_us BIGINT NOT NULL, PRIMARY KEY (run, seq))",
    "CREATE TABLE IF NOT EXISTS demo_total (
         run BIGINT NOT NULL, customer TEXT NOT NULL, orders BIGINT NOT NULL,
         amount_cents BIGINT NOT NULL, PRIMARY KEY (run, customer))",
    "CREATE TABLE IF NOT EXISTS demo_webhook (
         run BIGINT NOT NULL, seq BIGINT NOT NULL, attempts BIGINT NOT NULL,
         deliveries BIGINT NOT NULL, delivered_us BIGINT NOT NULL, PRIMARY KEY (run, seq))",
    "CREATE TABLE IF NOT EXISTS demo_report (
         run BIGINT NOT NULL, job BIGINT NOT NULL, swept BIGINT NOT NULL,
         emails BIGINT NOT NULL, PRIMARY KEY (run, job))",
    "CREATE TABLE IF NOT EXISTS demo_victim (run BIGINT PRIMARY KEY, worker TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS demo_held (
         run BIGINT NOT NULL, seq BIGINT NOT NULL, PRIMARY KEY (run, seq))",
];

/// Makes the tables where they are missing, and begins a run with a number that no other has.
pub(super) async fn begin_run(store: &dyn Store, orders: &[Order]) -> Result<Pipeline> {
    let count = i64::try_from(orders.len())?;
    let called_off = i64::try_from(orders.iter().filter(|order| order.is_called_off()).count())?;
    let run = Clock::System.now_us() / 1_000;
    let mut tx = store.begin_tx().await?;
    for table in TABLES {
        business::execute(&mut *tx, table, params![])
            .await
            .context("cannot make the demo's tables")?;
    }
    business::execute(
        &mut *tx,
        "INSERT INTO demo_run (run, orders, called_off) VALUES ($1, $2, $3)",
        params![run, count, called_off],
    )
    .await
    .context("cannot begin a run")?;
    tx.commit().await?;
    Ok(Pipeline::new(run, count))
}

/// Records when each order's commit came back. It comes after the placing, in transactions of a
/// size that keeps nobody waiting.
pub(super) async fn record_commits(
    store: &dyn Store,
    pipeline: &Pipeline,
    commits: &[(i64, i64)],
) -> alkstore::Result<()> {
    for part in commits.chunks(500) {
        let mut tx = store.begin_tx().await?;
        for &(seq, committed_us) in part {
            business::execute(
                &mut *tx,
                "INSERT INTO demo_commit (run, seq, committed_us) VALUES ($1, $2, $3)",
                params![pipeline.run, seq, committed_us],
            )
            .await?;
        }
        tx.commit().await?;
    }
    Ok(())
}
