//! Streams: the log, its order, its keys and its trimming.

pub(crate) mod checkpoint;
pub(crate) mod concurrent;
pub(crate) mod subscribe;

use std::sync::Arc;
use std::time::Duration;

use alkstore::{Error, Result, StreamEvent, StreamHandle};
use serde_json::{Value, json};

use crate::harness::cases;
use crate::open::open;
use crate::queue::now_s;
use crate::{EngineStore, StoreFactory};

/// Publishes `n` events and returns their offsets.
pub(crate) async fn publish(stream: &dyn StreamHandle, n: usize) -> Vec<i64> {
    let mut offsets = Vec::new();
    for n in 0..n {
        offsets.push(stream.publish(json!(n)).await.unwrap());
    }
    offsets
}

/// The whole stream.
pub(crate) async fn all(stream: &dyn StreamHandle) -> Vec<StreamEvent> {
    stream.read_since(0, i64::MAX).await.unwrap()
}

/// Their offsets.
pub(crate) fn offsets(events: &[StreamEvent]) -> Vec<i64> {
    events.iter().map(|event| event.offset).collect()
}

/// A payload that is refused.
pub(crate) fn too_deep() -> Value {
    (0..200).fold(json!(1), |inner, _| json!([inner]))
}

async fn stream(store: &EngineStore) -> Box<dyn StreamHandle> {
    store.stream("s").await.unwrap()
}

/// Offsets are positive and grow in the order of the publishes, which is the order of the reads.
async fn reads_follow_the_order_of_publishes(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let handles = [stream(&store).await, stream(&other).await];
    let mut given = Vec::new();
    for n in 0..30 {
        given.push(handles[n % 2].publish(json!(n)).await.unwrap());
    }
    assert!(given[0] > 0 && given.is_sorted_by(|a, b| a < b), "{given:?}");
    for handle in &handles {
        let events = all(&**handle).await;
        assert_eq!(offsets(&events), given);
        for (n, event) in events.iter().enumerate() {
            assert_eq!(event.payload_as::<usize>().unwrap(), n);
        }
    }
}

/// An event carries its stream, key and publish time.
async fn events_carry_what_was_published(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = stream(&store).await;
    assert_eq!(stream.name(), "s");
    let before = now_s();
    let offset = stream.publish_with_key(Some("k".into()), json!([1])).await.unwrap();
    let event = all(&*stream).await.remove(0);
    assert!((before..=now_s()).contains(&event.created_at), "{event:?}");
    assert_eq!((event.offset, &*event.stream), (offset, "s"));
    assert_eq!((event.key.as_deref(), &*event.payload), (Some("k"), b"[1]".as_slice()));
}

/// Keys come back exactly, absent ones too, and have no effect on order.
async fn keys_are_metadata(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = stream(&store).await;
    let long = "k".repeat(1024);
    let keys =
        [None, Some("b"), Some("a"), None, Some("b"), Some(" x "), Some("é'\"🦀"), Some(&long)];
    let mut given = Vec::new();
    for (n, key) in keys.iter().enumerate() {
        given.push(match key {
            None if n == 0 => stream.publish(json!(n)).await.unwrap(),
            key => stream.publish_with_key(key.map(Into::into), json!(n)).await.unwrap(),
        });
    }
    let events = all(&*stream).await;
    assert_eq!(offsets(&events), given);
    assert_eq!(events.iter().map(|event| event.key.as_deref()).collect::<Vec<_>>(), keys);
    let mut received = Vec::new();
    let mut events = stream.subscribe("c").await.unwrap();
    for _ in keys {
        received.push(events.recv().await.unwrap().unwrap().key);
    }
    assert_eq!(received, keys.map(|key| key.map(str::to_owned)));
}

fn assert_refused<T: std::fmt::Debug>(outcome: &Result<T>) {
    assert!(matches!(outcome, Err(Error::InvalidName { .. })), "{outcome:?}");
}

