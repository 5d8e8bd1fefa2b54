//! After closing, by call or by drop: every call errs, receivers end, nothing hangs.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use alkstore::ops::QueueKind;
use alkstore::{Error, JobHandle, Result, StopToken};
use serde_json::json;
use tokio::time::timeout;

use crate::harness::cases;
use crate::open::{Opened, open};
use crate::queue::{put, take};
use crate::schedule::Runner;
use crate::wait::eventually;
use crate::{EngineStore, StoreFactory};

/// Longer than anything takes that does not hang.
const SOON: Duration = Duration::from_secs(5);

fn assert_closed<T: Debug>(call: &str, outcome: Result<T>) {
    let error = outcome.expect_err(call);
    assert!(matches!(error, Error::Database(_)), "{call}: {error:?}");
    assert!(!error.is_transient(), "{call}: trying again does not help");
    assert!(std::error::Error::source(&error).is_some(), "{call}: no cause");
}

/// Calls the whole store; whatever cannot be seen from here is done by the other cases.
async fn every_call_errs(store: &EngineStore) {
    assert_closed("begin_tx", store.begin_tx().await.map(drop));
    assert_closed("notify", store.notify("c", json!(1)).await);
    assert_closed("listen", store.listen("c").await.map(drop));
    assert_closed("stream", store.stream("s").await.map(drop));
    assert_closed("queue", store.queue("q", Default::default()).await.map(drop));
    assert_closed("outbox", store.outbox("o").await.map(drop));
    assert_closed("try_lock", store.try_lock("l", "o", 60).await.map(drop));
    let opts = Default::default();
    assert_closed("schedule", store.schedule("s", "@every 1h", "q", json!(1), opts).await);
    assert_closed("unschedule", store.unschedule("s").await);
    assert_closed("run_schedules", store.run_schedules(StopToken::new()).await);
    assert_closed("with_tx", store.with_tx(Box::new(|_| Box::pin(async { Ok(()) }))).await);
    assert_closed("queues", store.queues().await);
    assert_closed("jobs", store.jobs("q", None, None, 9).await);
    assert_closed("streams", store.streams().await);
    assert_closed("consumers", store.consumers("s").await);
    assert_closed("locks", store.locks().await);
    assert_closed("schedules", store.schedules().await);
    assert_closed("redrive", store.redrive("q", &[1]).await);
    assert_closed("discard", store.discard("q", &[1]).await);
    assert_closed("retry_now", store.retry_now("q", &[1]).await);
    assert_closed("set_offset", store.set_offset("s", "c", 1).await);
    assert_closed("forget_consumer", store.forget_consumer("s", "c").await);
    assert_closed("release_lock", store.release_lock("l").await);
}

/// Every call on a closed store errs with `Database`, and closing again is fine.
async fn every_call_on_a_closed_store_errs(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for _ in 0..2 {
        timeout(SOON, store.close()).await.unwrap();
        timeout(SOON, every_call_errs(&store)).await.unwrap();
    }
}

/// Bad input is still told first.
async fn bad_input_is_told_before_the_close(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let stream = store.stream("s").await.unwrap();
    let mut tx = store.begin_tx().await.unwrap();
    store.close().await;
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let reserved = "__alkstore_x";
    for outcome in [
        store.notify(reserved, json!(1)).await,
        store.queue(reserved, Default::default()).await.map(drop),
        store.unschedule(reserved).await.map(drop),
        store.jobs(reserved, None, None, 9).await.map(drop),
        tx.publish_tx(reserved, json!(1)).await.map(drop),
    ] {
        assert!(matches!(outcome, Err(Error::ReservedName { .. })), "{outcome:?}");
    }
    for outcome in [
        queue.enqueue(deep.clone(), Default::default()).await.map(drop),
        stream.publish(deep.clone()).await.map(drop),
        tx.enqueue_tx("q", Default::default(), deep).await.map(drop),
    ] {
        assert!(matches!(outcome, Err(Error::Codec(_))), "{outcome:?}");
    }
    let outcome = queue.claim_one(" ").await.map(drop);
    assert!(matches!(outcome, Err(Error::InvalidName { .. })), "{outcome:?}");
    let outcome = store.schedule("s", "@daily", "q", json!(1), Default::default()).await;
    assert!(matches!(outcome, Err(Error::InvalidSpec { .. })), "{outcome:?}");
}

