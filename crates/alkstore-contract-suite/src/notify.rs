//! Notify and listen: hints that follow the commit, exact by channel, bounded, never waited for.

use std::sync::Arc;
use std::time::Duration;

use alkstore::{Wake, WakeReceiver, ext};
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::StoreFactory;
use crate::harness::cases;
use crate::open::open;
use crate::wait::eventually;

/// Long enough for a wake that should not come.
const QUIET: Duration = Duration::from_millis(100);

async fn woken(wakes: &mut dyn WakeReceiver, channel: &str) {
    let wake = wakes.recv_timeout(Duration::from_secs(10)).await.unwrap();
    assert_eq!(wake.expect("a wake").channel, channel);
}

async fn quiet(wakes: &mut dyn WakeReceiver) {
    assert_eq!(wakes.recv_timeout(QUIET).await.unwrap(), None);
}

/// Takes all wakes until none has come for a while.
async fn drained(wakes: &mut dyn WakeReceiver) -> usize {
    let mut count = 0;
    while wakes.recv_timeout(QUIET).await.unwrap().is_some() {
        count += 1;
    }
    count
}

/// A notification wakes every listener of its channel, with the channel's name, in any store.
async fn a_notification_wakes_every_listener(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    for notifier in [&store, &other] {
        let mut listeners = Vec::new();
        for listener in [&store, &store, &other] {
            listeners.push(listener.listen("c").await.unwrap());
        }
        notifier.notify("c", json!({ "ignored": true })).await.unwrap();
        for wakes in &mut listeners {
            woken(&mut **wakes, "c").await;
        }
    }
}

/// A listener that sleeps is woken by a notification and by a commit, from any store.
async fn a_sleeping_listener_is_woken(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let mut wakes = store.listen("c").await.unwrap();
    for notifier in [&store, &other] {
        for transactional in [false, true] {
            let mut receiving = wakes.recv();
            let asleep = timeout(Duration::from_millis(20), &mut receiving).await;
            assert!(asleep.is_err(), "nothing is there");
            if transactional {
                let mut tx = notifier.begin_tx().await.unwrap();
                tx.notify_tx("c", json!(1)).await.unwrap();
                tx.commit().await.unwrap();
            } else {
                notifier.notify("c", json!(1)).await.unwrap();
            }
            let wake = timeout(Duration::from_secs(5), receiving).await;
            assert_eq!(wake.expect("it is woken").unwrap().channel, "c");
            assert!(drained(&mut *wakes).await < 2);
        }
    }
}

/// The three forms of receiving: what is there, `None` for idle, and a timeout that is kept.
async fn wake_receivers_tell_idle_from_woken(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let mut wakes = store.listen("c").await.unwrap();
    assert_eq!(wakes.try_recv().unwrap(), None);
    let start = Instant::now();
    let wait = Duration::from_millis(200);
    assert_eq!(wakes.recv_timeout(wait).await.unwrap(), None);
    assert!(start.elapsed() >= wait && start.elapsed() < Duration::from_secs(5));
    assert_eq!(wakes.try_recv().unwrap(), None, "idle is not closed");

    store.notify("c", json!(1)).await.unwrap();
    let wake: Wake = eventually(Duration::from_secs(10), async || wakes.try_recv().unwrap()).await;
    assert_eq!(wake.channel, "c");
    store.notify("c", json!(1)).await.unwrap();
    assert_eq!(wakes.recv().await.unwrap().channel, "c");
    store.notify("c", json!(1)).await.unwrap();
    woken(&mut *wakes, "c").await;
}

/// A listener hears nothing of what committed before it listened, in whichever store.
async fn a_listener_starts_from_now(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    for _ in 0..10 {
        for notifier in [&store, &other] {
            let mut earlier = other.listen("c").await.unwrap();
            notifier.notify("c", json!(1)).await.unwrap();
            let mut later = other.listen("c").await.unwrap();
            let mut latest = store.listen("c").await.unwrap();
            woken(&mut *earlier, "c").await;
            let wait = Duration::from_millis(10);
            assert_eq!(later.recv_timeout(wait).await.unwrap(), None);
            assert_eq!(latest.recv_timeout(wait).await.unwrap(), None);
        }
    }
}

