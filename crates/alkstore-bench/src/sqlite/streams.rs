//! W4: publish and read.

use super::{floor, group, line, raw};
use crate::line::{Line, Round};
use crate::load::{BYTES, rate};
use crate::store;
use crate::{Durability, Result};

/// Events of one transaction, and of one page.
const BATCH: usize = 100;
const PAGE: i64 = 256;

pub(super) fn lines(durability: Durability) -> Vec<Line> {
    vec![
        line(
            "W4",
            "publish, one task",
            durability,
            vec![
                floor("raw", 0.7, |round| raw_publish(round, 1)),
                floor("group", None, |round| group_publish(round, 1)),
            ],
            |round, ours| store::publish(round, ours, 1),
        ),
        line(
            "W4",
            "publish, 64 tasks",
            durability,
            vec![
                floor("group", 0.8, |round| group_publish(round, 64)),
                floor("raw", None, |round| raw_publish(round, 64)),
            ],
            |round, ours| store::publish(round, ours, 64),
        ),
        line(
            "W4",
            "publish 100 in a transaction (events)",
            durability,
            vec![floor("raw", 0.6, raw_batches)],
            |round, ours| store::publish_batches(round, ours, BATCH),
        ),
        line(
            "W4",
            "read pages of 256 (events)",
            durability,
            vec![floor("raw", 0.7, raw_read)],
            |round, ours| store::read_pages(round, ours, PAGE),
        ),
    ]
}

fn raw_publish(round: &Round<'_>, tasks: usize) -> Result<f64> {
    let raw = raw(round)?;
    Ok(rate(round, tasks, move || {
        let raw = raw.clone();
        async move {
            raw.publish(&BYTES).expect("the floor's disk works");
        }
    }))
}

fn group_publish(round: &Round<'_>, tasks: usize) -> Result<f64> {
    let group = group(round)?;
    Ok(rate(round, tasks, move || {
        let group = group.clone();
        async move {
            group.publish(&BYTES).await;
        }
    }))
}

fn raw_batches(round: &Round<'_>) -> Result<f64> {
    let raw = raw(round)?;
    let batches = rate(round, 1, move || {
        let raw = raw.clone();
        async move {
            raw.publish_batch(&BYTES, BATCH).expect("the floor's disk works");
        }
    });
    Ok(batches * BATCH as f64)
}

fn raw_read(round: &Round<'_>) -> Result<f64> {
    let raw = raw(round)?;
    raw.publish_batch(&BYTES, round.plan.events)?;
    store::paged(round, async |offset| {
        let page = raw.read(offset, PAGE)?;
        Ok((page.len(), page.last().map_or(offset, |event| event.offset)))
    })
}
