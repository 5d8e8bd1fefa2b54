//! Transactions of this engine hold no lock between calls: any number are open on one thread.

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use alkstore::{Error, EventReceiver, QueueOpts, Store, StreamEvent, TxHandle};
use alkstore_mem::MemStore;
use serde_json::json;

fn offsets(events: &[StreamEvent]) -> Vec<i64> {
    events.iter().map(|event| event.offset).collect()
}

async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx))).await
}

async fn next(receiver: &mut dyn EventReceiver) -> i64 {
    let event = tokio::time::timeout(Duration::from_secs(10), receiver.recv()).await;
    event.expect("in time").expect("open").expect("readable").offset
}

#[tokio::test(flavor = "current_thread")]
async fn open_transactions_block_neither_each_other_nor_plain_calls() {
    let store = MemStore::new();
    let queue = store.queue("q", QueueOpts::default()).await.unwrap();
    let mut open: Vec<Box<dyn TxHandle>> = Vec::new();
    for i in 0..100 {
        let mut tx = store.begin_tx().await.unwrap();
        tx.enqueue_tx("q", Default::default(), json!(i)).await.unwrap();
        tx.publish_tx("a", json!(i)).await.unwrap();
        open.push(tx);
    }
    let plain = queue.enqueue(json!("plain"), Default::default()).await.unwrap();
    for (i, mut tx) in open.into_iter().rev().enumerate() {
        tx.publish_tx("b", json!(i)).await.unwrap();
        if i % 2 == 0 { tx.commit().await.unwrap() } else { drop(tx) }
    }
    let claimed = queue.claim_batch("w", 1_000).await.unwrap();
    assert_eq!(claimed.len(), 51);
    assert_eq!(claimed.last().map(|job| job.job().id), Some(plain), "enqueue order is id order");
    for stream in ["a", "b"] {
        let events = store.stream(stream).await.unwrap().read_since(0, 1_000).await.unwrap();
        assert_eq!(events.len(), 50);
        assert!(events.is_sorted_by(|a, b| a.offset < b.offset));
    }
}

