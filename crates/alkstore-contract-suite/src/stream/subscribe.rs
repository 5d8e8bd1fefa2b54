//! Subscriptions: from the checkpoint through the end and on, without gap or repeat.

use std::sync::Arc;
use std::time::Duration;

use alkstore::{BoxedFuture, EventReceiver, StreamEvent, ext};
use serde_json::json;
use tokio::time::timeout;

use super::{all, offsets, publish};
use crate::harness::cases;
use crate::open::open;
use crate::wait::eventually;
use crate::{EngineStore, StoreFactory};

async fn recv(events: &mut dyn EventReceiver) -> StreamEvent {
    events.recv().await.expect("open").unwrap()
}

/// A subscriber reads from the checkpoint through the end and then what comes, from anywhere.
async fn a_subscriber_follows_from_its_checkpoint(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let stream = store.stream("s").await.unwrap();
    let elsewhere = other.stream("s").await.unwrap();
    let given = publish(&*stream, 5).await;
    stream.save_offset("c", given[1]).await.unwrap();
    let mut events = stream.subscribe("c").await.unwrap();
    for offset in &given[2..] {
        assert_eq!(recv(&mut *events).await.offset, *offset);
        assert_eq!(events.offset(), *offset);
    }
    for handle in [&stream, &elsewhere] {
        let offset = handle.publish(json!("live")).await.unwrap();
        assert_eq!(recv(&mut *events).await.offset, offset);
    }
    let mut tx = other.begin_tx().await.unwrap();
    let first = tx.publish_tx("s", json!(1)).await.unwrap();
    let second = tx.publish_tx("s", json!(2)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!([recv(&mut *events).await.offset, recv(&mut *events).await.offset], [first, second]);
    assert_eq!(stream.get_offset("c").await.unwrap(), given[1]);
}

type Publishing = fn(EngineStore) -> BoxedFuture<'static, i64>;

/// Every way to publish one event.
const PUBLISHINGS: [(&str, Publishing); 5] = [
    ("publish", |store| {
        Box::pin(async move { store.stream("s").await.unwrap().publish(json!(1)).await.unwrap() })
    }),
    ("publish_with_key", |store| {
        Box::pin(async move {
            let stream = store.stream("s").await.unwrap();
            stream.publish_with_key(Some("k".into()), json!(1)).await.unwrap()
        })
    }),
    ("publish_batch", |store| {
        Box::pin(async move {
            let stream = store.stream("s").await.unwrap();
            stream.publish_batch(vec![(None, json!(1))]).await.unwrap()[0]
        })
    }),
    ("publish_tx", |store| {
        Box::pin(async move {
            let mut tx = store.begin_tx().await.unwrap();
            let offset = tx.publish_tx("s", json!(1)).await.unwrap();
            tx.commit().await.unwrap();
            offset
        })
    }),
    ("publish_batch_tx", |store| {
        Box::pin(async move {
            let mut tx = store.begin_tx().await.unwrap();
            let offsets = tx.publish_batch_tx("s", vec![(None, json!(1))]).await.unwrap();
            tx.commit().await.unwrap();
            offsets[0]
        })
    }),
];

/// A receiver that sleeps is woken by every way to publish, from any store.
async fn a_sleeping_receiver_is_woken(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let mut events = store.stream("s").await.unwrap().subscribe("c").await.unwrap();
    for (name, publishing) in PUBLISHINGS {
        for publisher in [&store, &other] {
            let mut receiving = events.recv();
            let asleep = timeout(Duration::from_millis(20), &mut receiving).await;
            assert!(asleep.is_err(), "nothing is there");
            let offset = publishing(EngineStore::clone(publisher)).await;
            let event = timeout(Duration::from_secs(5), receiving).await;
            let event = event.unwrap_or_else(|_| panic!("{name} wakes nobody"));
            assert_eq!(event.unwrap().unwrap().offset, offset);
        }
    }
}

/// Direct reads and subscriptions yield the same events in the same order.
async fn subscribers_and_direct_reads_agree(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    let batch = (0..700).map(|n| ((n % 2 == 0).then(|| format!("k{n}")), json!(n))).collect();
    stream.publish_batch(batch).await.unwrap();
    let expected = all(&*stream).await;
    let mut events = stream.subscribe("c").await.unwrap();
    let mut received = Vec::new();
    for _ in &expected {
        received.push(recv(&mut *events).await);
    }
    assert_eq!(received, expected);
    assert_eq!(stream.read_from_consumer("c", i64::MAX).await.unwrap(), expected);
    assert_eq!(events.try_recv().unwrap(), None);
}

/// `try_recv` yields what is there, and `Ok(None)` when nothing is.
async fn try_recv_tells_idle_from_ready(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    let mut events = stream.subscribe("c").await.unwrap();
    for _ in 0..3 {
        assert_eq!(events.try_recv().unwrap(), None);
    }
    let given = publish(&*stream, 3).await;
    for offset in given {
        let event = eventually(Duration::from_secs(10), async || events.try_recv().unwrap()).await;
        assert_eq!((event.offset, events.offset()), (offset, offset));
    }
    assert_eq!(events.try_recv().unwrap(), None);
    let mut late = stream.subscribe("c").await.unwrap();
    for event in all(&*stream).await {
        let found = eventually(Duration::from_secs(10), async || late.try_recv().unwrap()).await;
        assert_eq!(found, event);
    }
}

/// A receiver's `read_since` moves neither its position nor `offset()`.
async fn a_receivers_read_since_moves_nothing(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    let given = publish(&*stream, 6).await;
    let mut events = stream.subscribe("c").await.unwrap();
    for (n, offset) in given.iter().enumerate() {
        assert_eq!(offsets(&events.read_since(0, 100).await.unwrap()), given);
        assert_eq!(offsets(&events.read_since(given[3], 1).await.unwrap()), given[4..5]);
        assert_eq!(events.offset(), if n == 0 { 0 } else { given[n - 1] });
        assert_eq!(recv(&mut *events).await.offset, *offset);
    }
    events.save_offset().await.unwrap();
    assert_eq!(stream.get_offset("c").await.unwrap(), given[5]);
}

/// All ways to receive share one position: mixed at random they yield each event once, in order.
async fn ways_to_receive_share_one_position(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    let mut events = stream.subscribe("c").await.unwrap();
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut given, mut received) = (Vec::new(), Vec::new());
    for _ in 0..60 {
        let burst = random.usize(0..6);
        given.extend(publish(&*stream, burst).await);
        while received.len() < given.len() && random.u8(..8) > 0 {
            match random.u8(..4) {
                0 => drop(events.read_since(random.i64(..given[0] + 99), 3).await.unwrap()),
                1 => events.save_offset().await.unwrap(),
                2 => received.extend(events.try_recv().unwrap().map(|event| event.offset)),
                _ => received.push(recv(&mut *events).await.offset),
            }
        }
        assert!(given.starts_with(&received), "seed {seed}: {received:?} of {given:?}");
        assert_eq!(events.offset(), received.last().copied().unwrap_or(0), "seed {seed}");
    }
}