/// Queues, claims and outboxes that outlive their store err alike.
async fn queues_of_a_closed_store_err(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let outbox = store.outbox("o").await.unwrap();
    let ids = [put(&*queue).await, put(&*queue).await, put(&*queue).await, put(&*queue).await];
    let mut claims = queue.claim_batch("w", 4).await.unwrap();
    store.close().await;
    let calls = async {
        assert_closed("enqueue", queue.enqueue(json!(1), Default::default()).await);
        let batch = vec![(json!(1), Default::default())];
        assert_closed("enqueue_batch", queue.enqueue_batch(batch).await);
        assert_closed("claim_one", queue.claim_one("w").await.map(drop));
        assert_closed("claim_batch", queue.claim_batch("w", 9).await.map(drop));
        assert_closed("ack_batch", queue.ack_batch(&ids).await);
        assert_closed("cancel", queue.cancel(ids[0]).await);
        assert_closed("get_job", queue.get_job(ids[0]).await);
        assert_closed("sweep_expired", queue.sweep_expired().await);
        assert_closed("wait_ready", queue.wait_ready(Duration::from_secs(60)).await);
        assert_closed("heartbeat", claims[0].heartbeat(60).await);
        assert_closed("ack", claims.remove(0).ack().await);
        assert_closed("retry", claims.remove(0).retry(None, None).await);
        assert_closed("fail", claims.remove(0).fail(None).await);
        assert_closed("hand_back", claims.remove(0).hand_back().await);
        assert_closed("outbox enqueue", outbox.enqueue(json!(1), Default::default()).await);
        let mut deliver = |_: Box<dyn JobHandle>| async { panic!("there is nothing to deliver") };
        assert_closed("run_once", outbox.run_once("w", &mut deliver).await);
    };
    timeout(SOON, calls).await.unwrap();
}

/// So do streams, receivers and locks.
async fn streams_and_locks_of_a_closed_store_err(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    let lock = store.try_lock("l", "o", 60).await.unwrap().unwrap();
    stream.publish(json!(1)).await.unwrap();
    let mut events = stream.subscribe("c").await.unwrap();
    events.recv().await.unwrap().unwrap();
    store.close().await;
    let calls = async {
        assert_closed("publish", stream.publish(json!(1)).await);
        assert_closed("publish_with_key", stream.publish_with_key(None, json!(1)).await);
        assert_closed("publish_batch", stream.publish_batch(vec![(None, json!(1))]).await);
        assert_closed("read_since", stream.read_since(0, 9).await);
        assert_closed("read_from_consumer", stream.read_from_consumer("c", 9).await);
        assert_closed("save_offset", stream.save_offset("c", 9).await);
        assert_closed("get_offset", stream.get_offset("c").await);
        assert_closed("trim_to", stream.trim_to(1).await);
        assert_closed("subscribe", stream.subscribe("c").await.map(drop));
        assert_closed("a receiver's read_since", events.read_since(0, 9).await);
        assert_closed("a receiver's save_offset", events.save_offset().await);
        assert_closed("renew", lock.renew(60).await);
        assert_closed("release", lock.release().await);
    };
    timeout(SOON, calls).await.unwrap();
}

/// A transaction that is open at the close is rolled back, and its next call errs.
async fn an_open_transaction_ends_with_the_store(f: Arc<dyn StoreFactory>) {
    for fresh in [true, false] {
        let store = open(&f).await;
        let mut tx = store.begin_tx().await.unwrap();
        if !fresh {
            crate::tx::fill(&mut *tx).await;
        }
        timeout(SOON, store.close()).await.unwrap();
        let calls = async {
            assert_closed("publish_tx", tx.publish_tx("s", json!(1)).await);
            assert_closed("get_offset_tx", tx.get_offset_tx("s", "c").await);
            assert_closed("commit", tx.commit().await);
        };
        timeout(SOON, calls).await.unwrap();
    }
}

