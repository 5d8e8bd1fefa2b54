//! The workloads as every engine does them, through the contract's traits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use alkstore::{Queue, QueueOpts, Store};

use crate::Result;
use crate::line::Round;
use crate::load::{PAYLOAD, drain, rate};

/// The queue of every workload.
pub(crate) const QUEUE: &str = "bench";

const WORKER: &str = "worker-1";
const BATCH: usize = 1_000;

pub(crate) fn enqueue(round: &Round<'_>, store: &dyn Store, tasks: usize) -> Result<f64> {
    let queue = queue(round, store)?;
    Ok(rate(round, tasks, move || {
        let queue = queue.clone();
        async move {
            let enqueued = queue.enqueue(PAYLOAD.clone(), Default::default()).await;
            enqueued.expect("the store works");
        }
    }))
}

/// Rows per second; making the batches is the caller's work and not counted.
pub(crate) fn enqueue_batches(round: &Round<'_>, store: &dyn Store) -> Result<f64> {
    let queue = queue(round, store)?;
    let mut time = Duration::ZERO;
    for _ in 0..round.plan.batches {
        let batch = vec![(PAYLOAD.clone(), Default::default()); BATCH];
        let start = Instant::now();
        round.runtime.block_on(queue.enqueue_batch(batch))?;
        time += start.elapsed();
    }
    Ok((round.plan.batches * BATCH) as f64 / time.as_secs_f64())
}

pub(crate) fn drain_singly(round: &Round<'_>, store: &dyn Store, workers: usize) -> Result<f64> {
    let jobs = round.plan.jobs;
    let queue = filled(round, store, jobs)?;
    Ok(drain(round, jobs, workers, move || {
        let queue = queue.clone();
        async move {
            match queue.claim_one(WORKER).await.expect("the store works") {
                Some(job) => usize::from(job.ack().await.expect("the store works")),
                None => 0,
            }
        }
    }))
}

pub(crate) fn drain_batches(round: &Round<'_>, store: &dyn Store) -> Result<f64> {
    let jobs = round.plan.batched_jobs;
    let queue = filled(round, store, jobs)?;
    Ok(drain(round, jobs, 1, move || {
        let queue = queue.clone();
        async move {
            let jobs = queue.claim_batch(WORKER, 100).await.expect("the store works");
            let ids: Vec<i64> = jobs.iter().map(|job| job.job().id).collect();
            let acked = queue.ack_batch(&ids).await.expect("the store works");
            usize::try_from(acked).expect("a count")
        }
    }))
}

fn queue(round: &Round<'_>, store: &dyn Store) -> Result<Arc<dyn Queue>> {
    Ok(round.runtime.block_on(store.queue(QUEUE, QueueOpts::default()))?.into())
}

fn filled(round: &Round<'_>, store: &dyn Store, jobs: usize) -> Result<Arc<dyn Queue>> {
    let queue = queue(round, store)?;
    let batch = vec![(PAYLOAD.clone(), Default::default()); jobs];
    round.runtime.block_on(queue.enqueue_batch(batch))?;
    Ok(queue)
}