/// A save by others does not move a receiver that is attached.
async fn saves_do_not_move_a_receiver(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    let given = publish(&*stream, 4).await;
    let mut events = stream.subscribe("c").await.unwrap();
    assert_eq!(recv(&mut *events).await.offset, given[0]);
    stream.save_offset("c", given[2]).await.unwrap();
    let rest = [recv(&mut *events).await, recv(&mut *events).await, recv(&mut *events).await];
    assert_eq!(offsets(&rest), given[1..]);
}

/// Receivers do not take events from each other, whatever their consumers are called.
async fn every_receiver_gets_every_event(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let mut receivers = Vec::new();
    for (store, consumer) in [(&store, "a"), (&store, "a"), (&store, "b"), (&other, "a")] {
        let stream = store.stream("s").await.unwrap();
        receivers.push(stream.subscribe(consumer).await.unwrap());
    }
    let given = publish(&*store.stream("s").await.unwrap(), 5).await;
    for receiver in &mut receivers {
        for offset in &given {
            assert_eq!(recv(&mut **receiver).await.offset, *offset);
        }
    }
}

/// A consumer that re-attaches time and again gets every event once, in order, while a writer
/// goes on; what it saves is never above what was yielded.
async fn resubscribing_leaves_no_gap_and_no_repeat(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let stream = store.stream("s").await.unwrap();
    let backlog = (0..1_500).map(|n| (None, json!(n))).collect();
    stream.publish_batch(backlog).await.unwrap();
    let writer = tokio::spawn(async move {
        let stream = other.stream("s").await.unwrap();
        for n in 1_500..1_700 {
            stream.publish(json!(n)).await.unwrap();
        }
    });
    let mut next = 0;
    for attachment in 0..20 {
        let mut events = stream.subscribe("c").await.unwrap();
        for n in 0..85 {
            let event = recv(&mut *events).await;
            assert_eq!(event.payload_as::<i64>().unwrap(), next, "attachment {attachment}");
            next += 1;
            if n % 17 == 16 {
                events.save_offset().await.unwrap();
                assert_eq!(stream.get_offset("c").await.unwrap(), event.offset);
            }
        }
    }
    assert_eq!(next, 1_700);
    writer.await.unwrap();
    assert!(stream.read_from_consumer("c", 9).await.unwrap().is_empty());
}

/// An event that is published while somebody subscribes arrives without a second one.
async fn subscribing_races_with_publishing(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    for round in 0..150 {
        let name = format!("s{round}");
        let stream = store.stream(&name).await.unwrap();
        let publisher = if round % 2 == 0 { store.clone() } else { other.clone() };
        let publishing = tokio::spawn(async move {
            for _ in 0..round % 7 {
                tokio::task::yield_now().await;
            }
            publisher.stream(&name).await.unwrap().publish(json!(round)).await.unwrap()
        });
        let mut events = stream.subscribe("c").await.unwrap();
        let event = timeout(Duration::from_secs(5), events.recv()).await;
        let event = event.unwrap_or_else(|_| panic!("nothing arrived in round {round}"));
        assert_eq!(event.unwrap().unwrap().offset, publishing.await.unwrap());
    }
}