/// It hears what commits after that, even if the call was made before.
async fn a_listener_hears_commits_of_earlier_calls(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    for listener in [&store, &other] {
        let mut tx = store.begin_tx().await.unwrap();
        tx.notify_tx("c", json!(1)).await.unwrap();
        let mut wakes = listener.listen("c").await.unwrap();
        tx.commit().await.unwrap();
        woken(&mut *wakes, "c").await;
    }
}

/// No wake without a notification on that very channel: no other channel, queue, stream, lock,
/// schedule or outbox of the name counts.
async fn listen_is_exact(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let mut wakes = store.listen("c").await.unwrap();
    for name in ["c2", "C", "c ", "cc"] {
        other.notify(name, json!("c")).await.unwrap();
    }
    let queue = other.queue("c", Default::default()).await.unwrap();
    queue.enqueue(json!(1), Default::default()).await.unwrap();
    queue.claim_one("c").await.unwrap().unwrap().retry(None, Some(0)).await.unwrap();
    let stream = other.stream("c").await.unwrap();
    stream.publish_with_key(Some("c".into()), json!(1)).await.unwrap();
    stream.save_offset("c", 1).await.unwrap();
    other.outbox("c").await.unwrap().enqueue(json!(1), Default::default()).await.unwrap();
    let lock = other.try_lock("c", "c", 60).await.unwrap().unwrap();
    assert!(lock.release().await.unwrap());
    other.schedule("c", "@every 1h", "c", json!(1), Default::default()).await.unwrap();
    assert!(other.unschedule("c").await.unwrap());
    quiet(&mut *wakes).await;
    other.notify("c", json!(1)).await.unwrap();
    woken(&mut *wakes, "c").await;
}

/// A notification in a transaction wakes at its commit and not before.
async fn a_wake_follows_the_commit(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    for notifier in [&store, &other] {
        let mut wakes = store.listen("c").await.unwrap();
        let mut tx = notifier.begin_tx().await.unwrap();
        tx.notify_tx("c", json!(1)).await.unwrap();
        quiet(&mut *wakes).await;
        tx.commit().await.unwrap();
        woken(&mut *wakes, "c").await;
    }
}

/// A transaction that does not commit wakes nobody.
async fn a_rollback_wakes_nobody(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let mut here = store.listen("c").await.unwrap();
    let mut there = other.listen("c").await.unwrap();
    for explicit in [true, false] {
        let mut tx = store.begin_tx().await.unwrap();
        tx.notify_tx("c", json!(1)).await.unwrap();
        tx.enqueue_tx("c", Default::default(), json!(1)).await.unwrap();
        if explicit {
            tx.rollback().await.unwrap();
        } else {
            drop(tx);
        }
    }
    // Whatever else commits carries no wake of theirs along.
    store.notify("d", json!(1)).await.unwrap();
    quiet(&mut *here).await;
    quiet(&mut *there).await;
}

/// When a wake is received, what committed with it can be read.
async fn a_woken_reader_finds_the_commit(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let mut wakes = store.listen("c").await.unwrap();
    let writer = tokio::spawn(async move {
        for n in 1..=80 {
            let mut tx = other.begin_tx().await.unwrap();
            tx.publish_tx("s", json!(n)).await.unwrap();
            tx.notify_tx("c", json!(n)).await.unwrap();
            tx.commit().await.unwrap();
        }
    });
    let stream = store.stream("s").await.unwrap();
    let mut read = 0;
    while read < 80 {
        woken(&mut *wakes, "c").await;
        read = stream.read_since(0, 100).await.unwrap().len();
        assert!(read > 0, "a wake came before its commit");
    }
    writer.await.unwrap();
}

/// Equal notifications of one commit wake at least once and at most as often.
async fn equal_notifications_wake_at_least_once(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let mut here = store.listen("c").await.unwrap();
    let mut there = other.listen("c").await.unwrap();
    let mut tx = store.begin_tx().await.unwrap();
    for _ in 0..1_000 {
        tx.notify_tx("c", json!("same")).await.unwrap();
    }
    tx.commit().await.unwrap();
    for wakes in [&mut here, &mut there] {
        woken(&mut **wakes, "c").await;
        assert!(drained(&mut **wakes).await < 1_000);
    }
}