/// Receivers end: what was there is yielded first, then `None` and `Closed`, for good.
async fn receivers_of_a_closed_store_end(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    let mut events = stream.subscribe("c").await.unwrap();
    let mut wakes = store.listen("c").await.unwrap();
    let mut woken = store.listen("c").await.unwrap();
    store.notify("c", json!(1)).await.unwrap();
    assert_eq!(wakes.recv().await.unwrap().channel, "c");
    store.close().await;
    let ends = async {
        assert_eq!(woken.recv().await.unwrap().channel, "c", "it was there already");
        for wakes in [&mut wakes, &mut woken] {
            for _ in 0..2 {
                assert_eq!(wakes.recv().await, None);
                assert!(matches!(wakes.try_recv(), Err(Error::Closed)));
                let outcome = wakes.recv_timeout(Duration::from_secs(60)).await;
                assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
            }
        }
        for _ in 0..2 {
            assert!(events.recv().await.is_none());
            assert!(matches!(events.try_recv(), Err(Error::Closed)));
        }
        assert_eq!(events.offset(), 0);
    };
    timeout(SOON, ends).await.unwrap();
}

/// What waits at the close ends: receivers, `wait_ready`, `run_schedules`.
async fn waits_end_at_the_close(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let stream = store.stream("s").await.unwrap();
    let mut events = stream.subscribe("c").await.unwrap();
    let mut wakes = store.listen("c").await.unwrap();
    let mut timed = store.listen("c").await.unwrap();
    let runner = Runner::lead(&store).await;
    let waits = tokio::spawn(async move {
        let long = Duration::from_secs(600);
        tokio::join!(events.recv(), wakes.recv(), timed.recv_timeout(long), queue.wait_ready(long))
    });
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    timeout(SOON, store.close()).await.unwrap();
    let (event, wake, timed, ready) = timeout(SOON, waits).await.unwrap().unwrap();
    assert!(event.is_none() && wake.is_none());
    assert!(matches!(timed, Err(Error::Closed)), "{timed:?}");
    assert_closed("wait_ready", ready);
    assert_closed("run_schedules", runner.ended().await);
}

async fn works_on(store: Opened, n: i64) -> Result<()> {
    let queue = store.queue("q", Default::default()).await?;
    loop {
        queue.enqueue(json!(n), Default::default()).await?;
        if let Some(job) = queue.claim_one("w").await? {
            job.ack().await?;
        }
        let mut tx = store.begin_tx().await?;
        tx.publish_tx("s", json!(n)).await?;
        tx.commit().await?;
        tokio::task::yield_now().await;
    }
}

/// Closing while many calls are under way lets each end, well or with an error.
async fn closing_under_load_hangs_nothing(f: Arc<dyn StoreFactory>) {
    for _ in 0..5 {
        let store = open(&f).await;
        let tasks = (0..8).map(|n| tokio::spawn(works_on(store.clone(), n)));
        let tasks: Vec<_> = tasks.collect();
        eventually(Duration::from_secs(10), async || {
            let streams = store.streams().await.unwrap();
            (streams.first()?.length > 10).then_some(())
        })
        .await;
        timeout(SOON, async { tokio::join!(store.close(), store.close()) }).await.unwrap();
        for task in tasks {
            assert_closed("the loop", timeout(SOON, task).await.unwrap().unwrap());
        }
    }
}

/// The last handle's drop closes the store; handles and receivers do not keep it open.
async fn dropping_the_store_closes_it(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    put(&*queue).await;
    let claim = take(&*queue).await;
    let stream = store.stream("s").await.unwrap();
    let mut events = stream.subscribe("c").await.unwrap();
    let mut wakes = store.listen("c").await.unwrap();
    let mut tx = store.begin_tx().await.unwrap();
    let clone = store.clone();
    drop(store);
    assert!(queue.get_job(claim.job().id).await.unwrap().is_some(), "a clone keeps it open");
    let info = clone.queues().await.unwrap().remove(0);
    assert_eq!((info.kind, info.processing), (QueueKind::Queue, 1));
    drop(clone);
    let ends = async {
        assert!(events.recv().await.is_none());
        assert_eq!(wakes.recv().await, None);
        assert_closed("publish_tx", tx.publish_tx("s", json!(1)).await);
        assert_closed("commit", tx.commit().await);
        assert_closed("get_job", queue.get_job(1).await);
        assert_closed("ack", claim.ack().await);
        assert_closed("publish", stream.publish(json!(1)).await);
    };
    timeout(SOON, ends).await.unwrap();
}

cases!("store":
    every_call_on_a_closed_store_errs,
    bad_input_is_told_before_the_close,
    queues_of_a_closed_store_err,
    streams_and_locks_of_a_closed_store_err,
    an_open_transaction_ends_with_the_store,
    receivers_of_a_closed_store_end,
    waits_end_at_the_close,
    closing_under_load_hangs_nothing,
    dropping_the_store_closes_it,
);
