//! An engine with no more than the required methods: what the provided ones do then.

use std::time::{Duration, Instant};

use alkstore::{
    EnqueueOpts, Error, EventReceiver, Job, JobHandle, JobState, Lock, Outbox, Queue, QueueOpts,
    Result, Schedule, ScheduleOpts, StopToken, Store, StreamEvent, StreamHandle, TxHandle,
    WakeReceiver, async_trait,
};
use alkstore_mem::MemStore;
use serde_json::{Value, json};

struct BareStore(MemStore);
struct BareQueue(Box<dyn Queue>);
struct BareJob(Box<dyn JobHandle>);
struct BareStream(Box<dyn StreamHandle>);
pub(crate) struct BareTx(Box<dyn TxHandle>);

#[async_trait]
impl Store for BareStore {
    async fn begin_tx(&self) -> Result<Box<dyn TxHandle>> {
        Ok(Box::new(BareTx(self.0.begin_tx().await?)))
    }
    async fn notify(&self, channel: &str, payload: Value) -> Result<()> {
        self.0.notify(channel, payload).await
    }
    async fn listen(&self, channel: &str) -> Result<Box<dyn WakeReceiver>> {
        self.0.listen(channel).await
    }
    async fn stream(&self, name: &str) -> Result<Box<dyn StreamHandle>> {
        Ok(Box::new(BareStream(self.0.stream(name).await?)))
    }
    async fn queue(&self, name: &str, opts: QueueOpts) -> Result<Box<dyn Queue>> {
        Ok(Box::new(BareQueue(self.0.queue(name, opts).await?)))
    }
    async fn outbox(&self, name: &str) -> Result<Box<dyn Outbox>> {
        self.0.outbox(name).await
    }
    async fn try_lock(&self, name: &str, owner: &str, ttl: i64) -> Result<Option<Box<dyn Lock>>> {
        self.0.try_lock(name, owner, ttl).await
    }
    async fn schedule(
        &self,
        name: &str,
        spec: &str,
        queue: &str,
        payload: Value,
        opts: ScheduleOpts,
    ) -> Result<Schedule> {
        self.0.schedule(name, spec, queue, payload, opts).await
    }
    async fn unschedule(&self, name: &str) -> Result<bool> {
        self.0.unschedule(name).await
    }
    async fn run_schedules(&self, stop: StopToken) -> Result<()> {
        self.0.run_schedules(stop).await
    }
}

#[async_trait]
impl Queue for BareQueue {
    fn name(&self) -> &str {
        self.0.name()
    }
    async fn enqueue(&self, payload: Value, opts: EnqueueOpts) -> Result<i64> {
        self.0.enqueue(payload, opts).await
    }
    async fn claim_one(&self, worker_id: &str) -> Result<Option<Box<dyn JobHandle>>> {
        let job = self.0.claim_one(worker_id).await?;
        Ok(job.map(|job| Box::new(BareJob(job)) as Box<dyn JobHandle>))
    }
    async fn claim_batch(&self, worker_id: &str, n: i64) -> Result<Vec<Box<dyn JobHandle>>> {
        self.0.claim_batch(worker_id, n).await
    }
    async fn ack_batch(&self, ids: &[i64]) -> Result<i64> {
        self.0.ack_batch(ids).await
    }
    async fn cancel(&self, job_id: i64) -> Result<bool> {
        self.0.cancel(job_id).await
    }
    async fn get_job(&self, job_id: i64) -> Result<Option<Job>> {
        self.0.get_job(job_id).await
    }
    async fn sweep_expired(&self) -> Result<i64> {
        self.0.sweep_expired().await
    }
}

