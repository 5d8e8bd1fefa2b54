//! Several processes that run the schedules: each boundary fires once, whoever is killed.

use std::time::Duration;

use alkstore::ops::Inspect;
use alkstore::{Error, QueueOpts, StopToken, Store};
use alkstore_sqlite::SqliteStore;
use alkstore_testkit::{Child, Parent, TempDb, roles};
use serde_json::json;

use crate::{SOON, assert_sound, block_on, eventually, open};

/// Leads, or tries again and again to.
fn runs(parent: Parent) {
    block_on(async {
        let store = open(&parent.args()[0]);
        parent.tell("ready");
        loop {
            match store.run_schedules(StopToken::new()).await {
                Err(Error::LeadershipLost) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                other => panic!("{other:?}"),
            }
        }
    });
}

/// The process that leads, if one does.
async fn leader(store: &SqliteStore) -> Option<u32> {
    let locks = store.locks().await.unwrap();
    let owner = locks.first()?.owner.clone();
    Some(owner.split('-').next().unwrap().parse().unwrap())
}

/// Boundaries that have fired, as the schedules say themselves, and jobs.
async fn boundaries_and_jobs(store: &SqliteStore, firsts: &[i64]) -> (i64, i64) {
    let schedules = store.schedules().await.unwrap();
    let fired = schedules
        .iter()
        .zip(firsts)
        .map(|(schedule, first)| schedule.last_fire_at.map_or(0, |last| last - first + 1));
    let jobs = store.queues().await.unwrap().iter().map(|queue| queue.pending).sum();
    (fired.sum(), jobs)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_boundary_fires_once_though_leaders_are_killed() {
    let roles = roles! { runs };
    let db = TempDb::new();
    let store = open(&db);
    for i in 0..20 {
        let name = format!("every second {i}");
        let registered = store.schedule(&name, "@every 1s", "ticks", json!(i), Default::default());
        registered.await.unwrap();
    }
    let firsts = store.schedules().await.unwrap();
    let firsts: Vec<i64> = firsts.iter().map(|schedule| schedule.next_fire_at).collect();
    let mut children: Vec<Child> = (0..2).map(|_| roles.spawn("runs", &[&db])).collect();
    for child in &mut children {
        assert_eq!(child.hear(SOON), "ready");
    }
    let fired = async |beyond: i64| boundaries_and_jobs(&store, &firsts).await.1 > beyond;
    eventually("a tick", async || fired(20).await).await;
    assert!(matches!(store.run_schedules(StopToken::new()).await, Err(Error::LeadershipLost)));

    let led = leader(&store).await.expect("somebody fires");
    let victim = children.iter().position(|child| child.id() == led).unwrap();
    children.remove(victim).kill();
    // In the middle of a tick, or between two; its lease runs out first. Then what was missed is
    // caught up.
    eventually("the other one takes over", async || {
        leader(&store).await == Some(children[0].id()) && fired(20 * 10).await
    })
    .await;
    children.remove(0).kill();
    let (boundaries, jobs) = boundaries_and_jobs(&store, &firsts).await;
    assert_eq!(jobs, boundaries);
    let queue = store.queue("ticks", QueueOpts::default()).await.unwrap();
    assert_eq!(i64::try_from(queue.claim_batch("me", 100_000).await.unwrap().len()).unwrap(), jobs);
    assert_sound(&db);
}
