//! Transactions: all or nothing, seen from inside at once and from outside at the commit.

pub(crate) mod cancel;
pub(crate) mod closure;

use std::sync::Arc;
use std::time::Duration;

use alkstore::{EnqueueOpts, JobState, TxHandle, WakeReceiver};
use serde_json::json;
use tokio::time::timeout;

use crate::harness::cases;
use crate::open::{Opened, open};
use crate::{EngineStore, StoreFactory};

/// One operation of every kind.
pub(crate) async fn fill(tx: &mut dyn TxHandle) {
    tx.enqueue_tx("jobs", Default::default(), json!(1)).await.unwrap();
    tx.enqueue_batch_tx("batch", vec![(json!(1), Default::default())]).await.unwrap();
    tx.publish_tx("events", json!(1)).await.unwrap();
    tx.publish_with_key_tx("keyed", Some("k".into()), json!(1)).await.unwrap();
    tx.publish_batch_tx("batched", vec![(None, json!(1))]).await.unwrap();
    tx.save_offset_tx("events", "c", 7).await.unwrap();
    tx.outbox_enqueue_tx("mail", Default::default(), json!(1)).await.unwrap();
    tx.notify_tx("channel", json!(1)).await.unwrap();
}

/// How many of the writes of [`fill`] can be seen: 0 or 7, the notification left out.
pub(crate) async fn seen(store: &EngineStore) -> usize {
    let mut seen = store.queues().await.unwrap().len();
    for name in ["events", "keyed", "batched"] {
        let stream = store.stream(name).await.unwrap();
        seen += stream.read_since(0, 9).await.unwrap().len();
    }
    let stream = store.stream("events").await.unwrap();
    seen + usize::from(stream.get_offset("c").await.unwrap() == 7)
}

/// A fresh transaction on the store works, and soon.
pub(crate) async fn works(store: &EngineStore) {
    let work = async {
        let mut tx = store.begin_tx().await.unwrap();
        let id = tx.enqueue_tx("works", Default::default(), json!(1)).await.unwrap();
        tx.commit().await.unwrap();
        let queue = store.queue("works", Default::default()).await.unwrap();
        assert!(queue.cancel(id).await.unwrap());
    };
    timeout(Duration::from_secs(4), work).await.expect("the store is usable at once");
}

async fn listening(store: &EngineStore) -> Box<dyn WakeReceiver> {
    store.listen("channel").await.unwrap()
}

async fn is_quiet(wakes: &mut dyn WakeReceiver) {
    let quiet = wakes.recv_timeout(Duration::from_millis(100)).await.unwrap();
    assert_eq!(quiet, None, "a wake without a commit");
}

/// Nothing of a transaction is seen before its commit, and then all of it, in any store.
async fn a_commit_shows_everything_at_once(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let mut wakes = [listening(&store).await, listening(&other).await];
    let mut tx = store.begin_tx().await.unwrap();
    fill(&mut *tx).await;
    assert_eq!((seen(&store).await, seen(&other).await), (0, 0));
    for wakes in &mut wakes {
        is_quiet(&mut **wakes).await;
    }
    tx.commit().await.unwrap();
    assert_eq!((seen(&store).await, seen(&other).await), (7, 7));
    for wakes in &mut wakes {
        assert!(wakes.recv_timeout(Duration::from_secs(10)).await.unwrap().is_some());
    }
}

/// A rollback drops jobs, events, checkpoints, outbox jobs and notifications together.
async fn a_rollback_leaves_nothing(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let mut wakes = listening(&store).await;
    let mut tx = store.begin_tx().await.unwrap();
    fill(&mut *tx).await;
    tx.rollback().await.unwrap();
    works(&store).await;
    assert_eq!(seen(&store).await, 0);
    is_quiet(&mut *wakes).await;
}

/// Dropping a handle rolls back, and the store is usable at once.
async fn a_drop_rolls_back(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let mut wakes = listening(&store).await;
    for _ in 0..20 {
        let mut tx = store.begin_tx().await.unwrap();
        fill(&mut *tx).await;
        drop(tx);
        works(&store).await;
    }
    drop(store.begin_tx().await.unwrap());
    works(&store).await;
    assert_eq!(seen(&store).await, 0);
    is_quiet(&mut *wakes).await;
}