/// A consumer that reads nothing holds up nobody, and then gets all in order.
async fn a_slow_consumer_loses_nothing(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    let mut slow = stream.subscribe("slow").await.unwrap();
    let mut quick = stream.subscribe("quick").await.unwrap();
    for start in (0..10_000).step_by(500) {
        let batch = (start..start + 500).map(|n| (None, json!(n))).collect();
        let given = stream.publish_batch(batch).await.unwrap();
        for offset in given {
            assert_eq!(recv(&mut *quick).await.offset, offset);
        }
    }
    for n in 0..10_000 {
        assert_eq!(recv(&mut *slow).await.payload_as::<i64>().unwrap(), n);
    }
    assert_eq!(slow.try_recv().unwrap(), None);
}

/// A subscriber whose events are trimmed away goes on at what is left, in its place.
async fn a_trim_leaves_subscribers_in_their_place(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    let given = publish(&*stream, 40).await;
    let mut events = stream.subscribe("c").await.unwrap();
    for offset in &given[..10] {
        assert_eq!(recv(&mut *events).await.offset, *offset);
    }
    stream.trim_to(given[4]).await.unwrap();
    assert_eq!(recv(&mut *events).await.offset, given[10], "a trim behind it changes nothing");
    stream.trim_to(given[29]).await.unwrap();
    let mut last = given[10];
    while last < given[39] {
        let event = recv(&mut *events).await;
        assert!(event.offset > last, "{} after {last}", event.offset);
        // What was read ahead may still come; what was kept must.
        let left = given.iter().filter(|o| **o > given[29] && **o > last).min();
        assert!(event.offset <= *left.unwrap(), "{} skipped {left:?}", event.offset);
        last = event.offset;
    }
    let offset = stream.publish(json!(1)).await.unwrap();
    assert_eq!(recv(&mut *events).await.offset, offset);
}

/// A dropped `recv` loses no event.
async fn recv_is_cancel_safe(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let stream = store.stream("s").await.unwrap();
    let mut events = stream.subscribe("c").await.unwrap();
    let writer = tokio::spawn(async move {
        let stream = other.stream("s").await.unwrap();
        for n in 0..300 {
            stream.publish(json!(n)).await.unwrap();
        }
    });
    let (mut next, mut given_up) = (0, 0);
    while next < 300 {
        let yields = given_up % 5;
        tokio::select! {
            biased;
            () = async { for _ in 0..yields { tokio::task::yield_now().await } } => given_up += 1,
            event = events.recv() => {
                assert_eq!(event.unwrap().unwrap().payload_as::<i64>().unwrap(), next);
                next += 1;
                given_up += 1;
            }
        }
    }
    writer.await.unwrap();
    assert_eq!(events.try_recv().unwrap(), None);
}

/// A transaction's events come at its commit, in order and all of them.
async fn events_come_at_the_commit(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let stream = store.stream("s").await.unwrap();
    let mut events = stream.subscribe("c").await.unwrap();
    for _ in 0..10 {
        let mut tx = other.begin_tx().await.unwrap();
        let mut given = vec![tx.publish_tx("s", json!(1)).await.unwrap()];
        assert_eq!(events.try_recv().unwrap(), None);
        given.extend(tx.publish_batch_tx("s", vec![(None, json!(2))]).await.unwrap());
        let wait = Duration::from_millis(20);
        assert!(timeout(wait, events.recv()).await.is_err(), "nothing is committed");
        tx.commit().await.unwrap();
        for offset in given {
            assert_eq!(recv(&mut *events).await.offset, offset);
        }
    }
}

/// The adaptor to `futures::Stream` yields the same events.
async fn the_stream_adaptor_yields_the_events(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    let given = publish(&*stream, 4).await;
    let mut events = std::pin::pin!(ext::events(stream.subscribe("c").await.unwrap()));
    for offset in given {
        let next = std::future::poll_fn(|cx| futures_core::Stream::poll_next(events.as_mut(), cx));
        assert_eq!(next.await.unwrap().unwrap().offset, offset);
    }
}

cases!("stream":
    a_subscriber_follows_from_its_checkpoint,
    a_sleeping_receiver_is_woken,
    subscribers_and_direct_reads_agree,
    try_recv_tells_idle_from_ready,
    a_receivers_read_since_moves_nothing,
    ways_to_receive_share_one_position,
    saves_do_not_move_a_receiver,
    every_receiver_gets_every_event,
    resubscribing_leaves_no_gap_and_no_repeat,
    subscribing_races_with_publishing,
    a_slow_consumer_loses_nothing,
    a_trim_leaves_subscribers_in_their_place,
    recv_is_cancel_safe,
    events_come_at_the_commit,
    the_stream_adaptor_yields_the_events,
);
