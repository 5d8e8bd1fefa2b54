//! The model-based test that joins the memory engine and SQLite.

use std::sync::Arc;

use alkstore::async_trait;
use alkstore_contract_suite::{Database, EngineStore, StoreFactory, Traits, model};
use alkstore_mem::MemStore;
use alkstore_sqlite::{Durability, SqliteOpts, SqliteStore};
use alkstore_testkit::rounds;
use tempfile::TempDir;

#[test]
fn sqlite_answers_as_memory_does() {
    model::run(Mem, Sqlite, rounds(2_000));
}

struct Mem;

#[async_trait]
impl StoreFactory for Mem {
    fn traits(&self) -> Traits {
        Traits { durable: false, several_stores: false, clock: false, notify_limit: None }
    }

    async fn database(&self) -> Arc<dyn Database> {
        Arc::new(MemData(MemStore::new()))
    }
}

struct MemData(MemStore);

#[async_trait]
impl Database for MemData {
    async fn open(&self) -> EngineStore {
        EngineStore::new(self.0.clone(), |store| Box::pin(store.close()))
    }
}

struct Sqlite;

#[async_trait]
impl StoreFactory for Sqlite {
    fn traits(&self) -> Traits {
        Traits { durable: true, several_stores: true, clock: false, notify_limit: None }
    }

    async fn database(&self) -> Arc<dyn Database> {
        Arc::new(SqliteFile(tempfile::tempdir().expect("a temporary folder")))
    }
}

struct SqliteFile(TempDir);

#[async_trait]
impl Database for SqliteFile {
    async fn open(&self) -> EngineStore {
        let opts = SqliteOpts { durability: Durability::Normal, ..Default::default() };
        let store = SqliteStore::open(self.0.path().join("store.db"), opts)
            .expect("a file that can be opened");
        EngineStore::new(store, |store| Box::pin(store.close()))
    }
}
