//! Payloads: what goes in comes out, on every path, or is refused on every path.

use std::sync::Arc;

use alkstore::ext::{QueueExt, StreamExt};
use alkstore::{Error, JobHandle, Result, encode_payload};
use serde_json::{Value, json};

use crate::harness::cases;
use crate::open::{Opened, open};
use crate::{EngineStore, StoreFactory};

fn nested(levels: usize) -> Value {
    (0..levels).fold(Value::Null, |inner, _| json!([inner]))
}

fn nested_in_objects(levels: usize) -> Value {
    (0..levels).fold(Value::Null, |inner, _| json!({ "": inner }))
}

/// Values on which encodings differ.
fn values() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(0),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(9_007_199_254_740_993_i64),
        json!(0.1),
        json!(-0.0),
        json!(1.0),
        json!(5e-324),
        json!(f64::MAX),
        json!(0.100_000_000_000_000_02),
        json!(""),
        json!("\u{0}"),
        json!("a\u{0}b\\u0000\"'`\n\u{1f}\u{7f}\u{2028}"),
        json!("🦀 e\u{301} \u{feff}\u{fffd}"),
        json!([]),
        json!({}),
        json!({ "": { "": [] } }),
        json!({ "z": 1, "a": 2, "\u{0}": 3, "A": [1, "1", 1.0, null] }),
        json!({ "__proto__": 1, "$1": ":x", "k'": "v'" }),
        nested(127),
        nested_in_objects(127),
        Value::from("x".repeat(1 << 20)),
        (0..20_000).collect(),
    ]
}

/// Stores the value on every path and returns the bytes that each gives back.
async fn stored(store: &EngineStore, value: &Value) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let queue = store.queue("q", Default::default()).await?;
    let stream = store.stream("s").await?;
    let outbox = store.outbox("o").await?;
    let first = stream.publish(value.clone()).await?;
    stream.publish_with_key(Some("k".into()), value.clone()).await?;
    stream.publish_batch(vec![(None, value.clone())]).await?;
    queue.enqueue(value.clone(), Default::default()).await?;
    queue.enqueue_batch(vec![(value.clone(), Default::default())]).await?;
    outbox.enqueue(value.clone(), Default::default()).await?;
    let mut tx = store.begin_tx().await?;
    tx.publish_tx("s", value.clone()).await?;
    tx.publish_with_key_tx("s", Some("k".into()), value.clone()).await?;
    tx.publish_batch_tx("s", vec![(None, value.clone())]).await?;
    let id = tx.enqueue_tx("q", Default::default(), value.clone()).await?;
    let seen = tx.get_job_tx("q", id).await?.unwrap().payload;
    tx.enqueue_batch_tx("q", vec![(value.clone(), Default::default())]).await?;
    tx.outbox_enqueue_tx("o", Default::default(), value.clone()).await?;
    tx.commit().await?;

    let mut found = vec![("get_job_tx", seen)];
    let events = stream.read_since(first - 1, 100).await?;
    found.extend(events.into_iter().map(|event| ("stream", event.payload)));
    for job in queue.claim_batch("w", 100).await? {
        let shown = queue.get_job(job.job().id).await?.unwrap().payload;
        found.extend([("claim", job.job().payload.clone()), ("get_job", shown)]);
        assert!(job.ack().await?);
    }
    let mut delivered = Vec::new();
    let mut deliver = |job: Box<dyn JobHandle>| {
        delivered.push(("outbox", job.job().payload.clone()));
        async { Ok(()) }
    };
    while outbox.run_once("w", &mut deliver).await? {}
    found.extend(delivered);
    Ok(found)
}

/// The bytes that come back are those of `encode_payload`, on every path.
async fn payloads_round_trip_byte_for_byte(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for value in values() {
        let bytes = encode_payload(&value).unwrap();
        let found = stored(&store, &value).await.unwrap();
        assert_eq!(found.len(), 17, "{found:.100?}");
        for (path, payload) in found {
            assert!(payload == bytes, "{path}: {value:.50?}");
        }
    }
}

/// A payload decodes to the value that was given, any double included.
async fn payloads_decode_to_equal_values(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let double = |_| Value::from(f64::from_bits(random.u64(..)));
    let mut given = values();
    given.push((0..5_000).map(double).collect());
    let events = given.iter().map(|value| (None, value.clone())).collect();
    stream.publish_batch(events).await.unwrap();
    let events = stream.read_since(0, 100).await.unwrap();
    let decoded: Vec<Value> = events.iter().map(|event| event.payload_as().unwrap()).collect();
    assert!(decoded == given, "seed {seed}");
}

