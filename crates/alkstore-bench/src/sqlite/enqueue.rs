//! W1: enqueue, alone and with a business row.

use std::time::Instant;

use alkstore::TxHandle;
use alkstore_sqlite::SqliteStore;

use super::floor::lease::Lease;
use super::{connection, floor, group, line, raw};
use crate::line::{Line, Round};
use crate::load::{BYTES, PAYLOAD, rate};
use crate::store::{self, QUEUE};
use crate::{Durability, Result};

pub(super) fn lines(durability: Durability) -> Vec<Line> {
    let alone_target = if durability == Durability::Full { 0.9 } else { 0.6 };
    vec![
        line(
            "W1",
            "enqueue, one task",
            durability,
            vec![
                floor("raw", alone_target, |round| raw_enqueue(round, 1)),
                floor("group", None, |round| group_enqueue(round, 1)),
            ],
            |round, ours| store::enqueue(round, ours, 1),
        ),
        line(
            "W1",
            "enqueue, 64 tasks",
            durability,
            vec![
                floor("group", 0.8, |round| group_enqueue(round, 64)),
                floor("raw", None, |round| raw_enqueue(round, 64)),
            ],
            |round, ours| store::enqueue(round, ours, 64),
        ),
        order_line("begin, row, enqueue, commit, one task", durability, 1),
        order_line("begin, row, enqueue, commit, 64 tasks", durability, 64),
        line(
            "W1",
            "row and enqueue in one closure, 64 tasks",
            durability,
            vec![floor("group", 0.6, |round| group_order(round, 64))],
            |round, ours| our_closure(round, ours, 64),
        ),
        line(
            "W1",
            "enqueue a batch of 1,000 (rows)",
            durability,
            vec![floor("raw", 0.8, raw_batches)],
            |round, ours| store::enqueue_batches(round, ours),
        ),
    ]
}

/// A business row and a job in one transaction of four awaited calls.
fn order_line(name: &'static str, durability: Durability, tasks: usize) -> Line {
    line(
        "W1",
        name,
        durability,
        vec![
            floor("lease", 0.9, move |round| lease_order(round, tasks)),
            floor("raw", None, move |round| raw_order(round, tasks)),
        ],
        move |round, ours| our_order(round, ours, tasks),
    )
}

fn our_order(round: &Round<'_>, store: &SqliteStore, tasks: usize) -> Result<f64> {
    create_business_table(round, store)?;
    let store = store.clone();
    Ok(rate(round, tasks, move || {
        let store = store.clone();
        async move { order(&store).await.expect("the store works") }
    }))
}

async fn order(store: &SqliteStore) -> alkstore::Result<()> {
    let mut tx = store.begin().await?;
    tx.run(|db| db.prepare_cached(floor::BUSINESS)?.execute([BYTES.as_slice()])).await?;
    tx.enqueue_tx(QUEUE, Default::default(), PAYLOAD.clone()).await?;
    Box::new(tx).commit().await
}

/// The same as one closure on the writer.
fn our_closure(round: &Round<'_>, store: &SqliteStore, tasks: usize) -> Result<f64> {
    create_business_table(round, store)?;
    let store = store.clone();
    Ok(rate(round, tasks, move || {
        let store = store.clone();
        async move {
            let written = store.write(|tx| {
                tx.run(|db| db.prepare_cached(floor::BUSINESS)?.execute([BYTES.as_slice()]))?;
                tx.enqueue(QUEUE, Default::default(), PAYLOAD.clone())
            });
            written.await.expect("the store works");
        }
    }))
}

fn create_business_table(round: &Round<'_>, store: &SqliteStore) -> Result<()> {
    round.runtime.block_on(async {
        let mut tx = store.begin().await?;
        tx.run(|db| db.execute_batch(floor::BUSINESS_TABLE)).await?;
        Ok(Box::new(tx).commit().await?)
    })
}

fn raw_enqueue(round: &Round<'_>, tasks: usize) -> Result<f64> {
    let raw = raw(round)?;
    Ok(rate(round, tasks, move || {
        let raw = raw.clone();
        async move {
            raw.enqueue(&BYTES).expect("the floor's disk works");
        }
    }))
}

fn raw_order(round: &Round<'_>, tasks: usize) -> Result<f64> {
    let raw = raw(round)?;
    Ok(rate(round, tasks, move || {
        let raw = raw.clone();
        async move {
            raw.order(&BYTES).expect("the floor's disk works");
        }
    }))
}

fn group_enqueue(round: &Round<'_>, tasks: usize) -> Result<f64> {
    let group = group(round)?;
    Ok(rate(round, tasks, move || {
        let group = group.clone();
        async move {
            group.enqueue(&BYTES).await;
        }
    }))
}

fn group_order(round: &Round<'_>, tasks: usize) -> Result<f64> {
    let group = group(round)?;
    Ok(rate(round, tasks, move || {
        let group = group.clone();
        async move {
            group.order(&BYTES).await;
        }
    }))
}

fn lease_order(round: &Round<'_>, tasks: usize) -> Result<f64> {
    let lease = Lease::new(connection(round)?);
    Ok(rate(round, tasks, move || {
        let lease = lease.clone();
        async move {
            lease.order(&BYTES).await;
        }
    }))
}

fn raw_batches(round: &Round<'_>) -> Result<f64> {
    let raw = raw(round)?;
    let batch = vec![BYTES.clone(); 1_000];
    let start = Instant::now();
    for _ in 0..round.plan.batches {
        raw.enqueue_batch(&batch)?;
    }
    Ok((round.plan.batches * batch.len()) as f64 / start.elapsed().as_secs_f64())
}
