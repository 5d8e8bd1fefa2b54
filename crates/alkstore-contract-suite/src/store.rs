//! The store as a whole: closing it, dropping it, opening it again.

use std::sync::Arc;

use alkstore::QueueOpts;
use serde_json::json;

use crate::StoreFactory;
use crate::harness::cases;

/// Two handles that were opened on one database see the same data.
async fn opened_twice_it_is_one_database(f: Arc<dyn StoreFactory>) {
    let database = f.database().await;
    let (one, other) = (database.open().await, database.open().await);
    let queue = one.queue("q", QueueOpts::default()).await.unwrap();
    let id = queue.enqueue(json!(1), Default::default()).await.unwrap();
    let queue = other.queue("q", QueueOpts::default()).await.unwrap();
    assert_eq!(queue.get_job(id).await.unwrap().unwrap().id, id);
}

cases!("store": opened_twice_it_is_one_database);