#[tokio::test(flavor = "current_thread")]
async fn events_beyond_an_open_transactions_offset_wait_for_its_end() {
    let store = MemStore::new();
    let stream = store.stream("s").await.unwrap();
    let mut receiver = stream.subscribe("c").await.unwrap();
    for commits in [true, false] {
        let start = receiver.offset();
        let before = stream.publish(json!("before")).await.unwrap();
        let mut tx = store.begin_tx().await.unwrap();
        let own = tx.publish_tx("s", json!("own")).await.unwrap();
        let after = stream.publish(json!("after")).await.unwrap();
        assert!(before < own && own < after);

        assert_eq!(offsets(&stream.read_since(start, 10).await.unwrap()), [before]);
        assert_eq!(next(&mut *receiver).await, before);
        assert_eq!(receiver.try_recv().unwrap(), None);
        let mut waiting = Box::pin(receiver.recv());
        assert!(poll_once(&mut waiting).await.is_pending());

        let expected = if commits { vec![before, own, after] } else { vec![before, after] };
        if commits {
            tx.commit().await.unwrap()
        } else {
            drop(tx)
        }
        let event = tokio::time::timeout(Duration::from_secs(10), waiting).await;
        assert_eq!(event.expect("woken").unwrap().unwrap().offset, expected[1]);
        assert_eq!(offsets(&stream.read_since(start, 10).await.unwrap()), expected);
        if commits {
            assert_eq!(next(&mut *receiver).await, after);
        }
        assert_eq!(receiver.try_recv().unwrap(), None);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn other_streams_do_not_wait() {
    let store = MemStore::new();
    let mut tx = store.begin_tx().await.unwrap();
    tx.publish_tx("a", json!(1)).await.unwrap();
    let stream = store.stream("b").await.unwrap();
    let offset = stream.publish(json!(2)).await.unwrap();
    assert_eq!(offsets(&stream.read_since(0, 10).await.unwrap()), [offset]);
}

/// A checkpoint that is saved with what a transaction has read never passes a foreign event.
#[tokio::test(flavor = "current_thread")]
async fn reads_in_a_transaction_stop_below_others_open_offsets() {
    let store = MemStore::new();
    let (mut a, mut b) = (store.begin_tx().await.unwrap(), store.begin_tx().await.unwrap());
    let a1 = a.publish_tx("s", json!(1)).await.unwrap();
    let b1 = b.publish_tx("s", json!(2)).await.unwrap();
    let a2 = a.publish_tx("s", json!(3)).await.unwrap();
    assert_eq!(offsets(&a.read_since_tx("s", 0, 10).await.unwrap()), [a1]);
    assert!(b.read_since_tx("s", 0, 10).await.unwrap().is_empty());

    a.commit().await.unwrap();
    assert_eq!(offsets(&b.read_from_consumer_tx("s", "c", 10).await.unwrap()), [a1, b1, a2]);
    assert_eq!(offsets(&b.read_since_tx("s", a1, 1).await.unwrap()), [b1]);
    b.save_offset_tx("s", "c", b1).await.unwrap();
    assert_eq!(offsets(&b.read_from_consumer_tx("s", "c", 10).await.unwrap()), [a2]);
    b.commit().await.unwrap();
    let stream = store.stream("s").await.unwrap();
    assert_eq!(offsets(&stream.read_from_consumer("c", 10).await.unwrap()), [a2]);
}

#[tokio::test(flavor = "current_thread")]
async fn closing_ends_open_transactions_and_what_they_held_back_can_be_drained() {
    let store = MemStore::new();
    let stream = store.stream("s").await.unwrap();
    let mut receiver = stream.subscribe("c").await.unwrap();
    let mut tx = store.begin_tx().await.unwrap();
    tx.publish_tx("s", json!("gone")).await.unwrap();
    let kept = stream.publish(json!("kept")).await.unwrap();
    store.close().await;

    let refused = tx.publish_tx("s", json!("late")).await.unwrap_err();
    assert!(matches!(refused, Error::Database(_)));
    assert!(matches!(tx.commit().await.unwrap_err(), Error::Database(_)));
    assert_eq!(next(&mut *receiver).await, kept);
    assert!(receiver.recv().await.is_none());
    assert!(matches!(receiver.try_recv(), Err(Error::Closed)));
}

/// Calls never wait here, so they yield now and then for the sake of other tasks.
#[tokio::test(flavor = "current_thread")]
async fn a_loop_of_calls_lets_other_tasks_go_on() {
    let store = MemStore::new();
    let queue = store.queue("q", QueueOpts::default()).await.unwrap();
    let stream = store.stream("s").await.unwrap();
    stream.publish_batch(vec![(None, json!(1)); 1_000]).await.unwrap();
    let mut events = stream.subscribe("c").await.unwrap();
    let busy =
        tokio::spawn(
            async move { while events.recv().await.is_some_and(|event| event.is_ok()) {} },
        );
    tokio::task::yield_now().await;
    assert!(!busy.is_finished());
    let calls = async { while queue.claim_one("w").await.is_ok() {} };
    assert!(tokio::time::timeout(Duration::from_millis(1), calls).await.is_err());
    busy.abort();
    assert!(busy.await.unwrap_err().is_cancelled());
}

#[tokio::test(flavor = "current_thread")]
async fn a_commit_that_is_given_up_is_a_rollback() {
    let store = MemStore::new();
    let stream = store.stream("s").await.unwrap();
    let (mut committed, mut given_up) = (Vec::new(), 0);
    for i in 0..1_000 {
        let mut tx = store.begin_tx().await.unwrap();
        let offset = tx.publish_tx("s", json!(i)).await.unwrap();
        // It is pending when it was its turn to yield.
        match poll_once(&mut tx.commit()).await {
            Poll::Ready(outcome) => {
                outcome.unwrap();
                committed.push(offset);
            }
            Poll::Pending => given_up += 1,
        }
    }
    assert!(given_up > 0);
    assert_eq!(offsets(&stream.read_since(0, 2_000).await.unwrap()), committed);
}
