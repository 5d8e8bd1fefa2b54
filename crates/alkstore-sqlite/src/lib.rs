//! The SQLite engine of [alkstore](https://docs.rs/alkstore): one host, one file, many processes.
//!
//! Everything that the store does can commit atomically with the application's own rows:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> alkstore::Result<()> {
//! use alkstore::{Store, TxHandle};
//! use alkstore_sqlite::{SqliteOpts, SqliteStore};
//! use serde_json::json;
//! # let folder = tempfile::tempdir().expect("a temporary folder");
//! # let path = folder.path().join("app.db");
//!
//! let store = SqliteStore::open(&path, SqliteOpts::default())?;
//! let mut tx = store.begin().await?;
//! tx.run(|db| db.execute_batch("CREATE TABLE customer (name TEXT)")).await?;
//! tx.run(|db| db.execute("INSERT INTO customer VALUES ('ada')", [])).await?;
//! tx.enqueue_tx("emails", Default::default(), json!({"to": "ada@example.org"})).await?;
//! Box::new(tx).commit().await?;
//! # store.close().await;
//! # Ok(()) }
//! ```

mod conn;
mod error;
mod functions;
mod job;
mod lock;
mod migrate;
mod notify;
mod ops;
mod opts;
mod outbox;
mod queue;
mod rows;
mod schedule;
mod sql;
mod store;
mod stream;
mod text;
mod tx;
mod wake;
mod write;

pub use functions::attach;
pub use opts::{Durability, SqliteOpts};
pub use store::{SqliteStore, open};
pub use tx::SqliteTx;
pub use write::SqliteWrite;
