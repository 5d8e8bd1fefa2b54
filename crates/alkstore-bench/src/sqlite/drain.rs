//! W2: claim and ack until a full queue is empty.

use std::sync::Arc;

use super::floor::group::Group;
use super::floor::raw::Raw;
use super::{connection, floor, line};
use crate::line::{Line, Round};
use crate::load::{BYTES, drain};
use crate::store;
use crate::{Durability, Result};

pub(super) fn lines(durability: Durability) -> Vec<Line> {
    vec![
        line(
            "W2",
            "drain, claim and ack, one worker",
            durability,
            vec![
                floor("group", 0.9, |round| group_drain(round, 1)),
                floor("raw", None, |round| raw_drain(round, 1)),
            ],
            |round, ours| store::drain_singly(round, ours, 1),
        ),
        line(
            "W2",
            "drain, claim and ack, 8 workers",
            durability,
            vec![
                floor("group", 0.8, |round| group_drain(round, 8)),
                floor("raw", None, |round| raw_drain(round, 8)),
            ],
            |round, ours| store::drain_singly(round, ours, 8),
        ),
        line(
            "W2",
            "drain, claim 100 and ack 100",
            durability,
            vec![floor("raw", 0.9, raw_drain_batches)],
            |round, ours| store::drain_batches(round, ours),
        ),
    ]
}

fn filled(round: &Round<'_>, jobs: usize) -> Result<Raw> {
    let raw = Raw::new(connection(round)?);
    raw.enqueue_batch(&vec![BYTES.clone(); jobs])?;
    Ok(raw)
}

fn raw_drain(round: &Round<'_>, workers: usize) -> Result<f64> {
    let jobs = round.plan.jobs;
    let raw = Arc::new(filled(round, jobs)?);
    Ok(drain(round, jobs, workers, move || {
        let raw = raw.clone();
        async move {
            let claimed = raw.claim(1).expect("the floor's disk works");
            for job in &claimed {
                assert!(raw.ack(job).expect("the floor's disk works"));
            }
            claimed.len()
        }
    }))
}

fn group_drain(round: &Round<'_>, workers: usize) -> Result<f64> {
    let jobs = round.plan.jobs;
    let group = Group::new(filled(round, jobs)?.into_inner());
    Ok(drain(round, jobs, workers, move || {
        let group = group.clone();
        async move {
            let claimed = group.claim(1).await;
            let n = claimed.len();
            for job in claimed {
                assert!(group.ack(job).await);
            }
            n
        }
    }))
}

fn raw_drain_batches(round: &Round<'_>) -> Result<f64> {
    let jobs = round.plan.batched_jobs;
    let raw = Arc::new(filled(round, jobs)?);
    Ok(drain(round, jobs, 1, move || {
        let raw = raw.clone();
        async move {
            let claimed = raw.claim(100).expect("the floor's disk works");
            assert_eq!(raw.ack_batch(&claimed).expect("the floor's disk works"), claimed.len());
            claimed.len()
        }
    }))
}
