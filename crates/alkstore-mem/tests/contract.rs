//! The contract suite on the memory engine.

use std::process::ExitCode;
use std::sync::Arc;

use alkstore::async_trait;
use alkstore_contract_suite::{Database, EngineStore, StoreFactory, Traits, run};
use alkstore_mem::{ManualClock, MemStore};

struct Mem;

#[async_trait]
impl StoreFactory for Mem {
    fn traits(&self) -> Traits {
        Traits { durable: false, several_stores: false, clock: true, notify_limit: None }
    }

    async fn database(&self) -> Arc<dyn Database> {
        Arc::new(Data(MemStore::new()))
    }

    async fn database_at(&self, clock: ManualClock) -> Arc<dyn Database> {
        Arc::new(Data(MemStore::with_clock(clock)))
    }
}

struct Data(MemStore);

#[async_trait]
impl Database for Data {
    async fn open(&self) -> EngineStore {
        EngineStore::new(self.0.clone(), |store| Box::pin(store.close()))
    }
}

fn main() -> ExitCode {
    run(Mem)
}
