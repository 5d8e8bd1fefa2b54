//! Runtimes: a store works on any flavour, from several, and outlives the end of another.

use std::sync::Arc;
use std::time::Duration;

use alkstore::{JobHandle, StopToken};
use serde_json::json;

use crate::StoreFactory;
use crate::harness::cases;
use crate::open::{Opened, open};
use crate::queue::{put, take};
use crate::tx::{fill, seen, works};

/// A bit of everything.
async fn serves(store: &Opened) {
    let queue = store.queue("q", Default::default()).await.unwrap();
    assert!(!queue.wait_ready(Duration::from_millis(1)).await.unwrap());
    let waiting = store.queue("q", Default::default()).await.unwrap();
    let waiting = tokio::spawn(async move { waiting.wait_ready(Duration::from_secs(20)).await });
    tokio::task::yield_now().await;
    put(&*queue).await;
    assert!(waiting.await.unwrap().unwrap());
    let job = take(&*queue).await;
    assert!(job.heartbeat(60).await.unwrap() && job.ack().await.unwrap());

    let mut events = store.stream("s").await.unwrap().subscribe("c").await.unwrap();
    let mut wakes = store.listen("c").await.unwrap();
    let receiving = tokio::spawn(async move { tokio::join!(events.recv(), wakes.recv()) });
    tokio::task::yield_now().await;
    let mut tx = store.begin_tx().await.unwrap();
    tx.publish_tx("s", json!(1)).await.unwrap();
    tx.notify_tx("c", json!(1)).await.unwrap();
    tx.outbox_enqueue_tx("o", Default::default(), json!(1)).await.unwrap();
    tx.commit().await.unwrap();
    let (event, wake) = receiving.await.unwrap();
    assert!(event.unwrap().is_ok() && wake.is_some());

    let mut deliver = |_: Box<dyn JobHandle>| async { Ok(()) };
    assert!(store.outbox("o").await.unwrap().run_once("w", &mut deliver).await.unwrap());
    let lock = store.try_lock("l", "o", 60).await.unwrap().unwrap();
    assert!(lock.release().await.unwrap());
    let stop = StopToken::new();
    let (runner, token) = (store.clone(), stop.clone());
    let running = tokio::spawn(async move { runner.run_schedules(token).await });
    tokio::task::yield_now().await;
    stop.cancel();
    running.await.unwrap().unwrap();
}

/// Runs a future on a thread with a runtime of its own.
async fn elsewhere<F>(runtime: tokio::runtime::Runtime, f: F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (done, ended) = tokio::sync::oneshot::channel();
    let thread = std::thread::spawn(move || {
        runtime.block_on(f);
        runtime.shutdown_background();
        done.send(()).unwrap();
    });
    ended.await.expect("it does not panic");
    thread.join().unwrap();
}

fn single_threaded() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A store works where there is but one thread.
async fn a_store_works_on_a_single_threaded_runtime(f: Arc<dyn StoreFactory>) {
    elsewhere(single_threaded(), async move {
        let store = open(&f).await;
        serves(&store).await;
        store.close().await;
        let store = open(&f).await;
        serves(&store).await;
    })
    .await;
}

/// A store works on other runtimes than the one that opened it, while that one lives.
async fn a_store_works_on_several_runtimes(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for _ in 0..3 {
        let shared = store.clone();
        elsewhere(single_threaded(), async move { serves(&shared).await }).await;
        serves(&store).await;
    }
}

/// A runtime that shuts down takes its transactions with it, and nothing else.
async fn a_runtime_that_shuts_down_rolls_back(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for _ in 0..5 {
        let shared = store.clone();
        elsewhere(single_threaded(), async move {
            let (open, is_open) = tokio::sync::oneshot::channel();
            tokio::spawn(async move {
                let mut tx = shared.begin_tx().await.unwrap();
                fill(&mut *tx).await;
                open.send(()).unwrap();
                std::future::pending::<()>().await;
                drop(tx);
            });
            is_open.await.unwrap();
        })
        .await;
        works(&store).await;
        assert_eq!(seen(&store).await, 0);
    }
    serves(&store).await;
}

cases!("store":
    a_store_works_on_a_single_threaded_runtime,
    a_store_works_on_several_runtimes,
    a_runtime_that_shuts_down_rolls_back,
);