/// So does a panic that unwinds through it.
async fn a_panic_rolls_back(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let mut wakes = listening(&store).await;
    for _ in 0..5 {
        let inside = store.clone();
        let panics = tokio::spawn(async move {
            let mut tx = inside.begin_tx().await.unwrap();
            fill(&mut *tx).await;
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(panics.await.unwrap_err().is_panic());
        works(&store).await;
    }
    assert_eq!(seen(&store).await, 0);
    is_quiet(&mut *wakes).await;
}

/// A transaction sees its own writes, in order and over what was there.
async fn a_transaction_reads_its_own_writes(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let stream = store.stream("s").await.unwrap();
    let before = [stream.publish(json!(1)).await.unwrap(), stream.publish(json!(2)).await.unwrap()];
    stream.save_offset("c", before[0]).await.unwrap();
    let old = queue.enqueue(json!("old"), Default::default()).await.unwrap();

    let mut tx = store.begin_tx().await.unwrap();
    let opts = EnqueueOpts { priority: 3, ..Default::default() };
    let id = tx.enqueue_tx("q", opts, json!("new")).await.unwrap();
    let job = tx.get_job_tx("q", id).await.unwrap().unwrap();
    assert_eq!((job.id, job.priority, job.state), (id, 3, JobState::Pending));
    assert_eq!(job.payload_as::<String>().unwrap(), "new");
    assert_eq!(tx.get_job_tx("q", old).await.unwrap(), queue.get_job(old).await.unwrap());
    let own = [
        tx.publish_tx("s", json!(3)).await.unwrap(),
        tx.publish_with_key_tx("s", Some("k".into()), json!(4)).await.unwrap(),
    ];
    let all = [before, own].concat();
    let read = tx.read_since_tx("s", 0, 9).await.unwrap();
    assert_eq!(crate::stream::offsets(&read), all);
    assert_eq!((read[3].key.as_deref(), read[2].payload.as_slice()), (Some("k"), b"3".as_slice()));
    let read = tx.read_from_consumer_tx("s", "c", 2).await.unwrap();
    assert_eq!(crate::stream::offsets(&read), all[1..3]);
    tx.save_offset_tx("s", "c", own[0]).await.unwrap();
    tx.save_offset_tx("s", "c", before[1]).await.unwrap();
    assert_eq!(tx.get_offset_tx("s", "c").await.unwrap(), own[0]);
    let read = tx.read_from_consumer_tx("s", "c", 9).await.unwrap();
    assert_eq!(crate::stream::offsets(&read), own[1..]);
    assert_eq!(queue.get_job(id).await.unwrap(), None);
    assert_eq!(stream.get_offset("c").await.unwrap(), before[0]);
    tx.commit().await.unwrap();
    assert_eq!(stream.read_since(0, 9).await.unwrap().len(), 4);
    assert_eq!(stream.get_offset("c").await.unwrap(), own[0]);
}

/// After a rollback the subjects of its reads are gone.
async fn reads_of_a_rolled_back_transaction_leave_no_ghosts(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let mut tx = store.begin_tx().await.unwrap();
    let id = tx.enqueue_tx("q", Default::default(), json!(1)).await.unwrap();
    let offset = tx.publish_tx("s", json!(1)).await.unwrap();
    tx.save_offset_tx("s", "c", offset).await.unwrap();
    assert!(tx.get_job_tx("q", id).await.unwrap().is_some());
    tx.rollback().await.unwrap();
    let mut tx = store.begin_tx().await.unwrap();
    assert_eq!(tx.get_job_tx("q", id).await.unwrap(), None);
    assert!(tx.read_since_tx("s", 0, 9).await.unwrap().is_empty());
    assert_eq!(tx.get_offset_tx("s", "c").await.unwrap(), 0);
}

/// Reads of the store go on while a transaction is open, operators' included.
async fn reads_go_on_while_a_transaction_is_open(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    stream.publish(json!(1)).await.unwrap();
    let mut events = stream.subscribe("c").await.unwrap();
    let mut tx = store.begin_tx().await.unwrap();
    fill(&mut *tx).await;
    let reads = async {
        let queue = store.queue("q", Default::default()).await.unwrap();
        assert_eq!(queue.get_job(1).await.unwrap(), None);
        assert!(!queue.wait_ready(Duration::from_millis(10)).await.unwrap());
        assert_eq!(stream.read_from_consumer("c", 9).await.unwrap().len(), 1);
        assert!(events.recv().await.unwrap().is_ok());
        assert_eq!(events.read_since(0, 9).await.unwrap().len(), 1);
        assert!(store.queues().await.unwrap().is_empty());
        assert_eq!(store.streams().await.unwrap().len(), 1);
        assert!(store.consumers("s").await.unwrap().is_empty());
        assert!(store.locks().await.unwrap().is_empty());
        assert!(store.schedules().await.unwrap().is_empty());
        assert!(store.listen("c").await.unwrap().try_recv().unwrap().is_none());
    };
    timeout(Duration::from_secs(4), reads).await.expect("no read waits for a transaction");
    tx.commit().await.unwrap();
}

/// Transactions that are begun take nothing before their first operation.
async fn begun_transactions_take_nothing(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let work = async {
        let mut first = store.begin_tx().await.unwrap();
        let mut second = store.begin_tx().await.unwrap();
        let third = store.begin_tx().await.unwrap();
        assert!(store.try_lock("l", "o", 60).await.unwrap().is_some());
        second.publish_tx("s", json!(2)).await.unwrap();
        second.commit().await.unwrap();
        first.publish_tx("s", json!(1)).await.unwrap();
        first.commit().await.unwrap();
        third.commit().await.unwrap();
    };
    timeout(Duration::from_secs(4), work).await.expect("nothing waits for an idle transaction");
    let events = store.stream("s").await.unwrap().read_since(0, 9).await.unwrap();
    assert_eq!(events.iter().map(|e| e.payload[0]).collect::<Vec<_>>(), b"21");
}

/// An empty transaction commits and rolls back.
async fn an_empty_transaction_ends(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    store.begin_tx().await.unwrap().commit().await.unwrap();
    store.begin_tx().await.unwrap().rollback().await.unwrap();
    let mut tx = store.begin_tx().await.unwrap();
    assert_eq!(tx.get_job_tx("q", 1).await.unwrap(), None);
    tx.commit().await.unwrap();
    works(&store).await;
}

async fn transact(store: Opened, n: i64) -> Vec<i64> {
    let mut tx = store.begin_tx().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(tx.enqueue_tx("q", Default::default(), json!(n)).await.unwrap());
        tx.publish_tx("s", json!(n)).await.unwrap();
        tokio::task::yield_now().await;
    }
    tx.commit().await.unwrap();
    ids
}

/// Concurrent transactions all commit, whole, with ids of their own.
async fn concurrent_transactions_all_commit(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let tasks = (0..20).map(|n| {
        let store = if n % 2 == 0 { store.clone() } else { other.clone() };
        tokio::spawn(transact(store, n))
    });
    let mut ids = std::collections::BTreeSet::new();
    for task in tasks.collect::<Vec<_>>() {
        ids.extend(task.await.unwrap());
    }
    let jobs = store.jobs("q", None, None, 1_000).await.unwrap();
    assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), Vec::from_iter(ids));
    assert_eq!(jobs.len(), 100);
    assert_eq!(store.stream("s").await.unwrap().read_since(0, 1_000).await.unwrap().len(), 100);
}

