//! Every method with its types written out, through trait objects, in a spawned task.

use std::sync::Arc;
use std::time::Duration;

use alkstore::ops::{
    ConsumerInfo, Inspect, LockInfo, Operate, QueueInfo, ScheduleInfo, StreamInfo,
};
use alkstore::{
    BoxedFuture, Delivery, EnqueueOpts, EventReceiver, Job, JobHandle, JobState, Lock, Outbox,
    Queue, QueueOpts, Result, Schedule, ScheduleOpts, StopToken, Store, StreamEvent, StreamHandle,
    TxFn, TxHandle, Wake, WakeReceiver, async_trait,
};
use alkstore_mem::MemStore;
use serde_json::{Value, json};

#[test]
fn traits_are_objects_with_their_bounds() {
    fn send<T: Send + ?Sized>() {}
    fn sync<T: Sync + ?Sized>() {}
    send::<Box<dyn Store>>();
    sync::<Arc<dyn Store>>();
    send::<Box<dyn TxHandle>>();
    send::<Box<dyn Queue>>();
    sync::<Box<dyn Queue>>();
    send::<Box<dyn JobHandle>>();
    sync::<Box<dyn JobHandle>>();
    send::<Box<dyn StreamHandle>>();
    sync::<Box<dyn StreamHandle>>();
    send::<Box<dyn EventReceiver>>();
    send::<Box<dyn WakeReceiver>>();
    send::<Box<dyn Outbox>>();
    sync::<Box<dyn Outbox>>();
    send::<Box<dyn Delivery>>();
    send::<Box<dyn Lock>>();
    sync::<Box<dyn Lock>>();
    sync::<Box<dyn Inspect>>();
    sync::<Box<dyn Operate>>();
    send::<TxFn<'static>>();
    send::<BoxedFuture<'static, Result<()>>>();
}

async fn in_a_task<F>(f: F)
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let outcome = tokio::spawn(f).await;
    assert!(matches!(outcome, Ok(Ok(()))), "{outcome:?}");
}

fn boxed() -> Box<dyn Store> {
    Box::new(MemStore::new())
}

