//! `with_tx` and `StoreExt::transaction`: `Ok` commits; `Err`, panic and cancellation roll back.

use std::sync::{Arc, Mutex};

use alkstore::Error;
use alkstore::ext::{StoreExt, Tx};
use serde_json::json;

use super::{fill, seen, works};
use crate::harness::cases;
use crate::open::open;
use crate::{EngineStore, StoreFactory};

/// `with_tx` commits on `Ok`; values come back through what the closure captured.
async fn with_tx_commits_on_ok(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let found = Arc::new(Mutex::new(None));
    let inside = found.clone();
    store
        .with_tx(Box::new(move |tx| {
            Box::pin(async move {
                fill(tx).await;
                let id = tx.enqueue_tx("jobs", Default::default(), json!(2)).await?;
                *inside.lock().unwrap() = Some(id);
                Ok(())
            })
        }))
        .await
        .unwrap();
    assert_eq!(seen(&store).await, 7);
    let id = found.lock().unwrap().unwrap();
    let queue = store.queue("jobs", Default::default()).await.unwrap();
    assert!(queue.get_job(id).await.unwrap().is_some());
}

/// `with_tx` rolls back on `Err` and returns that error.
async fn with_tx_rolls_back_on_err(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let outcome = store
        .with_tx(Box::new(|tx| {
            Box::pin(async move {
                fill(tx).await;
                tx.enqueue_tx("", Default::default(), json!(1)).await.map(drop)
            })
        }))
        .await;
    assert!(matches!(outcome, Err(Error::InvalidName { .. })), "{outcome:?}");
    works(&store).await;
    assert_eq!(seen(&store).await, 0);
}

/// `with_tx` rolls back on a panic, which goes on.
async fn with_tx_rolls_back_on_panic(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let inside = store.clone();
    let panics = tokio::spawn(async move {
        let panics: alkstore::TxFn<'_> = Box::new(|tx| {
            Box::pin(async move {
                fill(tx).await;
                std::panic::resume_unwind(Box::new("on purpose"))
            })
        });
        inside.with_tx(panics).await
    });
    assert!(panics.await.unwrap_err().is_panic());
    works(&store).await;
    assert_eq!(seen(&store).await, 0);
}

/// `transaction` commits on `Ok` and returns the value, with captures by reference.
async fn transaction_commits_on_ok(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let name = String::from("jobs");
    let mut ids = Vec::new();
    let offset = store
        .transaction(async |tx: &mut Tx| {
            fill(&mut **tx).await;
            ids.push(tx.enqueue_tx(&name, Default::default(), json!(2)).await?);
            tx.publish_tx("other", json!(1)).await
        })
        .await
        .unwrap();
    assert_eq!((seen(&store).await, ids.len()), (7, 1));
    let events = store.stream("other").await.unwrap().read_since(0, 9).await.unwrap();
    assert_eq!(events[0].offset, offset);
}

/// `transaction` rolls back on `Err` and returns that error.
async fn transaction_rolls_back_on_err(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let outcome: alkstore::Result<()> = store
        .transaction(async |tx: &mut Tx| {
            fill(&mut **tx).await;
            Err(Error::Closed)
        })
        .await;
    assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
    works(&store).await;
    assert_eq!(seen(&store).await, 0);
}

async fn spawned(store: EngineStore, panics: bool) -> alkstore::Result<(Vec<i64>, String)> {
    let task = tokio::spawn(async move {
        let customer = String::from("ada");
        let mut ids = Vec::new();
        store
            .transaction(async |tx: &mut Tx| {
                fill(&mut **tx).await;
                ids.push(tx.enqueue_tx("jobs", Default::default(), json!(&customer)).await?);
                if panics {
                    std::panic::resume_unwind(Box::new("on purpose"));
                }
                Ok(())
            })
            .await
            .map(|()| (ids, customer))
    });
    task.await.unwrap_or_else(|error| {
        assert!(panics && error.is_panic());
        Err(Error::Closed)
    })
}

/// `transaction` works inside a spawned task; a panic there rolls back.
async fn transaction_works_in_a_spawned_task(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    assert!(spawned(EngineStore::clone(&store), true).await.is_err());
    works(&store).await;
    assert_eq!(seen(&store).await, 0);
    let (ids, customer) = spawned(EngineStore::clone(&store), false).await.unwrap();
    assert_eq!((ids.len(), &*customer, seen(&store).await), (1, "ada", 7));
}

/// A transaction whose task is aborted is rolled back, and the store usable at once.
async fn an_aborted_task_rolls_back(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for round in 0..30 {
        let inside = store.clone();
        let (started, start) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(async move {
            let outcome: alkstore::Result<()> = inside
                .transaction(async |tx: &mut Tx| {
                    tx.publish_tx("s", json!(1)).await?;
                    started.send(()).unwrap();
                    loop {
                        fill(&mut **tx).await;
                        tokio::task::yield_now().await;
                    }
                })
                .await;
            outcome
        });
        start.await.unwrap();
        for _ in 0..round * 3 {
            tokio::task::yield_now().await;
        }
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        works(&store).await;
    }
    assert_eq!(seen(&store).await, 0);
}

cases!("tx":
    with_tx_commits_on_ok,
    with_tx_rolls_back_on_err,
    with_tx_rolls_back_on_panic,
    transaction_commits_on_ok,
    transaction_rolls_back_on_err,
    transaction_works_in_a_spawned_task,
    an_aborted_task_rolls_back,
);