/// A transaction may be large.
async fn a_transaction_may_be_large(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let mut tx = store.begin_tx().await.unwrap();
    for n in 0..1_000 {
        tx.enqueue_tx("q", Default::default(), json!(n)).await.unwrap();
        tx.publish_tx(&format!("s{}", n % 50), json!(n)).await.unwrap();
    }
    let read = tx.read_since_tx("s7", 0, 1_000).await.unwrap();
    assert_eq!(read.len(), 20);
    tx.commit().await.unwrap();
    assert_eq!(store.queues().await.unwrap()[0].pending, 1_000);
    assert_eq!(store.streams().await.unwrap().len(), 50);
}

/// A transaction moves between tasks, and others work on after it ends.
async fn a_handle_moves_between_tasks(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let mut tx = store.begin_tx().await.unwrap();
    tx.publish_tx("s", json!(1)).await.unwrap();
    let mut tx = tokio::spawn(async move {
        tx.publish_tx("s", json!(2)).await.unwrap();
        tx
    })
    .await
    .unwrap();
    // A write that has to wait for a single writer goes on after the commit.
    let waiting = store.clone();
    let waiting = tokio::spawn(async move {
        waiting.stream("s").await.unwrap().publish(json!("other")).await.unwrap()
    });
    tx.publish_tx("s", json!(3)).await.unwrap();
    tokio::spawn(async move { tx.commit().await.unwrap() }).await.unwrap();
    waiting.await.unwrap();
    assert_eq!(store.stream("s").await.unwrap().read_since(0, 9).await.unwrap().len(), 4);
}

cases!("tx":
    a_commit_shows_everything_at_once,
    a_rollback_leaves_nothing,
    a_drop_rolls_back,
    a_panic_rolls_back,
    a_transaction_reads_its_own_writes,
    reads_of_a_rolled_back_transaction_leave_no_ghosts,
    reads_go_on_while_a_transaction_is_open,
    begun_transactions_take_nothing,
    an_empty_transaction_ends,
    concurrent_transactions_all_commit,
    a_transaction_may_be_large,
    a_handle_moves_between_tasks,
);