/// Sixteen megabytes pass on every path.
async fn large_payloads_pass(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let value = Value::from("m".repeat(16 << 20));
    let queue = store.queue("q", Default::default()).await.unwrap();
    queue.enqueue(value.clone(), Default::default()).await.unwrap();
    let stream = store.stream("s").await.unwrap();
    stream.publish(value.clone()).await.unwrap();
    let job = queue.claim_one("w").await.unwrap().unwrap();
    assert!(job.job().payload_as::<Value>().unwrap() == value);
    assert!(job.ack().await.unwrap());
    let mut events = stream.subscribe("c").await.unwrap();
    assert!(events.recv().await.unwrap().unwrap().payload_as::<Value>().unwrap() == value);
}

/// What could not be read back is `Codec` at once, on every plain path, and stores nothing.
async fn too_deep_payloads_are_refused(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let stream = store.stream("s").await.unwrap();
    let outbox = store.outbox("o").await.unwrap();
    for deep in [nested(128), nested_in_objects(128), nested(1_000)] {
        let job = || (deep.clone(), Default::default());
        for refused in [
            queue.enqueue(deep.clone(), Default::default()).await.map(drop),
            queue.enqueue_batch(vec![(json!(1), Default::default()), job()]).await.map(drop),
            stream.publish(deep.clone()).await.map(drop),
            stream.publish_with_key(Some("k".into()), deep.clone()).await.map(drop),
            stream.publish_batch(vec![(None, json!(1)), (None, deep.clone())]).await.map(drop),
            outbox.enqueue(deep.clone(), Default::default()).await.map(drop),
            store.notify("c", deep.clone()).await,
            store.schedule("x", "@every 1h", "q", deep.clone(), Default::default()).await.map(drop),
        ] {
            assert!(matches!(refused, Err(Error::Codec(_))), "{refused:?}");
        }
    }
    nothing_is_stored(&store).await;
}

/// It is `Codec` in a transaction too, which stays usable and keeps nothing of the refused calls.
async fn too_deep_payloads_are_refused_in_transactions(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let deep = nested(128);
    let mut tx = store.begin_tx().await.unwrap();
    tx.save_offset_tx("kept", "c", 1).await.unwrap();
    let job = || (deep.clone(), Default::default());
    let key = || Some("k".to_owned());
    for refused in [
        tx.enqueue_tx("q", Default::default(), deep.clone()).await.map(drop),
        tx.enqueue_batch_tx("q", vec![(json!(1), Default::default()), job()]).await.map(drop),
        tx.outbox_enqueue_tx("o", Default::default(), deep.clone()).await.map(drop),
        tx.publish_tx("s", deep.clone()).await.map(drop),
        tx.publish_with_key_tx("s", key(), deep.clone()).await.map(drop),
        tx.publish_batch_tx("s", vec![(None, json!(1)), (key(), deep.clone())]).await.map(drop),
        tx.notify_tx("c", deep.clone()).await,
    ] {
        assert!(matches!(refused, Err(Error::Codec(_))), "{refused:?}");
    }
    tx.commit().await.unwrap();
    assert_eq!(store.stream("kept").await.unwrap().get_offset("c").await.unwrap(), 1);
    nothing_is_stored(&store).await;
}

async fn nothing_is_stored(store: &Opened) {
    assert_eq!(store.queues().await.unwrap(), []);
    assert!(store.stream("s").await.unwrap().read_since(0, 9).await.unwrap().is_empty());
    assert_eq!(store.schedules().await.unwrap(), []);
}

/// A payload that does not fit the reader's type is `Codec` there, and nowhere else.
async fn undecodable_events_do_not_stop_a_consumer(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    for payload in [json!({ "n": 1 }), json!("no object"), json!({ "n": 3 })] {
        stream.publish(payload).await.unwrap();
    }
    let mut events = stream.subscribe("c").await.unwrap();
    let mut decoded = Vec::new();
    for _ in 0..3 {
        let event = events.recv().await.unwrap().unwrap();
        decoded.push(event.payload_as::<std::collections::HashMap<String, i64>>());
    }
    events.save_offset().await.unwrap();
    assert_eq!(decoded[0].as_ref().unwrap()["n"], 1);
    assert!(matches!(decoded[1], Err(Error::Codec(_))), "{:?}", decoded[1]);
    assert_eq!(decoded[2].as_ref().unwrap()["n"], 3);
    assert_eq!(stream.get_offset("c").await.unwrap(), events.offset());
}

