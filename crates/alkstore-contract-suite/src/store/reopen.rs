//! What a durable engine keeps when the last store is closed and the data is opened again.

use std::sync::Arc;

use alkstore::{EnqueueOpts, JobHandle, JobState, ScheduleOpts};
use serde_json::json;

use crate::StoreFactory;
use crate::harness::cases;
use crate::open::open;
use crate::queue::{job, put, take};
use crate::stream::{all, publish};

/// Jobs are as they were: pending, delayed, claimed and dead ones, and the outbox's.
async fn jobs_outlive_the_store(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let (claimed, dead, pending) = (put(&*queue).await, put(&*queue).await, put(&*queue).await);
    let opts =
        EnqueueOpts { delay: Some(600), priority: 4, expires: Some(900), ..Default::default() };
    let delayed = queue.enqueue(json!({ "a": [1, "\u{0}"] }), opts).await.unwrap();
    let claims = queue.claim_batch("w", 2).await.unwrap();
    let mut claims = claims.into_iter();
    let claim = claims.next().unwrap();
    assert!(claims.next().unwrap().fail(Some("why".into())).await.unwrap());
    store.outbox("o").await.unwrap().enqueue(json!(1), Default::default()).await.unwrap();
    let before = store.jobs("q", None, None, 9).await.unwrap();
    assert_eq!(
        before.iter().map(|job| job.id).collect::<Vec<_>>(),
        [claimed, dead, pending, delayed]
    );

    let store = store.reopen().await;
    assert_eq!(store.jobs("q", None, None, 9).await.unwrap(), before);
    assert!(claim.ack().await.is_err(), "its store is closed");
    let queue = store.queue("q", Default::default()).await.unwrap();
    assert_eq!(take(&*queue).await.job().id, pending);
    assert!(queue.claim_one("w").await.unwrap().is_none(), "the old claim is still live");
    assert_eq!(job(&*queue, dead).await.state, JobState::Dead);
    let mut deliver = |_: Box<dyn JobHandle>| async { Ok(()) };
    assert!(store.outbox("o").await.unwrap().run_once("w", &mut deliver).await.unwrap());
}

/// Events and checkpoints are as they were, and a subscriber resumes where it stood.
async fn streams_outlive_the_store(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    let given = publish(&*stream, 5).await;
    stream.publish_with_key(Some("k".into()), json!(null)).await.unwrap();
    let mut events = stream.subscribe("c").await.unwrap();
    for _ in 0..3 {
        events.recv().await.unwrap().unwrap();
    }
    events.save_offset().await.unwrap();
    let before = all(&*stream).await;
    let store = store.reopen().await;
    let stream = store.stream("s").await.unwrap();
    assert_eq!(all(&*stream).await, before);
    assert_eq!(stream.get_offset("c").await.unwrap(), given[2]);
    let mut events = stream.subscribe("c").await.unwrap();
    for event in &before[3..] {
        assert_eq!(&events.recv().await.unwrap().unwrap(), event);
    }
}

/// Locks are held on, and schedules keep their boundaries.
async fn locks_and_schedules_outlive_the_store(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let lock = store.try_lock("l", "a", 600).await.unwrap().unwrap();
    let opts = ScheduleOpts { priority: 1, max_attempts: Some(2), expires: Some(3) };
    store.schedule("s", "@every 1h", "q", json!(1), opts.clone()).await.unwrap();
    let schedules = store.schedules().await.unwrap();
    let store = store.reopen().await;
    assert!(lock.renew(60).await.is_err(), "its store is closed");
    assert!(store.try_lock("l", "b", 60).await.unwrap().is_none());
    let again = store.try_lock("l", "a", 60).await.unwrap().unwrap();
    assert_eq!(again.fencing_token(), lock.fencing_token());
    assert!(again.release().await.unwrap());
    store.schedule("s", "@every 1h", "q", json!(1), opts).await.unwrap();
    assert_eq!(store.schedules().await.unwrap(), schedules);
}

/// Ids, offsets and fencing tokens are not used again after everything is gone and reopened.
async fn numbers_are_not_used_again_after_reopening(f: Arc<dyn StoreFactory>) {
    let mut store = open(&f).await;
    let (mut id, mut offset, mut token) = (0, 0, i64::MIN);
    for _ in 0..4 {
        let queue = store.queue("q", Default::default()).await.unwrap();
        let stream = store.stream("s").await.unwrap();
        let lock = store.try_lock("l", "o", 60).await.unwrap().unwrap();
        let numbers = (put(&*queue).await, stream.publish(json!(1)).await.unwrap());
        assert!(numbers.0 > id && numbers.1 > offset && lock.fencing_token() > token);
        ((id, offset), token) = (numbers, lock.fencing_token());
        assert!(queue.cancel(id).await.unwrap());
        assert_eq!(stream.trim_to(i64::MAX).await.unwrap(), 1);
        assert!(lock.release().await.unwrap());
        store = store.reopen().await;
    }
}

/// What was not committed at the close is gone.
async fn open_transactions_do_not_outlive_the_store(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let mut tx = store.begin_tx().await.unwrap();
    crate::tx::fill(&mut *tx).await;
    let store = store.reopen().await;
    assert_eq!(crate::tx::seen(&store).await, 0);
    crate::tx::works(&store).await;
    assert!(tx.commit().await.is_err());
    assert_eq!(crate::tx::seen(&store).await, 0);
}

/// A store that is dropped without closing keeps all that was acknowledged.
async fn a_dropped_store_keeps_its_data(f: Arc<dyn StoreFactory>) {
    let mut store = open(&f).await;
    for n in 1..=10 {
        let queue = store.queue("q", Default::default()).await.unwrap();
        put(&*queue).await;
        store = store.drop_and_reopen().await;
        assert_eq!(store.queues().await.unwrap()[0].pending, n);
    }
}

cases!("store": ;
    durable:
        jobs_outlive_the_store,
        streams_outlive_the_store,
        locks_and_schedules_outlive_the_store,
        numbers_are_not_used_again_after_reopening,
        open_transactions_do_not_outlive_the_store,
        a_dropped_store_keeps_its_data,
);