#[tokio::test]
async fn store() {
    in_a_task(async {
        let store = boxed();
        let _: Box<dyn TxHandle> = store.begin_tx().await?;
        let nothing: TxFn<'_> = Box::new(|_: &mut dyn TxHandle| Box::pin(async { Ok(()) }));
        let () = store.with_tx(nothing).await?;
        let () = store.notify("c", Value::Null).await?;
        let _: Box<dyn WakeReceiver> = store.listen("c").await?;
        let _: Box<dyn StreamHandle> = store.stream("s").await?;
        let _: Box<dyn Queue> = store.queue("q", QueueOpts::default()).await?;
        let _: Box<dyn Outbox> = store.outbox("o").await?;
        let _: Option<Box<dyn Lock>> = store.try_lock("l", "me", 9_i64).await?;
        let opts = ScheduleOpts::default();
        let _: Schedule = store.schedule("n", "@every 1h", "q", Value::Null, opts).await?;
        let _: bool = store.unschedule("n").await?;
        let stop = StopToken::new();
        stop.cancel();
        let () = store.run_schedules(stop).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn with_tx_borrows_from_its_caller() {
    let store = boxed();
    let name = String::from("q");
    let count = std::sync::atomic::AtomicI64::new(0);
    let inside: TxFn<'_> = Box::new(|tx| {
        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let name = name.clone();
        Box::pin(async move { tx.enqueue_tx(&name, Default::default(), json!(1)).await.map(drop) })
    });
    store.with_tx(inside).await.unwrap();
    assert_eq!(count.into_inner(), 1);
}

#[tokio::test]
async fn tx_handle() {
    in_a_task(async {
        let store = boxed();
        let mut tx: Box<dyn TxHandle> = store.begin_tx().await?;
        let key = || Some(String::from("k"));
        let opts = EnqueueOpts::default;
        let id: i64 = tx.enqueue_tx("q", opts(), Value::Null).await?;
        let _: i64 = tx.publish_tx("s", Value::Null).await?;
        let _: i64 = tx.publish_with_key_tx("s", key(), Value::Null).await?;
        let () = tx.notify_tx("c", Value::Null).await?;
        let () = tx.save_offset_tx("s", "me", 1_i64).await?;
        let _: Option<Job> = tx.get_job_tx("q", id).await?;
        let _: i64 = tx.get_offset_tx("s", "me").await?;
        let _: Vec<StreamEvent> = tx.read_since_tx("s", 0_i64, 9_i64).await?;
        let _: Vec<StreamEvent> = tx.read_from_consumer_tx("s", "me", 9_i64).await?;
        let _: i64 = tx.outbox_enqueue_tx("o", opts(), Value::Null).await?;
        let jobs: Vec<(Value, EnqueueOpts)> = vec![(Value::Null, opts())];
        let _: Vec<i64> = tx.enqueue_batch_tx("q", jobs).await?;
        let events: Vec<(Option<String>, Value)> = vec![(key(), Value::Null)];
        let _: Vec<i64> = tx.publish_batch_tx("s", events).await?;
        let () = tx.commit().await?;
        let () = store.begin_tx().await?.rollback().await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn queue_and_job_handle() {
    in_a_task(async {
        let store = boxed();
        let queue: Box<dyn Queue> = store.queue("q", QueueOpts::default()).await?;
        let _: &str = queue.name();
        let id: i64 = queue.enqueue(Value::Null, EnqueueOpts::default()).await?;
        let job: Option<Box<dyn JobHandle>> = queue.claim_one("w").await?;
        let job = job.unwrap();
        let _: &Job = job.job();
        let _: bool = job.heartbeat(60_i64).await?;
        let _: bool = job.retry(Some(String::from("e")), Some(0_i64)).await?;
        let mut jobs: Vec<Box<dyn JobHandle>> = queue.claim_batch("w", 9_i64).await?;
        let _: bool = jobs.remove(0).hand_back().await?;
        let _: bool = queue.claim_one("w").await?.unwrap().fail(Some(String::new())).await?;
        let _: i64 = queue.ack_batch(&[id]).await?;
        let _: bool = queue.cancel(id).await?;
        let _: Option<Job> = queue.get_job(id).await?;
        let _: i64 = queue.sweep_expired().await?;
        let jobs: Vec<(Value, EnqueueOpts)> = vec![(Value::Null, EnqueueOpts::default())];
        let _: Vec<i64> = queue.enqueue_batch(jobs).await?;
        let _: bool = queue.wait_ready(Duration::from_secs(1)).await?;
        let _: bool = queue.claim_one("w").await?.unwrap().ack().await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn stream_and_receiver() {
    in_a_task(async {
        let store = boxed();
        let stream: Box<dyn StreamHandle> = store.stream("s").await?;
        let _: &str = stream.name();
        let _: i64 = stream.publish(Value::Null).await?;
        let _: i64 = stream.publish_with_key(Some(String::from("k")), Value::Null).await?;
        let events: Vec<(Option<String>, Value)> = vec![(None, Value::Null)];
        let _: Vec<i64> = stream.publish_batch(events).await?;
        let _: Vec<StreamEvent> = stream.read_since(0_i64, 9_i64).await?;
        let _: Vec<StreamEvent> = stream.read_from_consumer("me", 9_i64).await?;
        let () = stream.save_offset("me", 0_i64).await?;
        let _: i64 = stream.get_offset("me").await?;
        let mut events: Box<dyn EventReceiver> = stream.subscribe("me").await?;
        let _: i64 = events.offset();
        let _: Option<Result<StreamEvent>> = events.recv().await;
        let _: Result<Option<StreamEvent>> = events.try_recv();
        let _: Vec<StreamEvent> = events.read_since(0_i64, 9_i64).await?;
        let () = events.save_offset().await?;
        let _: i64 = stream.trim_to(0_i64).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn wake_receiver() {
    in_a_task(async {
        let store = boxed();
        let mut wakes: Box<dyn WakeReceiver> = store.listen("c").await?;
        let _: Option<Wake> = wakes.try_recv()?;
        let _: Option<Wake> = wakes.recv_timeout(Duration::ZERO).await?;
        store.notify("c", Value::Null).await?;
        let _: Option<Wake> = wakes.recv().await;
        Ok(())
    })
    .await
}

struct Courier(Vec<i64>);

#[async_trait]
impl Delivery for Courier {
    async fn deliver(&mut self, job: Box<dyn JobHandle>) -> Result<()> {
        self.0.push(job.job().id);
        Ok(())
    }
}

#[tokio::test]
async fn outbox_and_delivery() {
    in_a_task(async {
        let store = boxed();
        let outbox: Box<dyn Outbox> = store.outbox("o").await?;
        let _: &str = outbox.name();
        let id: i64 = outbox.enqueue(Value::Null, EnqueueOpts::default()).await?;
        let mut courier = Courier(Vec::new());
        let _: bool = outbox.run_once("w", &mut courier).await?;
        assert_eq!(courier.0, [id]);
        outbox.enqueue(Value::Null, EnqueueOpts::default()).await?;
        let mut ids = Vec::new();
        let mut closure = |job: Box<dyn JobHandle>| {
            ids.push(job.job().id);
            async move { job.ack().await.map(drop) }
        };
        let delivery: &mut dyn Delivery = &mut closure;
        let _: bool = outbox.run_once("w", delivery).await?;
        assert_eq!(ids.len(), 1);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn lock() {
    in_a_task(async {
        let store = boxed();
        let lock: Box<dyn Lock> = store.try_lock("l", "me", 9).await?.unwrap();
        let _: &str = lock.name();
        let _: i64 = lock.fencing_token();
        let _: bool = lock.renew(9_i64).await?;
        let _: bool = lock.release().await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn operator_surface() {
    in_a_task(async {
        let store = Arc::new(MemStore::new());
        let (inspect, operate): (Arc<dyn Inspect>, Arc<dyn Operate>) = (store.clone(), store);
        let _: Vec<QueueInfo> = inspect.queues().await?;
        let state: Option<JobState> = Some(JobState::Dead);
        let _: Vec<Job> = inspect.jobs("q", state, Some(0_i64), 9_i64).await?;
        let _: Vec<StreamInfo> = inspect.streams().await?;
        let _: Vec<ConsumerInfo> = inspect.consumers("s").await?;
        let _: Vec<LockInfo> = inspect.locks().await?;
        let _: Vec<ScheduleInfo> = inspect.schedules().await?;
        let _: Vec<i64> = operate.redrive("q", &[1_i64]).await?;
        let _: i64 = operate.discard("q", &[1_i64]).await?;
        let _: i64 = operate.retry_now("q", &[1_i64]).await?;
        let () = operate.set_offset("s", "me", 1_i64).await?;
        let _: bool = operate.forget_consumer("s", "me").await?;
        let _: bool = operate.release_lock("l").await?;
        Ok(())
    })
    .await
}