/// A job whose payload does not fit dead-letters with `Codec`'s text; others pass.
async fn undecodable_jobs_do_not_block_their_queue(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let once = alkstore::EnqueueOpts { max_attempts: Some(1), ..Default::default() };
    let poison = queue.enqueue(json!({ "not": "a number" }), once.clone()).await.unwrap();
    let good = queue.enqueue(json!(7), once).await.unwrap();
    while let Some(job) = queue.claim_one("w").await.unwrap() {
        match job.job().payload_as::<i64>() {
            Ok(n) => assert!(n == 7 && job.ack().await.unwrap()),
            Err(error) => {
                assert!(matches!(error, Error::Codec(_)), "{error:?}");
                assert!(job.retry(Some(error.to_string()), None).await.unwrap());
            }
        }
    }
    assert!(queue.get_job(good).await.unwrap().is_none());
    let dead = queue.get_job(poison).await.unwrap().unwrap();
    assert_eq!(dead.state, alkstore::JobState::Dead);
    assert!(dead.last_error.unwrap().contains("payload"));
}

/// The typed forms encode as `serde_json` does, and are `Codec` for what it refuses.
async fn typed_payloads_encode_or_are_refused(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let stream = store.stream("s").await.unwrap();
    let pair = ("a", 1.5);
    let id = queue.enqueue_as(&pair, Default::default()).await.unwrap();
    assert_eq!(queue.get_job(id).await.unwrap().unwrap().payload, br#"["a",1.5]"#);
    stream.publish_as(&pair).await.unwrap();
    assert_eq!(stream.read_since(0, 9).await.unwrap()[0].payload, br#"["a",1.5]"#);

    let no_json = std::collections::BTreeMap::from([(vec![1], 1)]);
    let refused = queue.enqueue_as(&no_json, Default::default()).await;
    assert!(matches!(refused, Err(Error::Codec(_))), "{refused:?}");
    let refused = stream.publish_as(&no_json).await;
    assert!(matches!(refused, Err(Error::Codec(_))), "{refused:?}");
}

/// The longest ASCII string whose JSON has `bytes` bytes.
fn text_of(bytes: usize) -> Value {
    "n".repeat(bytes - 2).into()
}

/// `PayloadTooLarge` occurs exactly above the engine's limit in bytes, and never without one.
async fn payload_too_large_occurs_only_above_the_limit(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let Some(limit) = f.traits().notify_limit else {
        store.notify("c", text_of(4 << 20)).await.unwrap();
        let mut tx = store.begin_tx().await.unwrap();
        tx.notify_tx("c", text_of(4 << 20)).await.unwrap();
        return tx.commit().await.unwrap();
    };
    let mut wakes = store.listen("c").await.unwrap();
    store.notify("c", text_of(limit)).await.unwrap();
    assert_eq!(wakes.recv().await.unwrap().channel, "c");
    let wide = Value::from("é".repeat(limit / 2));
    for payload in [text_of(limit + 1), text_of(1 << 20), wide] {
        let refused = store.notify("c", payload).await;
        let told = matches!(refused, Err(Error::PayloadTooLarge { limit: told }) if told == limit);
        assert!(told, "{refused:?}");
    }
}

/// A refused notification leaves the transaction usable.
async fn payload_too_large_leaves_the_transaction_usable(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let mut wakes = store.listen("c").await.unwrap();
    let mut tx = store.begin_tx().await.unwrap();
    tx.enqueue_tx("q", Default::default(), json!(1)).await.unwrap();
    if let Some(limit) = f.traits().notify_limit {
        let refused = tx.notify_tx("c", text_of(limit + 1)).await;
        let told = matches!(refused, Err(Error::PayloadTooLarge { limit: told }) if told == limit);
        assert!(told, "{refused:?}");
        tx.notify_tx("c", text_of(limit)).await.unwrap();
    } else {
        tx.notify_tx("c", text_of(1 << 20)).await.unwrap();
    }
    tx.commit().await.unwrap();
    assert_eq!(wakes.recv().await.unwrap().channel, "c");
    let queue = store.queue("q", Default::default()).await.unwrap();
    assert!(queue.claim_one("w").await.unwrap().is_some());
}

cases!("payload":
    payloads_round_trip_byte_for_byte,
    payloads_decode_to_equal_values,
    large_payloads_pass,
    too_deep_payloads_are_refused,
    too_deep_payloads_are_refused_in_transactions,
    undecodable_events_do_not_stop_a_consumer,
    undecodable_jobs_do_not_block_their_queue,
    typed_payloads_encode_or_are_refused,
    payload_too_large_occurs_only_above_the_limit,
    payload_too_large_leaves_the_transaction_usable,
);