#[async_trait]
impl JobHandle for BareJob {
    fn job(&self) -> &Job {
        self.0.job()
    }
    async fn ack(self: Box<Self>) -> Result<bool> {
        self.0.ack().await
    }
    async fn retry(self: Box<Self>, err: Option<String>, delay: Option<i64>) -> Result<bool> {
        self.0.retry(err, delay).await
    }
    async fn fail(self: Box<Self>, err: Option<String>) -> Result<bool> {
        self.0.fail(err).await
    }
    async fn heartbeat(&self, extend: i64) -> Result<bool> {
        self.0.heartbeat(extend).await
    }
}

#[async_trait]
impl StreamHandle for BareStream {
    fn name(&self) -> &str {
        self.0.name()
    }
    async fn publish(&self, payload: Value) -> Result<i64> {
        self.0.publish(payload).await
    }
    async fn publish_with_key(&self, key: Option<String>, payload: Value) -> Result<i64> {
        self.0.publish_with_key(key, payload).await
    }
    async fn read_since(&self, offset: i64, limit: i64) -> Result<Vec<StreamEvent>> {
        self.0.read_since(offset, limit).await
    }
    async fn read_from_consumer(&self, consumer: &str, limit: i64) -> Result<Vec<StreamEvent>> {
        self.0.read_from_consumer(consumer, limit).await
    }
    async fn save_offset(&self, consumer: &str, offset: i64) -> Result<()> {
        self.0.save_offset(consumer, offset).await
    }
    async fn get_offset(&self, consumer: &str) -> Result<i64> {
        self.0.get_offset(consumer).await
    }
    async fn trim_to(&self, horizon: i64) -> Result<i64> {
        self.0.trim_to(horizon).await
    }
    async fn subscribe(&self, consumer: &str) -> Result<Box<dyn EventReceiver>> {
        self.0.subscribe(consumer).await
    }
}

#[async_trait]
impl TxHandle for BareTx {
    async fn enqueue_tx(&mut self, queue: &str, opts: EnqueueOpts, payload: Value) -> Result<i64> {
        self.0.enqueue_tx(queue, opts, payload).await
    }
    async fn publish_tx(&mut self, stream: &str, payload: Value) -> Result<i64> {
        self.0.publish_tx(stream, payload).await
    }
    async fn publish_with_key_tx(
        &mut self,
        stream: &str,
        key: Option<String>,
        payload: Value,
    ) -> Result<i64> {
        self.0.publish_with_key_tx(stream, key, payload).await
    }
    async fn notify_tx(&mut self, channel: &str, payload: Value) -> Result<()> {
        self.0.notify_tx(channel, payload).await
    }
    async fn save_offset_tx(&mut self, stream: &str, consumer: &str, offset: i64) -> Result<()> {
        self.0.save_offset_tx(stream, consumer, offset).await
    }
    async fn get_job_tx(&mut self, queue: &str, job_id: i64) -> Result<Option<Job>> {
        self.0.get_job_tx(queue, job_id).await
    }
    async fn get_offset_tx(&mut self, stream: &str, consumer: &str) -> Result<i64> {
        self.0.get_offset_tx(stream, consumer).await
    }
    async fn read_since_tx(
        &mut self,
        stream: &str,
        offset: i64,
        limit: i64,
    ) -> Result<Vec<StreamEvent>> {
        self.0.read_since_tx(stream, offset, limit).await
    }
    async fn read_from_consumer_tx(
        &mut self,
        stream: &str,
        consumer: &str,
        limit: i64,
    ) -> Result<Vec<StreamEvent>> {
        self.0.read_from_consumer_tx(stream, consumer, limit).await
    }
    async fn outbox_enqueue_tx(
        &mut self,
        outbox: &str,
        opts: EnqueueOpts,
        payload: Value,
    ) -> Result<i64> {
        self.0.outbox_enqueue_tx(outbox, opts, payload).await
    }
    async fn commit(self: Box<Self>) -> Result<()> {
        self.0.commit().await
    }
    async fn rollback(self: Box<Self>) -> Result<()> {
        self.0.rollback().await
    }
}

fn too_deep() -> Value {
    (0..200).fold(json!(1), |inner, _| json!([inner]))
}

