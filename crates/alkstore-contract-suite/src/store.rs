//! The store as a whole: several of them on one database, closing, dropping and reopening.

pub(crate) mod close;
pub(crate) mod reopen;
pub(crate) mod runtime;

use std::sync::Arc;
use std::time::Duration;

use alkstore::JobHandle;
use serde_json::json;

use crate::StoreFactory;
use crate::harness::cases;
use crate::open::open;
use crate::queue::{job, put, take};
use crate::wait::eventually;

/// Stores on one database see the same data, in every mechanism.
async fn stores_on_one_database_share_everything(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let elsewhere = other.queue("q", Default::default()).await.unwrap();
    let id = put(&*queue).await;
    assert_eq!(job(&*elsewhere, id).await, job(&*queue, id).await);
    let claim = take(&*elsewhere).await;
    assert!(queue.claim_one("w").await.unwrap().is_none());
    assert_eq!(queue.ack_batch(&[id]).await.unwrap(), 1);
    assert!(!claim.ack().await.unwrap());
    other.outbox("o").await.unwrap().enqueue(json!(1), Default::default()).await.unwrap();
    let mut deliver = |_: Box<dyn JobHandle>| async { Ok(()) };
    assert!(store.outbox("o").await.unwrap().run_once("w", &mut deliver).await.unwrap());
    let lock = store.try_lock("l", "a", 60).await.unwrap().unwrap();
    assert!(other.try_lock("l", "b", 60).await.unwrap().is_none());
    assert!(lock.release().await.unwrap());
    store.schedule("s", "@every 1h", "q", json!(1), Default::default()).await.unwrap();
    assert_eq!(other.schedules().await.unwrap(), store.schedules().await.unwrap());
    assert!(other.unschedule("s").await.unwrap());
    store.stream("s").await.unwrap().save_offset("c", 4).await.unwrap();
    assert_eq!(other.stream("s").await.unwrap().get_offset("c").await.unwrap(), 4);
}

/// Two fresh databases have nothing in common.
async fn databases_are_separate(f: Arc<dyn StoreFactory>) {
    let (store, other) = (open(&f).await, open(&f).await);
    let mut wakes = other.listen("c").await.unwrap();
    put(&*store.queue("q", Default::default()).await.unwrap()).await;
    let stream = store.stream("s").await.unwrap();
    stream.publish(json!(1)).await.unwrap();
    stream.save_offset("c", 1).await.unwrap();
    store.notify("c", json!(1)).await.unwrap();
    store.try_lock("l", "a", 60).await.unwrap().unwrap();
    store.schedule("s", "@every 1h", "q", json!(1), Default::default()).await.unwrap();
    assert!(other.queues().await.unwrap().is_empty());
    assert!(other.streams().await.unwrap().is_empty());
    assert!(other.schedules().await.unwrap().is_empty());
    assert!(other.try_lock("l", "b", 60).await.unwrap().is_some());
    assert_eq!(wakes.recv_timeout(Duration::from_millis(100)).await.unwrap(), None);
}

/// Everything works from many tasks of one store at once.
async fn a_store_serves_many_tasks(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let mut tasks = Vec::new();
    for n in 0..30 {
        let store = store.clone();
        tasks.push(tokio::spawn(async move {
            let name = format!("n{n}");
            let queue = store.queue(&name, Default::default()).await.unwrap();
            let stream = store.stream(&name).await.unwrap();
            let mut events = stream.subscribe("c").await.unwrap();
            let mut wakes = store.listen(&name).await.unwrap();
            put(&*queue).await;
            assert!(queue.wait_ready(Duration::from_secs(10)).await.unwrap());
            assert!(take(&*queue).await.ack().await.unwrap());
            let offset = stream.publish(json!(n)).await.unwrap();
            assert_eq!(events.recv().await.unwrap().unwrap().offset, offset);
            events.save_offset().await.unwrap();
            store.notify(&name, json!(n)).await.unwrap();
            assert_eq!(wakes.recv().await.unwrap().channel, name);
            let lock = store.try_lock(&name, "o", 60).await.unwrap().unwrap();
            assert!(lock.release().await.unwrap());
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert!(store.queues().await.unwrap().is_empty());
}

/// Closing one of several stores leaves the others at work.
async fn closing_one_store_leaves_the_others(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for _ in 0..5 {
        let other = store.another().await;
        let mut wakes = store.listen("c").await.unwrap();
        let stream = store.stream("s").await.unwrap();
        let mut events = stream.subscribe("c").await.unwrap();
        let held = other.try_lock("l", "o", 60).await.unwrap().unwrap();
        other.close().await;
        assert!(held.renew(60).await.is_err());
        assert!(store.try_lock("l", "p", 60).await.unwrap().is_none(), "its TTL governs");
        assert!(store.release_lock("l").await.unwrap());
        let third = store.another().await;
        third.notify("c", json!(1)).await.unwrap();
        assert_eq!(wakes.recv().await.unwrap().channel, "c");
        let offset = third.stream("s").await.unwrap().publish(json!(1)).await.unwrap();
        assert_eq!(events.recv().await.unwrap().unwrap().offset, offset);
        events.save_offset().await.unwrap();
        third.close().await;
    }
}

/// A store opens while another has a transaction open.
async fn a_store_opens_during_a_transaction(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let mut tx = store.begin_tx().await.unwrap();
    let id = tx.enqueue_tx("q", Default::default(), json!(1)).await.unwrap();
    let opening = tokio::time::timeout(Duration::from_secs(3), store.another());
    let other = opening.await.expect("opening waits for no transaction");
    let queue = other.queue("q", Default::default()).await.unwrap();
    assert_eq!(queue.get_job(id).await.unwrap(), None);
    tx.commit().await.unwrap();
    eventually(Duration::from_secs(1), async || queue.get_job(id).await.unwrap()).await;
}

cases!("store":
    stores_on_one_database_share_everything,
    databases_are_separate,
    a_store_serves_many_tasks;
    several_stores:
        closing_one_store_leaves_the_others,
        a_store_opens_during_a_transaction,
);
