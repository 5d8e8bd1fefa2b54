//! Values, options, errors, names and functions, field by field.

use std::error::Error as StdError;
use std::fmt::{Debug, Display};
use std::hash::Hash;

use alkstore::engine::database_error;
use alkstore::ext::StoreExt;
use alkstore::ops::{ConsumerInfo, LockInfo, QueueInfo, QueueKind, ScheduleInfo, StreamInfo};
use alkstore::{
    DatabaseError, EnqueueOpts, Error, Job, JobState, LISTENER_RECONNECTED, QueueOpts,
    RESERVED_PREFIX, Result, Schedule, ScheduleOpts, StopToken, Store, StreamEvent, Wake,
    encode_payload, validate_local_name, validate_shared_name,
};
use alkstore_mem::MemStore;
use serde_json::{Value, json};

fn value<T: Clone + Debug + PartialEq + Eq + Send + Sync + 'static>() {}

#[test]
fn values_are_plain() {
    value::<Job>();
    value::<JobState>();
    value::<StreamEvent>();
    value::<Schedule>();
    value::<Wake>();
    value::<EnqueueOpts>();
    value::<QueueOpts>();
    value::<ScheduleOpts>();
    value::<QueueInfo>();
    value::<StreamInfo>();
    value::<ConsumerInfo>();
    value::<LockInfo>();
    value::<ScheduleInfo>();
    value::<QueueKind>();
    fn key<T: Copy + Hash>() {}
    key::<JobState>();
    key::<QueueKind>();
}

#[test]
fn options_have_their_fields_and_defaults() {
    let enqueue = EnqueueOpts {
        delay: None::<i64>,
        run_at: None::<i64>,
        priority: 0_i64,
        max_attempts: None::<i64>,
        expires: None::<i64>,
    };
    assert_eq!(enqueue, EnqueueOpts::default());
    let queue = QueueOpts {
        visibility_timeout_s: 300_i64,
        max_attempts: 3_i64,
        backoff_base_s: 5_i64,
        dead_letter_retention_s: None::<i64>,
    };
    assert_eq!(queue, QueueOpts::default());
    let schedule =
        ScheduleOpts { priority: 0_i64, max_attempts: None::<i64>, expires: None::<i64> };
    assert_eq!(schedule, ScheduleOpts::default());
}

/// Every field with its type, under its name.
fn job_fields(job: Job) {
    let Job {
        id,
        queue,
        state,
        payload,
        priority,
        run_at,
        attempts,
        max_attempts,
        worker_id,
        claimed_at,
        claim_expires_at,
        created_at,
        expires_at,
        visibility_timeout_s,
        backoff_base_s,
        dead_letter_retention_s,
        last_error,
        died_at,
        ..
    } = job;
    let _: [i64; 5] = [id, priority, run_at, attempts, max_attempts];
    let _: [i64; 3] = [created_at, visibility_timeout_s, backoff_base_s];
    let _: [Option<i64>; 3] = [claimed_at, claim_expires_at, expires_at];
    let _: [Option<i64>; 2] = [dead_letter_retention_s, died_at];
    let _: (String, Option<String>, Option<String>) = (queue, worker_id, last_error);
    let _: Vec<u8> = payload;
    match state {
        JobState::Pending | JobState::Processing | JobState::Dead => {}
        _ => panic!("another state"),
    }
}

