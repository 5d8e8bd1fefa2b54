//! Batches of jobs: all or none, in order.

use std::sync::Arc;

use alkstore::{EnqueueOpts, Error, QueueOpts};
use serde_json::{Value, json};

use super::{job, put};
use crate::StoreFactory;
use crate::harness::cases;
use crate::open::open;

fn jobs(n: i64) -> Vec<(Value, EnqueueOpts)> {
    (0..n).map(|n| (json!(n), Default::default())).collect()
}

fn too_deep() -> Value {
    (0..200).fold(json!(1), |inner, _| json!([inner]))
}

/// Ids come in the order of the input, which is also the order of the claims.
async fn enqueue_batch_keeps_the_order(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let first = put(&*queue).await;
    let ids = queue.enqueue_batch(jobs(1_000)).await.unwrap();
    assert_eq!(ids.len(), 1_000);
    assert!(ids.is_sorted_by(|a, b| a < b) && first < ids[0], "{ids:?}");
    let claims = queue.claim_batch("w", 2_000).await.unwrap();
    for (n, claim) in claims[1..].iter().enumerate() {
        assert_eq!(claim.job().id, ids[n]);
        assert_eq!(claim.job().payload_as::<usize>().unwrap(), n);
    }
}

/// An empty batch is an empty result, on both paths.
async fn an_empty_batch_is_empty(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    assert!(queue.enqueue_batch(vec![]).await.unwrap().is_empty());
    let mut tx = store.begin_tx().await.unwrap();
    assert!(tx.enqueue_batch_tx("q", vec![]).await.unwrap().is_empty());
    assert!(tx.publish_batch_tx("s", vec![]).await.unwrap().is_empty());
    tx.commit().await.unwrap();
    assert!(store.queues().await.unwrap().is_empty());
}

/// One bad payload refuses the whole batch.
async fn enqueue_batch_is_all_or_nothing(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    for place in [0, 5, 9] {
        let mut batch = jobs(10);
        batch[place].0 = too_deep();
        let refused = queue.enqueue_batch(batch).await;
        assert!(matches!(refused, Err(Error::Codec(_))), "{refused:?}");
    }
    assert!(store.queues().await.unwrap().is_empty());
}

/// Each job of a batch has its own options over the handle's stamps.
async fn enqueue_batch_resolves_each_job(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let opts = QueueOpts { visibility_timeout_s: 7, max_attempts: 8, ..Default::default() };
    let queue = store.queue("q", opts).await.unwrap();
    let batch = vec![
        (json!(1), EnqueueOpts { priority: 2, ..Default::default() }),
        (json!(2), EnqueueOpts { delay: Some(60), max_attempts: Some(1), ..Default::default() }),
        (json!(3), EnqueueOpts { expires: Some(60), run_at: Some(5), ..Default::default() }),
    ];
    let ids = queue.enqueue_batch(batch).await.unwrap();
    let [one, two, three] = [0, 1, 2].map(|n| job(&*queue, ids[n]));
    let (one, two, three) = (one.await, two.await, three.await);
    assert_eq!((one.priority, one.max_attempts, one.visibility_timeout_s), (2, 8, 7));
    assert_eq!((two.run_at - two.created_at, two.max_attempts), (60, 1));
    assert_eq!((three.run_at, three.expires_at), (5, Some(three.created_at + 60)));
    assert!(one.created_at == two.created_at && two.created_at == three.created_at);
}

/// A batch in a transaction is stamped plainly and comes and goes with it.
async fn enqueue_batch_tx_follows_its_transaction(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let mut tx = store.begin_tx().await.unwrap();
    let lost = tx.enqueue_batch_tx("q", jobs(3)).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = store.begin_tx().await.unwrap();
    let ids = tx.enqueue_batch_tx("q", jobs(3)).await.unwrap();
    assert!(tx.get_job_tx("q", ids[2]).await.unwrap().is_some());
    assert_eq!(queue.get_job(ids[2]).await.unwrap(), None);
    tx.commit().await.unwrap();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    for id in lost {
        assert_eq!(queue.get_job(id).await.unwrap(), None);
    }
    let row = job(&*queue, ids[1]).await;
    assert_eq!((row.visibility_timeout_s, row.max_attempts, row.backoff_base_s), (300, 3, 5));
    assert_eq!(queue.claim_batch("w", 9).await.unwrap().len(), 3);
}

/// A refused batch leaves the transaction usable and nothing of itself behind.
async fn a_refused_batch_leaves_the_transaction_usable(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let mut tx = store.begin_tx().await.unwrap();
    let kept = tx.enqueue_batch_tx("q", jobs(2)).await.unwrap();
    let mut batch = jobs(3);
    batch[2].0 = too_deep();
    let refused = tx.enqueue_batch_tx("q", batch).await;
    assert!(matches!(refused, Err(Error::Codec(_))), "{refused:?}");
    let more = tx.enqueue_batch_tx("q", jobs(1)).await.unwrap();
    tx.commit().await.unwrap();
    let claims = queue.claim_batch("w", 9).await.unwrap();
    let claimed: Vec<i64> = claims.iter().map(|claim| claim.job().id).collect();
    assert_eq!(claimed, [kept, more].concat());
}

cases!("queue":
    enqueue_batch_keeps_the_order,
    an_empty_batch_is_empty,
    enqueue_batch_is_all_or_nothing,
    enqueue_batch_resolves_each_job,
    enqueue_batch_tx_follows_its_transaction,
    a_refused_batch_leaves_the_transaction_usable,
);