/// A listener that never reads delays nobody, and still finds a wake.
async fn a_slow_listener_delays_nobody(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let mut slow = store.listen("c").await.unwrap();
    let mut quick = store.listen("c").await.unwrap();
    for _ in 0..10 {
        let mut tx = store.begin_tx().await.unwrap();
        for n in 0..500 {
            tx.notify_tx("c", json!(n)).await.unwrap();
        }
        tx.commit().await.unwrap();
        woken(&mut *quick, "c").await;
    }
    woken(&mut *slow, "c").await;
    assert!(drained(&mut *slow).await < 5_000);
    assert_eq!(slow.try_recv().unwrap(), None);
    store.notify("c", json!(1)).await.unwrap();
    woken(&mut *slow, "c").await;
}

/// A dropped receive loses no wake.
async fn receiving_is_cancel_safe(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let mut wakes = store.listen("c").await.unwrap();
    for round in 0..100 {
        let notifier = if round % 2 == 0 { store.clone() } else { other.clone() };
        let notifying = tokio::spawn(async move { notifier.notify("c", json!(round)).await });
        let mut received = false;
        for _ in 0..round % 9 {
            tokio::select! {
                biased;
                () = tokio::task::yield_now() => {}
                wake = wakes.recv() => received |= wake.is_some(),
            }
            tokio::select! {
                biased;
                () = tokio::task::yield_now() => {}
                wake = wakes.recv_timeout(QUIET) => received |= wake.unwrap().is_some(),
            }
        }
        notifying.await.unwrap().unwrap();
        if !received {
            woken(&mut *wakes, "c").await;
        }
        // One more may have come late in a round that had one.
        while wakes.recv_timeout(Duration::from_millis(5)).await.unwrap().is_some() {}
    }
}

/// Many channels are many: each listener hears its own.
async fn many_channels_are_kept_apart(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let mut listeners = Vec::new();
    for n in 0..200 {
        listeners.push(store.listen(&format!("c{n}")).await.unwrap());
    }
    let mut tx = other.begin_tx().await.unwrap();
    for n in (0..200).step_by(3) {
        tx.notify_tx(&format!("c{n}"), json!(1)).await.unwrap();
    }
    tx.commit().await.unwrap();
    for (n, wakes) in listeners.iter_mut().enumerate().step_by(3) {
        woken(&mut **wakes, &format!("c{n}")).await;
    }
    for (n, wakes) in listeners.iter_mut().enumerate() {
        assert!(n % 3 == 0 || wakes.try_recv().unwrap().is_none(), "c{n} heard another's");
    }
}

/// Dropping a receiver leaves the others, and a new one can take its place.
async fn receivers_come_and_go(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let mut stays = store.listen("c").await.unwrap();
    for _ in 0..30 {
        drop(store.listen("c").await.unwrap());
        let mut other = store.listen("c").await.unwrap();
        store.notify("c", json!(1)).await.unwrap();
        woken(&mut *other, "c").await;
        woken(&mut *stays, "c").await;
        drop(other);
    }
}

/// The adaptor to `futures::Stream` yields the wakes.
async fn the_stream_adaptor_yields_the_wakes(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let mut wakes = std::pin::pin!(ext::wakes(store.listen("c").await.unwrap()));
    for _ in 0..3 {
        store.notify("c", json!(1)).await.unwrap();
        let next = std::future::poll_fn(|cx| futures_core::Stream::poll_next(wakes.as_mut(), cx));
        assert_eq!(next.await.unwrap().channel, "c");
    }
}

cases!("notify":
    a_notification_wakes_every_listener,
    a_sleeping_listener_is_woken,
    wake_receivers_tell_idle_from_woken,
    a_listener_starts_from_now,
    a_listener_hears_commits_of_earlier_calls,
    listen_is_exact,
    a_wake_follows_the_commit,
    a_rollback_wakes_nobody,
    a_woken_reader_finds_the_commit,
    equal_notifications_wake_at_least_once,
    a_slow_listener_delays_nobody,
    receiving_is_cancel_safe,
    many_channels_are_kept_apart,
    receivers_come_and_go,
    the_stream_adaptor_yields_the_wakes,
);