#[tokio::test]
async fn read_values_have_their_fields() -> Result<()> {
    let store = MemStore::new();
    let queue = store.queue("q", QueueOpts::default()).await?;
    let id = queue.enqueue(json!([7]), EnqueueOpts::default()).await?;
    let job = queue.get_job(id).await?.unwrap();
    assert_eq!(job.payload_as::<Vec<i64>>()?, [7]);
    job_fields(job);

    let stream = store.stream("s").await?;
    stream.publish_with_key(Some("k".into()), json!([8])).await?;
    let event = stream.read_since(0, 1).await?.remove(0);
    assert_eq!(event.payload_as::<Vec<i64>>()?, [8]);
    let StreamEvent { offset, stream, key, payload, created_at, .. } = event;
    let _: (i64, String, Option<String>, Vec<u8>, i64) = (offset, stream, key, payload, created_at);

    let mut wakes = store.listen("c").await?;
    store.notify("c", json!(1)).await?;
    let Wake { channel, .. } = wakes.recv().await.unwrap();
    assert_eq!(channel, String::from("c"));

    let opts = ScheduleOpts { priority: 4, ..Default::default() };
    let schedule = store.schedule("n", "@every 1h", "q", json!(1), opts.clone()).await?;
    let Schedule { name, spec, queue, opts: kept, .. } = schedule;
    assert_eq!((&*name, &*spec, &*queue, kept), ("n", "@every 1h", "q", opts));
    Ok(())
}

#[test]
fn errors_have_their_variants() {
    fn error<T: StdError + Display + Debug + Send + Sync + 'static>() {}
    error::<Error>();
    error::<DatabaseError>();
    let name = String::from("x");
    let codec = serde_json::from_str::<Value>("{").unwrap_err();
    let all = [
        Error::PayloadTooLarge { limit: 8_000_usize },
        Error::ReservedName { name: name.clone() },
        Error::InvalidName { name: name.clone() },
        Error::InvalidSpec { spec: name },
        Error::LeadershipLost,
        Error::Closed,
        Error::Codec(codec),
        database_error("disk gone", true),
    ];
    for error in all {
        assert!(!error.to_string().is_empty());
        assert_eq!(error.is_transient(), matches!(error, Error::Database(_)));
        match error {
            Error::PayloadTooLarge { limit } => assert_eq!(limit, 8_000),
            Error::ReservedName { name } | Error::InvalidName { name } => assert_eq!(name, "x"),
            Error::InvalidSpec { spec } => assert_eq!(spec, "x"),
            Error::LeadershipLost | Error::Closed => {}
            Error::Codec(source) => assert!(source.is_eof()),
            Error::Database(error) => {
                assert_eq!(error.source().unwrap().to_string(), "disk gone");
            }
            _ => panic!("another variant"),
        }
    }
    let _: Result<(), Error> = Err(serde_json::from_str::<Value>("").unwrap_err().into());
}

#[test]
fn a_codec_errors_cause_is_its_source() {
    let error = encode_payload(&(0..200).fold(json!(1), |inner, _| json!([inner]))).unwrap_err();
    assert!(matches!(error, Error::Codec(_)));
    assert!(error.source().unwrap().to_string().contains("127"));
}

#[test]
fn functions_and_constants_have_their_types() {
    let _: fn(&Value) -> Result<Vec<u8>> = encode_payload;
    let _: fn(&str) -> Result<()> = validate_shared_name;
    let _: fn(&str) -> Result<()> = validate_local_name;
    let names: [&'static str; 2] = [RESERVED_PREFIX, LISTENER_RECONNECTED];
    assert_eq!(names, ["__alkstore_", "__alkstore_listener_reconnected__"]);
}

#[tokio::test]
async fn a_stop_token_is_one_for_all_its_clones() {
    fn shared<T: Clone + Debug + Default + Send + Sync + 'static>() {}
    shared::<StopToken>();
    let stop: StopToken = StopToken::new();
    let clone = stop.clone();
    let waiting = tokio::spawn(async move { clone.cancelled().await });
    assert!(!stop.is_cancelled());
    let () = stop.cancel();
    waiting.await.unwrap();
    assert!(stop.is_cancelled() && stop.clone().is_cancelled());
    stop.cancelled().await;
}

#[tokio::test]
async fn a_transaction_handle_is_any() -> Result<()> {
    let store = MemStore::new();
    let tx = store.begin_tx().await?;
    let any: Box<dyn std::any::Any> = tx;
    assert!(!any.is::<String>());
    store
        .transaction(async |tx: &mut alkstore::ext::Tx| {
            assert!(tx.downcast_mut::<super::bare::BareTx>().is_none());
            Ok(())
        })
        .await
}
