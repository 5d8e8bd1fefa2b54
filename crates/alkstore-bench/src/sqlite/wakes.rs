//! W3, the end of W4, and W5: from a commit to the task that waits for it, and notify.

use std::sync::Arc;

use super::floor::group::Group;
use super::{connection, floor, group, line, raw};
use crate::line::{Line, Round};
use crate::load::{BYTES, rate, wakes};
use crate::store;
use crate::{Durability, Result};

pub(super) fn lines(durability: Durability) -> Vec<Line> {
    let mut lines = vec![
        line(
            "W3",
            "enqueue to handler, idle worker (1/p50)",
            durability,
            vec![floor("group", 1.0 / 1.2, group_handler)],
            |round, ours| store::wake_handler(round, ours),
        ),
        line(
            "W4",
            "publish to subscriber (1/p50)",
            durability,
            vec![floor("group", 1.0 / 1.3, group_subscriber)],
            |round, ours| store::wake_subscriber(round, ours),
        ),
        line(
            "W5",
            "notify to recv, same process (1/p50)",
            durability,
            vec![floor("group", 1.0 / 2.0, group_listener)],
            store::wake_listener,
        ),
    ];
    if durability == Durability::Normal {
        lines.push(line(
            "W5",
            "notify, one task",
            durability,
            vec![floor("raw", 0.6, |round| raw_notify(round, 1))],
            |round, ours| store::notify(round, ours, 1),
        ));
    }
    lines.push(line(
        "W5",
        "notify, 64 tasks",
        durability,
        vec![floor("group", 0.8, |round| group_notify(round, 64))],
        |round, ours| store::notify(round, ours, 64),
    ));
    lines
}

fn group_handler(round: &Round<'_>) -> Result<f64> {
    let group = group(round)?;
    let (producer, committed) = (group.clone(), group.committed());
    let produce = move || {
        let group = producer.clone();
        async move {
            group.enqueue(&BYTES).await;
        }
    };
    Ok(wakes(round, produce, move || {
        let (group, committed) = (group.clone(), committed.clone());
        async move {
            loop {
                // A claim commits as well, so some wakes find nothing.
                committed.notified().await;
                if let Some(job) = group.claim(1).await.pop() {
                    let group = group.clone();
                    tokio::spawn(async move { group.ack(job).await });
                    return;
                }
            }
        }
    }))
}

fn group_subscriber(round: &Round<'_>) -> Result<f64> {
    let group = Group::new(connection(round)?);
    let reader =
        Arc::new(floor::raw::Raw::new(rusqlite::Connection::open(round.dir.join("floor.db"))?));
    let (producer, committed) = (group.clone(), group.committed());
    let produce = move || {
        let group = producer.clone();
        async move {
            group.publish(&BYTES).await;
        }
    };
    let cursor = Arc::new(std::sync::atomic::AtomicI64::new(0));
    Ok(wakes(round, produce, move || {
        let (reader, committed, cursor) = (reader.clone(), committed.clone(), cursor.clone());
        async move {
            committed.notified().await;
            let offset = cursor.load(std::sync::atomic::Ordering::Relaxed);
            let page = reader.read(offset, 256).expect("the floor's disk works");
            let last = page.last().expect("it was committed").offset;
            cursor.store(last, std::sync::atomic::Ordering::Relaxed);
        }
    }))
}

fn group_listener(round: &Round<'_>) -> Result<f64> {
    let group = group(round)?;
    let committed = group.committed();
    let produce = move || {
        let group = group.clone();
        async move { group.notify().await }
    };
    Ok(wakes(round, produce, move || {
        let committed = committed.clone();
        async move { committed.notified().await }
    }))
}

fn raw_notify(round: &Round<'_>, tasks: usize) -> Result<f64> {
    let raw = raw(round)?;
    Ok(rate(round, tasks, move || {
        let raw = raw.clone();
        async move { raw.notify().expect("the floor's disk works") }
    }))
}

fn group_notify(round: &Round<'_>, tasks: usize) -> Result<f64> {
    let group = group(round)?;
    Ok(rate(round, tasks, move || {
        let group = group.clone();
        async move { group.notify().await }
    }))
}