fn bare() -> Box<dyn Store> {
    Box::new(BareStore(MemStore::new()))
}

#[tokio::test]
async fn batches_are_checked_whole_and_keep_their_order() -> Result<()> {
    let store = bare();
    let queue = store.queue("q", QueueOpts::default()).await?;
    let job = |payload| (payload, EnqueueOpts::default());
    let refused = queue.enqueue_batch(vec![job(json!(1)), job(too_deep())]).await;
    assert!(matches!(refused, Err(Error::Codec(_))));
    assert!(queue.claim_one("w").await?.is_none());
    let ids = queue.enqueue_batch(vec![job(json!(1)), job(json!(2))]).await?;
    assert!(ids[0] < ids[1] && queue.enqueue_batch(vec![]).await?.is_empty());

    let stream = store.stream("s").await?;
    for bad in [(None, too_deep()), (Some(" ".into()), json!(1))] {
        assert!(stream.publish_batch(vec![(None, json!(1)), bad]).await.is_err());
    }
    assert!(stream.read_since(0, 9).await?.is_empty());
    let given = stream.publish_batch(vec![(None, json!(1)), (Some("k".into()), json!(2))]).await?;
    let events = stream.read_since(0, 9).await?;
    assert_eq!(events.iter().map(|event| event.offset).collect::<Vec<_>>(), given);
    Ok(())
}

#[tokio::test]
async fn batches_in_a_transaction_are_checked_whole() -> Result<()> {
    let store = bare();
    let mut tx = store.begin_tx().await?;
    let job = |payload| (payload, EnqueueOpts::default());
    assert!(tx.enqueue_batch_tx("q", vec![job(json!(1)), job(too_deep())]).await.is_err());
    assert!(tx.publish_batch_tx("s", vec![(None, json!(1)), (None, too_deep())]).await.is_err());
    let ids = tx.enqueue_batch_tx("q", vec![job(json!(1)), job(json!(2))]).await?;
    let offsets = tx.publish_batch_tx("s", vec![(None, json!(1)), (None, json!(2))]).await?;
    assert!(ids[0] < ids[1] && offsets[0] < offsets[1]);
    tx.commit().await?;
    let queue = store.queue("q", QueueOpts::default()).await?;
    assert_eq!(queue.claim_batch("w", 9).await?.len(), 2);
    assert_eq!(store.stream("s").await?.read_since(0, 9).await?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn with_tx_commits_or_rolls_back() -> Result<()> {
    let store = bare();
    for fails in [true, false] {
        let outcome = store
            .with_tx(Box::new(move |tx| {
                Box::pin(async move {
                    tx.publish_tx("s", json!(fails)).await?;
                    if fails { Err(Error::Closed) } else { Ok(()) }
                })
            }))
            .await;
        assert_eq!(outcome.is_err(), fails);
    }
    assert_eq!(store.stream("s").await?.read_since(0, 9).await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn hand_back_is_a_retry_without_delay() -> Result<()> {
    let store = bare();
    let queue = store.queue("q", QueueOpts::default()).await?;
    let id = queue.enqueue(json!(1), EnqueueOpts::default()).await?;
    assert!(queue.claim_one("w").await?.unwrap().hand_back().await?);
    let job = queue.get_job(id).await?.unwrap();
    assert_eq!((job.state, job.attempts), (JobState::Pending, 1));
    Ok(())
}

#[tokio::test]
async fn wait_ready_sleeps_briefly_and_says_yes() -> Result<()> {
    let store = bare();
    let queue = store.queue("q", QueueOpts::default()).await?;
    for timeout in [Duration::from_secs(60), Duration::from_millis(20)] {
        let start = Instant::now();
        assert!(queue.wait_ready(timeout).await?);
        assert!(start.elapsed() >= timeout.min(Duration::from_millis(250)));
        assert!(start.elapsed() < Duration::from_secs(5));
    }
    Ok(())
}
