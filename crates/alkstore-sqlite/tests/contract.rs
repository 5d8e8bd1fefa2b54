//! The contract suite on the SQLite engine.

use std::process::ExitCode;
use std::sync::Arc;

use alkstore::async_trait;
use alkstore_contract_suite::{Database, EngineStore, StoreFactory, Traits, run};
use alkstore_sqlite::{Durability, SqliteOpts, SqliteStore};
use tempfile::TempDir;

struct Sqlite;

#[async_trait]
impl StoreFactory for Sqlite {
    fn traits(&self) -> Traits {
        Traits { durable: true, several_stores: true, clock: false, notify_limit: None }
    }

    async fn database(&self) -> Arc<dyn Database> {
        Arc::new(File(tempfile::tempdir().expect("a temporary folder")))
    }
}

struct File(TempDir);

#[async_trait]
impl Database for File {
    async fn open(&self) -> EngineStore {
        // What a power loss would leave is another test's subject. Of several stores on one file
        // some poll and some wait for the system's file events.
        let opts = SqliteOpts {
            durability: Durability::Normal,
            file_events: fastrand::bool(),
            ..Default::default()
        };
        let store = SqliteStore::open(self.0.path().join("store.db"), opts).expect("a new file");
        EngineStore::new(store, |store| Box::pin(store.close()))
    }
}

fn main() -> ExitCode {
    run(Sqlite)
}