/// A key that is present and blank is refused on every path; a transaction stays usable.
async fn blank_keys_are_refused(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = stream(&store).await;
    let mut tx = store.begin_tx().await.unwrap();
    for key in ["", " ", "\t\n"] {
        let key = || Some(key.to_owned());
        assert_refused(&stream.publish_with_key(key(), json!(1)).await);
        assert_refused(&stream.publish_batch(vec![(None, json!(1)), (key(), json!(1))]).await);
        assert_refused(&tx.publish_with_key_tx("s", key(), json!(1)).await);
        let batch = vec![(None, json!(1)), (key(), json!(1))];
        assert_refused(&tx.publish_batch_tx("s", batch).await);
    }
    tx.publish_with_key_tx("s", Some("good".into()), json!(1)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(all(&*stream).await.len(), 1);
}

/// A cursor read returns the events beyond the cursor, ascending, up to the limit.
async fn cursor_reads_start_beyond_the_cursor(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = stream(&store).await;
    assert!(stream.read_since(0, 9).await.unwrap().is_empty());
    let given = publish(&*stream, 10).await;
    for (n, offset) in given.iter().enumerate() {
        let events = stream.read_since(*offset, 3).await.unwrap();
        let end = (n + 4).min(10);
        assert_eq!(offsets(&events), given[n + 1..end]);
    }
    assert_eq!(offsets(&stream.read_since(given[0] - 1, 2).await.unwrap()), given[..2]);
    assert!(stream.read_since(given[9] + 1_000, 9).await.unwrap().is_empty());
}

/// Streams are independent of each other.
async fn streams_are_independent(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = stream(&store).await;
    let other = store.stream("t").await.unwrap();
    let mut given = [Vec::new(), Vec::new()];
    for n in 0..10 {
        given[0].push(stream.publish(json!(n)).await.unwrap());
        given[1].push(other.publish(json!(n)).await.unwrap());
    }
    assert_eq!(offsets(&all(&*stream).await), given[0]);
    assert_eq!(offsets(&all(&*other).await), given[1]);
    stream.save_offset("c", given[0][4]).await.unwrap();
    assert_eq!(other.get_offset("c").await.unwrap(), 0);
    assert_eq!(stream.trim_to(i64::MAX).await.unwrap(), 10);
    assert_eq!(offsets(&all(&*other).await), given[1]);
}

/// Rolled-back publishes leave holes at most, and readers pass them.
async fn rolled_back_publishes_leave_nothing(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = stream(&store).await;
    let mut given = publish(&*stream, 1).await;
    let mut events = stream.subscribe("c").await.unwrap();
    for _ in 0..100 {
        let mut tx = store.begin_tx().await.unwrap();
        tx.publish_tx("s", json!("ghost")).await.unwrap();
        tx.rollback().await.unwrap();
    }
    given.extend(publish(&*stream, 1).await);
    assert_eq!(offsets(&all(&*stream).await), given);
    for offset in given {
        assert_eq!(events.recv().await.unwrap().unwrap().offset, offset);
        events.save_offset().await.unwrap();
        assert_eq!(stream.get_offset("c").await.unwrap(), offset);
    }
}

/// A trim deletes exactly what is at or below the horizon, and counts it.
async fn trim_deletes_up_to_the_horizon(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = stream(&store).await;
    let given = publish(&*stream, 10).await;
    assert_eq!(stream.trim_to(given[0] - 1).await.unwrap(), 0);
    assert_eq!(stream.trim_to(given[3]).await.unwrap(), 4);
    assert_eq!(stream.trim_to(given[3]).await.unwrap(), 0);
    assert_eq!(stream.trim_to(given[1]).await.unwrap(), 0);
    assert_eq!(offsets(&all(&*stream).await), given[4..], "survivors keep their offsets");
    for from in [i64::MIN, 0, given[0], given[3]] {
        let first = stream.read_since(from, 1).await.unwrap();
        assert_eq!(offsets(&first), given[4..5], "reads resume at the first that is left");
    }
}

/// A checkpoint below the horizon stays as it is, and its reader goes on at what is left.
async fn trim_keeps_checkpoints(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = stream(&store).await;
    let given = publish(&*stream, 100).await;
    stream.save_offset("c", given[9]).await.unwrap();
    assert_eq!(stream.trim_to(given[49]).await.unwrap(), 50);
    assert_eq!(stream.get_offset("c").await.unwrap(), given[9]);
    let events = stream.read_from_consumer("c", 1_000).await.unwrap();
    assert_eq!(offsets(&events), given[50..]);
    let mut events = stream.subscribe("c").await.unwrap();
    assert_eq!(events.recv().await.unwrap().unwrap().offset, given[50]);
    stream.save_offset("c", given[9]).await.unwrap();
    stream.save_offset("d", given[5]).await.unwrap();
    assert_eq!(stream.get_offset("d").await.unwrap(), given[5], "below the horizon is a place too");
}

/// Offsets are not used again after everything was trimmed.
async fn offsets_are_never_used_again(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = stream(&store).await;
    let mut last = 0;
    for _ in 0..3 {
        for offset in publish(&*stream, 3).await {
            assert!(offset > last, "{offset} after {last}");
            last = offset;
        }
        let mut tx = store.begin_tx().await.unwrap();
        let ghost = tx.publish_tx("s", json!(1)).await.unwrap();
        assert!(ghost > last, "{ghost} after {last}");
        tx.rollback().await.unwrap();
        assert_eq!(stream.trim_to(i64::MAX).await.unwrap(), 3);
    }
}

/// A trim wakes nobody.
async fn trim_wakes_nobody(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = stream(&store).await;
    publish(&*stream, 3).await;
    let mut wakes = store.listen("s").await.unwrap();
    let mut events = stream.subscribe("c").await.unwrap();
    for _ in 0..3 {
        events.recv().await.unwrap().unwrap();
    }
    assert_eq!(stream.trim_to(i64::MAX).await.unwrap(), 3);
    assert_eq!(wakes.recv_timeout(Duration::from_millis(100)).await.unwrap(), None);
    assert_eq!(events.try_recv().unwrap(), None);
}

/// A batch keeps its order, and its events stand in one line with the others.
async fn publish_batch_keeps_the_order(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = stream(&store).await;
    let mut given = publish(&*stream, 1).await;
    let batch = (0..500).map(|n| ((n % 3 == 0).then(|| format!("k{n}")), json!(n))).collect();
    given.extend(stream.publish_batch(batch).await.unwrap());
    assert!(stream.publish_batch(vec![]).await.unwrap().is_empty());
    given.extend(publish(&*stream, 1).await);
    assert!(given.is_sorted_by(|a, b| a < b), "{given:?}");
    let events = all(&*stream).await;
    assert_eq!(offsets(&events), given);
    for (n, event) in events[1..501].iter().enumerate() {
        assert_eq!(event.payload_as::<usize>().unwrap(), n);
        assert_eq!(event.key, (n % 3 == 0).then(|| format!("k{n}")));
    }
}

/// One bad event refuses the whole batch, on both paths.
async fn publish_batch_is_all_or_nothing(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = stream(&store).await;
    let good = || (None, json!(1));
    let mut tx = store.begin_tx().await.unwrap();
    for bad in
        [(None, too_deep()), (Some("a\0".into()), json!(1)), (Some("k".repeat(1025)), json!(1))]
    {
        let batch = || vec![good(), bad.clone(), good()];
        assert!(stream.publish_batch(batch()).await.is_err());
        assert!(tx.publish_batch_tx("s", batch()).await.is_err());
    }
    let given = tx.publish_batch_tx("s", vec![good(), good()]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(offsets(&all(&*stream).await), given);
}

/// Keyed publishes in a transaction come with its commit and go with its rollback.
async fn publish_with_key_tx_commits_atomically(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = stream(&store).await;
    let mut events = stream.subscribe("c").await.unwrap();
    for commits in [false, true] {
        let mut tx = store.begin_tx().await.unwrap();
        let key = Some("k".to_owned());
        let offset = tx.publish_with_key_tx("s", key.clone(), json!(commits)).await.unwrap();
        assert!(all(&*stream).await.is_empty());
        assert_eq!(events.try_recv().unwrap(), None);
        if commits {
            tx.commit().await.unwrap();
            let event = events.recv().await.unwrap().unwrap();
            assert_eq!((event.offset, &event.key), (offset, &key));
            assert_eq!(all(&*stream).await, [event]);
        } else {
            tx.rollback().await.unwrap();
        }
    }
}

cases!("stream":
    reads_follow_the_order_of_publishes,
    events_carry_what_was_published,
    keys_are_metadata,
    blank_keys_are_refused,
    cursor_reads_start_beyond_the_cursor,
    streams_are_independent,
    rolled_back_publishes_leave_nothing,
    trim_deletes_up_to_the_horizon,
    trim_keeps_checkpoints,
    offsets_are_never_used_again,
    trim_wakes_nobody,
    publish_batch_keeps_the_order,
    publish_batch_is_all_or_nothing,
    publish_with_key_tx_commits_atomically,
);
