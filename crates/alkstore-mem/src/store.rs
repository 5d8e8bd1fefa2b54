//! The store: hands out everything else, and closes.

use std::fmt;
use std::sync::Arc;

use alkstore::engine::clock::{Clock, ManualClock};
use alkstore::engine::domain::duration;
use alkstore::engine::every;
use alkstore::engine::hub::Kind;
use alkstore::engine::leader;
use alkstore::{
    Lock, Outbox, Queue, QueueOpts, Result, Schedule, ScheduleOpts, StopToken, Store, StreamHandle,
    TxHandle, WakeReceiver, async_trait, encode_payload, validate_local_name, validate_shared_name,
};
use serde_json::Value;

use crate::conn::Conn;
use crate::lock::{self, MemLock};
use crate::notify;
use crate::outbox::MemOutbox;
use crate::queue::MemQueue;
use crate::schedule::{self, MemLeader, Registration};
use crate::stream::MemStream;
use crate::tx::MemTx;

/// A store in this process's memory. Clones are one store.
///
/// It closes when it is told to and when its last clone is dropped; handles and receivers do not
/// keep it open.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> alkstore::Result<()> {
/// use alkstore::{QueueOpts, Store};
/// use alkstore_mem::MemStore;
///
/// let store = MemStore::new();
/// let queue = store.queue("emails", QueueOpts::default()).await?;
/// drop(store);
/// assert!(queue.claim_one("worker-1").await.is_err(), "closed");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct MemStore {
    pub(crate) conn: Conn,
    _open: Arc<CloseOnDrop>,
}

struct CloseOnDrop(Conn);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl MemStore {
    /// An empty store on the machine's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::on(Clock::System)
    }

    /// An empty store for which time passes only when the clock is advanced.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> alkstore::Result<()> {
    /// use alkstore::Store;
    /// use alkstore_mem::{ManualClock, MemStore};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::at(1_700_000_000);
    /// let store = MemStore::with_clock(clock.clone());
    /// let lock = store.try_lock("report", "host-a", 60).await?.expect("free");
    /// clock.advance(Duration::from_secs(60));
    /// assert!(store.try_lock("report", "host-b", 60).await?.is_some(), "lapsed");
    /// assert!(!lock.renew(60).await?);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_clock(clock: ManualClock) -> Self {
        Self::on(Clock::Manual(clock))
    }

    fn on(clock: Clock) -> Self {
        let conn = Conn::new(clock);
        Self { _open: Arc::new(CloseOnDrop(conn.clone())), conn }
    }

    /// Closes the store for all its clones: calls fail, receivers end, open transactions are gone.
    pub async fn close(&self) {
        self.conn.close();
    }
}

impl Default for MemStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemStore")
    }
}

#[async_trait]
impl Store for MemStore {
    async fn begin_tx(&self) -> Result<Box<dyn TxHandle>> {
        Ok(Box::new(MemTx::begin(&self.conn).await?))
    }

    async fn notify(&self, channel: &str, payload: Value) -> Result<()> {
        validate_shared_name(channel)?;
        encode_payload(&payload)?;
        let notification = self.conn.write(notify::notify).await?;
        self.conn.wake_channel(channel, notification);
        Ok(())
    }

    async fn listen(&self, channel: &str) -> Result<Box<dyn WakeReceiver>> {
        validate_shared_name(channel)?;
        Ok(Box::new(notify::listen(&self.conn, channel).await?))
    }

    async fn stream(&self, name: &str) -> Result<Box<dyn StreamHandle>> {
        validate_shared_name(name)?;
        self.conn.read(|_| ()).await?;
        Ok(Box::new(MemStream::new(self.conn.clone(), name.to_owned())))
    }

    async fn queue(&self, name: &str, opts: QueueOpts) -> Result<Box<dyn Queue>> {
        validate_shared_name(name)?;
        Ok(Box::new(MemQueue::new(&self.conn, name.to_owned(), opts).await?))
    }

