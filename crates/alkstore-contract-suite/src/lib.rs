//! The contract of alkstore as tests that any engine can run.
//!
//! An engine's `tests/contract.rs` (with `harness = false`) is a factory and one call:
//!
//! ```no_run
//! use std::process::ExitCode;
//! use std::sync::Arc;
//!
//! use alkstore::async_trait;
//! use alkstore_contract_suite::{Database, EngineStore, StoreFactory, Traits, run};
//! use alkstore_mem::MemStore;
//!
//! struct Mem;
//!
//! #[async_trait]
//! impl StoreFactory for Mem {
//!     fn traits(&self) -> Traits {
//!         Traits { durable: false, several_stores: false, clock: false, notify_limit: None }
//!     }
//!
//!     async fn database(&self) -> Arc<dyn Database> {
//!         Arc::new(Data(MemStore::new()))
//!     }
//! }
//!
//! struct Data(MemStore);
//!
//! #[async_trait]
//! impl Database for Data {
//!     async fn open(&self) -> EngineStore {
//!         EngineStore::new(self.0.clone(), |store| Box::pin(store.close()))
//!     }
//! }
//!
//! fn main() -> ExitCode {
//!     run(Mem)
//! }
//! ```
//!
//! Cases are named `queue::claim_prefers_higher_priority`; cargo-nextest lists and filters them.
#![forbid(unsafe_code)]
#![deny(dead_code)]
#![expect(clippy::unwrap_used, reason = "a case fails by panicking")]

mod domain;
mod harness;
mod job;
mod lock;
pub mod model;
mod name;
mod notify;
mod open;
mod ops;
mod outbox;
mod payload;
mod queue;
mod schedule;
mod store;
mod stream;
mod tx;
mod wait;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use alkstore::engine::clock::ManualClock;
use alkstore::ops::{Inspect, Operate};
use alkstore::{BoxedFuture, Store, async_trait};

pub use harness::run;

/// Makes the databases that the cases run on.
#[async_trait]
pub trait StoreFactory: Send + Sync + 'static {
    /// Where this engine differs from others, legally.
    fn traits(&self) -> Traits;

    /// A fresh, empty database; its data is removed on drop.
    async fn database(&self) -> Arc<dyn Database>;

    /// A fresh, empty database whose stores take their time from `clock` alone.
    ///
    /// Called only if [`Traits::clock`] is set.
    async fn database_at(&self, clock: ManualClock) -> Arc<dyn Database> {
        panic!("Traits::clock is set and nothing takes the clock at {}", clock.now())
    }
}

/// One database's data.
#[async_trait]
pub trait Database: Send + Sync {
    /// Opens a store on the data: an independent one, as another process would.
    ///
    /// Without [`Traits::several_stores`] it is another handle to the one store.
    async fn open(&self) -> EngineStore;
}

/// Where engines may differ. A case asks for one of these, never for an engine's name.
#[derive(Clone, Debug)]
pub struct Traits {
    /// Data outlives the closing of the last store, and can be opened again.
    pub durable: bool,
    /// Several stores can be open on the same data.
    pub several_stores: bool,
    /// [`StoreFactory::database_at`] works.
    pub clock: bool,
    /// The most bytes of a notification's payload.
    pub notify_limit: Option<usize>,
}

/// All that an engine's store can do, as one object.
pub trait Engine: Store + Inspect + Operate {}

impl<S: Store + Inspect + Operate> Engine for S {}

/// An open store and the way to close it. Clones are one store; it derefs to [`Engine`].
#[derive(Clone)]
pub struct EngineStore(Arc<dyn Closable>);

impl EngineStore {
    /// Wraps an engine's own store; `close` calls its `close().await`.
    pub fn new<S, C>(store: S, close: C) -> Self
    where
        S: Engine + 'static,
        C: for<'a> Fn(&'a S) -> BoxedFuture<'a, ()> + Send + Sync + 'static,
    {
        Self(Arc::new(Closing { store, close }))
    }

    async fn close(&self) {
        self.0.close().await;
    }
}

impl Deref for EngineStore {
    type Target = dyn Engine;

    fn deref(&self) -> &Self::Target {
        self.0.engine()
    }
}

impl fmt::Debug for EngineStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EngineStore")
    }
}

trait Closable: Send + Sync {
    fn engine(&self) -> &(dyn Engine + 'static);
    fn close(&self) -> BoxedFuture<'_, ()>;
}

struct Closing<S, C> {
    store: S,
    close: C,
}

impl<S, C> Closable for Closing<S, C>
where
    S: Engine + 'static,
    C: for<'a> Fn(&'a S) -> BoxedFuture<'a, ()> + Send + Sync,
{
    fn engine(&self) -> &(dyn Engine + 'static) {
        &self.store
    }

    fn close(&self) -> BoxedFuture<'_, ()> {
        (self.close)(&self.store)
    }
}

/// Every case of the suite, by file.
const CASES: &[&[harness::Case]] = &[
    domain::CASES,
    job::CASES,
    job::backoff::CASES,
    job::fence::CASES,
    lock::CASES,
    name::CASES,
    notify::CASES,
    ops::CASES,
    ops::operate::CASES,
    outbox::CASES,
    payload::CASES,
    queue::CASES,
    queue::ack_batch::CASES,
    queue::backlog::CASES,
    queue::batch::CASES,
    queue::claim::CASES,
    queue::exact::CASES,
    queue::history::CASES,
    queue::sweep::CASES,
    queue::wait_ready::CASES,
    schedule::CASES,
    schedule::boundary::CASES,
    schedule::leader::CASES,
    store::CASES,
    store::close::CASES,
    store::reopen::CASES,
    store::runtime::CASES,
    stream::CASES,
    stream::checkpoint::CASES,
    stream::concurrent::CASES,
    stream::subscribe::CASES,
    tx::CASES,
    tx::cancel::CASES,
    tx::closure::CASES,
];