    async fn outbox(&self, name: &str) -> Result<Box<dyn Outbox>> {
        validate_shared_name(name)?;
        Ok(Box::new(MemOutbox::new(&self.conn, name).await?))
    }

    async fn try_lock(&self, name: &str, owner: &str, ttl: i64) -> Result<Option<Box<dyn Lock>>> {
        validate_shared_name(name)?;
        validate_local_name(owner)?;
        let ttl = duration("ttl", ttl)?;
        let token = self.conn.write(|state| lock::acquire(state, name, owner, ttl)).await?;
        let held = |token| MemLock::new(self.conn.clone(), name.to_owned(), token);
        Ok(token.map(|token| Box::new(held(token)) as Box<dyn Lock>))
    }

    async fn schedule(
        &self,
        name: &str,
        spec: &str,
        queue: &str,
        payload: Value,
        opts: ScheduleOpts,
    ) -> Result<Schedule> {
        validate_shared_name(name)?;
        validate_shared_name(queue)?;
        let interval_s = every::parse(spec)?;
        let payload = encode_payload(&payload)?;
        let new = Registration { name, spec, queue, payload, opts };
        let row = self.conn.write(|state| schedule::register(state, new, interval_s)).await?;
        self.conn.wake(Kind::Schedules, "");
        Ok(row.into())
    }

    async fn unschedule(&self, name: &str) -> Result<bool> {
        validate_shared_name(name)?;
        let removed = self.conn.write(|state| schedule::remove(state, name)).await?;
        self.conn.wake(Kind::Schedules, "");
        Ok(removed)
    }

    async fn run_schedules(&self, stop: StopToken) -> Result<()> {
        let leader = MemLeader::new(self.conn.clone()).await?;
        leader::run_schedules(&leader, stop).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use alkstore::EnqueueOpts;
    use serde_json::json;

    use super::*;

    /// What is done leaves nothing in any table.
    #[tokio::test]
    async fn finished_work_leaves_no_residue() {
        let clock = ManualClock::at(1_700_000_000);
        let store = MemStore::with_clock(clock.clone());
        for round in 0..200 {
            let name = format!("name-{round}");
            let opts = QueueOpts { dead_letter_retention_s: Some(1), ..Default::default() };
            let queue = store.queue(&name, opts).await.unwrap();
            let expiring = EnqueueOpts { expires: Some(0), ..Default::default() };
            let never = EnqueueOpts { max_attempts: Some(0), ..Default::default() };
            for opts in [Default::default(), Default::default(), expiring, never] {
                queue.enqueue(json!(round), opts).await.unwrap();
            }
            let claimed = queue.claim_batch("w", 10).await.unwrap();
            assert_eq!(claimed.len(), 2);
            for (i, job) in claimed.into_iter().enumerate() {
                assert!(if i == 0 { job.ack().await } else { job.fail(None).await }.unwrap());
            }
            assert_eq!(queue.sweep_expired().await.unwrap(), 1);
            clock.advance(Duration::from_secs(1));
            assert_eq!(queue.sweep_expired().await.unwrap(), 3);

            let mut tx = store.begin_tx().await.unwrap();
            tx.publish_tx(&name, json!(1)).await.unwrap();
            tx.enqueue_tx(&name, Default::default(), json!(1)).await.unwrap();
            drop(tx);
            drop(store.listen(&name).await.unwrap());
            let lock = store.try_lock(&name, "a", 1).await.unwrap().expect("free");
            if round % 2 == 0 {
                assert!(lock.release().await.unwrap());
            }
        }
        clock.advance(Duration::from_secs(3_600));
        for _ in 0..200 {
            let lock = store.try_lock("last", "a", 1).await.unwrap().expect("free");
            assert!(lock.release().await.unwrap());
        }
        store.conn.drain(|state| {
            assert!(state.queues.is_empty() && state.streams.is_empty());
            assert!(state.locks.is_empty() && state.lock_ends.is_empty());
        });
    }
}
