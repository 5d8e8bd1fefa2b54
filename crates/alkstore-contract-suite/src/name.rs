//! Names: what is refused on every path, and what must work for every kind.

use std::sync::Arc;
use std::time::Duration;

use alkstore::{EnqueueOpts, Error, JobHandle, LISTENER_RECONNECTED, Result, TxHandle};
use serde_json::json;

use crate::harness::cases;
use crate::open::{Opened, open};
use crate::{EngineStore, StoreFactory};

type Outcomes = Vec<(&'static str, Result<()>)>;

/// Calls every plain entry point that takes a shared name.
async fn plain(store: &EngineStore, name: &str) -> Outcomes {
    let spec = "@every 1h";
    vec![
        ("notify", store.notify(name, json!(1)).await),
        ("listen", store.listen(name).await.map(drop)),
        ("stream", store.stream(name).await.map(drop)),
        ("queue", store.queue(name, Default::default()).await.map(drop)),
        ("outbox", store.outbox(name).await.map(drop)),
        ("try_lock", store.try_lock(name, "o", 9).await.map(drop)),
        ("schedule", store.schedule(name, spec, "q", json!(1), Default::default()).await.map(drop)),
        (
            "its queue",
            store.schedule("s", spec, name, json!(1), Default::default()).await.map(drop),
        ),
        ("unschedule", store.unschedule(name).await.map(drop)),
    ]
}

/// Calls every transactional entry point with a shared name.
async fn transactional(tx: &mut dyn TxHandle, name: &str) -> Outcomes {
    let opts = EnqueueOpts::default;
    let key = || Some("k".to_owned());
    vec![
        ("enqueue_tx", tx.enqueue_tx(name, opts(), json!(1)).await.map(drop)),
        ("publish_tx", tx.publish_tx(name, json!(1)).await.map(drop)),
        ("keyed", tx.publish_with_key_tx(name, key(), json!(1)).await.map(drop)),
        ("notify_tx", tx.notify_tx(name, json!(1)).await),
        ("save_offset_tx", tx.save_offset_tx(name, "c", 1).await),
        ("get_job_tx", tx.get_job_tx(name, 1).await.map(drop)),
        ("get_offset_tx", tx.get_offset_tx(name, "c").await.map(drop)),
        ("read_since_tx", tx.read_since_tx(name, 0, 1).await.map(drop)),
        ("read_from_consumer_tx", tx.read_from_consumer_tx(name, "c", 1).await.map(drop)),
        ("outbox_enqueue_tx", tx.outbox_enqueue_tx(name, opts(), json!(1)).await.map(drop)),
        ("enqueue_batch_tx", tx.enqueue_batch_tx(name, vec![(json!(1), opts())]).await.map(drop)),
        ("publish_batch_tx", tx.publish_batch_tx(name, vec![(key(), json!(1))]).await.map(drop)),
    ]
}

/// Calls every plain entry point that takes a consumer, owner, worker id or key.
async fn local(store: &EngineStore, name: &str) -> Outcomes {
    let stream = store.stream("local").await.unwrap();
    let queue = store.queue("local", Default::default()).await.unwrap();
    let outbox = store.outbox("local").await.unwrap();
    let mut deliver = |_: Box<dyn JobHandle>| async { Ok(()) };
    let key = || Some(name.to_owned());
    vec![
        ("read_from_consumer", stream.read_from_consumer(name, 1).await.map(drop)),
        ("save_offset", stream.save_offset(name, 1).await),
        ("get_offset", stream.get_offset(name).await.map(drop)),
        ("subscribe", stream.subscribe(name).await.map(drop)),
        ("publish_with_key", stream.publish_with_key(key(), json!(1)).await.map(drop)),
        ("publish_batch", stream.publish_batch(vec![(key(), json!(1))]).await.map(drop)),
        ("try_lock", store.try_lock("local", name, 9).await.map(drop)),
        ("claim_one", queue.claim_one(name).await.map(drop)),
        ("claim_batch", queue.claim_batch(name, 1).await.map(drop)),
        ("run_once", outbox.run_once(name, &mut deliver).await.map(drop)),
    ]
}

/// Calls every transactional entry point that takes a consumer or a key.
async fn local_transactional(tx: &mut dyn TxHandle, name: &str) -> Outcomes {
    let key = || Some(name.to_owned());
    vec![
        ("save_offset_tx", tx.save_offset_tx("local", name, 1).await),
        ("get_offset_tx", tx.get_offset_tx("local", name).await.map(drop)),
        ("read_from_consumer_tx", tx.read_from_consumer_tx("local", name, 1).await.map(drop)),
        ("keyed", tx.publish_with_key_tx("local", key(), json!(1)).await.map(drop)),
        ("batch", tx.publish_batch_tx("local", vec![(key(), json!(1))]).await.map(drop)),
    ]
}

/// Empty, white space only, with a NUL, and one byte too long.
fn invalid() -> Vec<String> {
    let long = "x".repeat(1025);
    let wide = format!("{}é", "x".repeat(1023));
    let blank = ["", " ", "\t\r\n", "\u{a0}\u{3000}", "\0", "a\0", "\0a"];
    blank.into_iter().map(str::to_owned).chain([long, wide]).collect()
}

fn reserved() -> [String; 5] {
    [
        "__alkstore_".into(),
        "__alkstore_x".into(),
        "__alkstore_outbox:x".into(),
        "__alkstore_scheduler".into(),
        LISTENER_RECONNECTED.into(),
    ]
}

/// Names that only a careless engine trips over.
fn hostile() -> Vec<String> {
    let names = [
        "it's",
        "a\"b",
        "`x`",
        "'; DROP TABLE job; --",
        "$1",
        ":name",
        "?1",
        "%s%n",
        "a%b_c",
        "\\",
        "a\nb\tc",
        "\u{1b}[31m",
        "🦀",
        "e\u{301}",
        "é",
        "É",
        " a ",
        "a",
        "A",
        "a ",
        "a.b/c:d",
        "NULL",
        "0",
        "-1",
        "_alkstore_x",
        "__alkstore",
        "__ALKSTORE_X",
        " __alkstore_x",
        "\u{feff}",
        "\u{202e}abc",
        "\u{7f}",
        "*",
        "alkstore.job",
        "outbox:a",
        "queue:a",
    ];
    names.into_iter().map(str::to_owned).collect()
}

fn refused_as_invalid(outcomes: Outcomes, name: &str) {
    for (call, outcome) in outcomes {
        let told = matches!(&outcome, Err(Error::InvalidName { name: told }) if told == name);
        assert!(told, "{call} with {name:.20?}: {outcome:?}");
    }
}

fn refused_as_reserved(outcomes: Outcomes, name: &str) {
    for (call, outcome) in outcomes {
        let told = matches!(&outcome, Err(Error::ReservedName { name: told }) if told == name);
        assert!(told, "{call} with {name:?}: {outcome:?}");
    }
}

fn accepted(outcomes: Outcomes, name: &str) {
    for (call, outcome) in outcomes {
        assert!(outcome.is_ok(), "{call} with {name:.20?}: {outcome:?}");
    }
}

/// Blank names, names with a NUL and names over 1,024 bytes are refused on every plain path.
async fn invalid_names_are_refused_on_plain_paths(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for name in invalid() {
        refused_as_invalid(plain(&store, &name).await, &name);
        refused_as_invalid(local(&store, &name).await, &name);
    }
    assert!(store.schedules().await.unwrap().is_empty(), "a refused call left something behind");
    assert!(store.locks().await.unwrap().is_empty(), "a refused call left something behind");
}

/// They are refused in a transaction alike.
async fn invalid_names_are_refused_on_tx_paths(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let mut tx = store.begin_tx().await.unwrap();
    for name in invalid() {
        refused_as_invalid(transactional(&mut *tx, &name).await, &name);
        refused_as_invalid(local_transactional(&mut *tx, &name).await, &name);
    }
}

/// The reserved prefix is refused on every plain path that takes a shared name.
async fn reserved_names_are_refused_on_plain_paths(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for name in reserved() {
        refused_as_reserved(plain(&store, &name).await, &name);
    }
}

/// The reserved prefix is refused on every transactional path that takes a shared name.
async fn reserved_names_are_refused_on_tx_paths(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let mut tx = store.begin_tx().await.unwrap();
    for name in reserved() {
        refused_as_reserved(transactional(&mut *tx, &name).await, &name);
    }
}

/// Consumers, owners, worker ids and keys know no reserved prefix.
async fn local_names_may_carry_the_reserved_prefix(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for name in reserved() {
        accepted(local(&store, &name).await, &name);
        let held = store.try_lock("local", &name, 9).await.unwrap().unwrap();
        assert!(held.release().await.unwrap());
    }
    let mut tx = store.begin_tx().await.unwrap();
    for name in reserved() {
        accepted(local_transactional(&mut *tx, &name).await, &name);
    }
    tx.commit().await.unwrap();
}

/// A schedule cannot target a reserved queue, and a refused one changes nothing that is there.
async fn schedule_validates_its_queue_argument(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    store.schedule("s", "@every 1h", "good", json!(1), Default::default()).await.unwrap();
    let before = store.schedules().await.unwrap();
    for queue in reserved().iter().chain(&invalid()) {
        let refused = store.schedule("s", "@every 2h", queue, json!(2), Default::default()).await;
        let typed = matches!(refused, Err(Error::ReservedName { .. } | Error::InvalidName { .. }));
        assert!(typed, "{queue:.20?}");
    }
    assert_eq!(store.schedules().await.unwrap(), before);
}

/// Names of 1,024 bytes work for every kind.
async fn names_of_1024_bytes_work(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for name in ["x".repeat(1024), "é".repeat(512), "🦀".repeat(256)] {
        accepted(plain(&store, &name).await, &name);
        accepted(local(&store, &name).await, &name);
        let mut tx = store.begin_tx().await.unwrap();
        accepted(transactional(&mut *tx, &name).await, &name);
        accepted(local_transactional(&mut *tx, &name).await, &name);
        tx.commit().await.unwrap();
    }
}

/// Every other text is a name, on plain and transactional paths.
async fn hostile_names_are_just_names(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for name in hostile() {
        accepted(plain(&store, &name).await, &name);
        let mut tx = store.begin_tx().await.unwrap();
        accepted(transactional(&mut *tx, &name).await, &name);
        accepted(local_transactional(&mut *tx, &name).await, &name);
        tx.commit().await.unwrap();
    }
}

/// Handles, values and listings show names exactly as they were given.
async fn names_are_shown_as_given(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for name in hostile() {
        let queue = store.queue(&name, Default::default()).await.unwrap();
        let id = queue.enqueue(json!(1), Default::default()).await.unwrap();
        let job = queue.claim_one(&name).await.unwrap().unwrap();
        assert_eq!((queue.name(), &job.job().queue), (&*name, &name));
        assert_eq!((job.job().id, job.job().worker_id.as_deref()), (id, Some(&*name)));
        let stream = store.stream(&name).await.unwrap();
        stream.publish_with_key(Some(name.clone()), json!(1)).await.unwrap();
        let event = stream.read_since(0, 1).await.unwrap().remove(0);
        assert_eq!((stream.name(), &event.stream, event.key), (&*name, &name, Some(name.clone())));
        assert_eq!(store.outbox(&name).await.unwrap().name(), name);
        let lock = store.try_lock(&name, &name, 60).await.unwrap().unwrap();
        assert_eq!(lock.name(), name);
        let kept = store.schedule(&name, "@every 1h", &name, json!(1), Default::default()).await;
        let kept = kept.unwrap();
        assert_eq!((&kept.name, &kept.queue), (&name, &name));
    }
    let mut names = hostile();
    names.sort();
    let locks = store.locks().await.unwrap();
    assert_eq!(locks.iter().map(|lock| lock.name.clone()).collect::<Vec<_>>(), names);
    assert!(locks.iter().all(|lock| lock.owner == lock.name));
}

/// Pairs of names that are easily taken for one.
fn twins() -> Vec<(String, String)> {
    let long = "n".repeat(63);
    let longest = "n".repeat(1023);
    vec![
        (format!("{long}1"), format!("{long}2")),
        (format!("{longest}1"), format!("{longest}2")),
        (long.clone(), format!("{long}1")),
        ("a".into(), "A".into()),
        ("a".into(), " a".into()),
        ("a".into(), "a ".into()),
        ("é".into(), "e\u{301}".into()),
        ("a_b".into(), "axb".into()),
        ("a%".into(), "ab".into()),
    ]
}

async fn another_name_shows_nothing(store: &Opened, used: &str, other: &str) {
    let queue = store.queue(used, Default::default()).await.unwrap();
    let id = queue.enqueue(json!(1), Default::default()).await.unwrap();
    let stream = store.stream(used).await.unwrap();
    let offset = stream.publish(json!(1)).await.unwrap();
    stream.save_offset(used, offset).await.unwrap();
    let outbox = store.outbox(used).await.unwrap();
    outbox.enqueue(json!(1), Default::default()).await.unwrap();
    let lock = store.try_lock(used, "o", 60).await.unwrap().unwrap();

    let queue = store.queue(other, Default::default()).await.unwrap();
    assert!(queue.get_job(id).await.unwrap().is_none(), "{other}");
    assert!(queue.claim_one("w").await.unwrap().is_none(), "{other}");
    let twin = store.stream(other).await.unwrap();
    assert!(twin.read_since(0, 9).await.unwrap().is_empty(), "{other}");
    assert_eq!(twin.get_offset(used).await.unwrap(), 0, "{other}");
    assert_eq!(stream.get_offset(other).await.unwrap(), 0, "{other}");
    let mut deliver = |_: Box<dyn JobHandle>| async { Ok(()) };
    let outbox = store.outbox(other).await.unwrap();
    assert!(!outbox.run_once("w", &mut deliver).await.unwrap(), "{other}");
    let twin = store.try_lock(other, "p", 60).await.unwrap().unwrap();
    assert!(twin.release().await.unwrap() && lock.release().await.unwrap(), "{other}");
}

/// Names that differ anywhere, after byte 63 too, are distinct for every kind.
async fn names_that_look_alike_are_distinct(f: Arc<dyn StoreFactory>) {
    for (one, other) in twins() {
        let store = open(&f).await;
        another_name_shows_nothing(&store, &one, &other).await;
        let store = open(&f).await;
        another_name_shows_nothing(&store, &other, &one).await;
    }
}

/// Wakes of channels whose names look alike go to their own listeners only.
async fn wakes_keep_names_that_look_alike_apart(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let notifier = store.another().await;
    for (one, other) in twins() {
        let mut ours = store.listen(&one).await.unwrap();
        let mut theirs = store.listen(&other).await.unwrap();
        notifier.notify(&one, json!(1)).await.unwrap();
        assert_eq!(ours.recv().await.unwrap().channel, one);
        let quiet = theirs.recv_timeout(Duration::from_millis(20)).await.unwrap();
        assert_eq!(quiet, None, "{one:.70} woke {other:.70}");
    }
}

/// A call that is refused for its name leaves the transaction fully usable.
async fn refused_names_leave_the_transaction_usable(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let mut tx = store.begin_tx().await.unwrap();
    let first = tx.enqueue_tx("q", Default::default(), json!(1)).await.unwrap();
    for name in invalid().iter().chain(&reserved()) {
        for (call, outcome) in transactional(&mut *tx, name).await {
            assert!(outcome.is_err(), "{call} with {name:.20?}");
        }
    }
    let second = tx.enqueue_tx("q", Default::default(), json!(2)).await.unwrap();
    tx.publish_tx("s", json!(1)).await.unwrap();
    tx.commit().await.unwrap();
    let queue = store.queue("q", Default::default()).await.unwrap();
    assert!(queue.get_job(first).await.unwrap().is_some());
    assert!(queue.get_job(second).await.unwrap().is_some());
    assert_eq!(store.stream("s").await.unwrap().read_since(0, 9).await.unwrap().len(), 1);
}

/// Names are checked in the order of the arguments, then numbers, then payloads.
async fn names_are_checked_before_all_else(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let reserved = "__alkstore_x";
    let too_deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let refused = store.try_lock(reserved, "", 0).await.map(drop);
    assert!(matches!(refused, Err(Error::ReservedName { .. })), "{refused:?}");
    let refused = store.try_lock("l", "", 0).await.map(drop);
    assert!(matches!(refused, Err(Error::InvalidName { .. })), "{refused:?}");
    let refused = store.notify(reserved, too_deep.clone()).await;
    assert!(matches!(refused, Err(Error::ReservedName { .. })), "{refused:?}");
    let stream = store.stream("s").await.unwrap();
    let refused = stream.publish_with_key(Some(" ".into()), too_deep.clone()).await;
    assert!(matches!(refused, Err(Error::InvalidName { .. })), "{refused:?}");
    let queue = store.queue("q", Default::default()).await.unwrap();
    let refused = queue.claim_batch("", 0).await.map(drop);
    assert!(matches!(refused, Err(Error::InvalidName { .. })), "{refused:?}");
    let refused = stream.read_from_consumer("", -1).await;
    assert!(matches!(refused, Err(Error::InvalidName { .. })), "{refused:?}");
    let mut tx = store.begin_tx().await.unwrap();
    let refused = tx.enqueue_tx(reserved, Default::default(), too_deep).await;
    assert!(matches!(refused, Err(Error::ReservedName { .. })), "{refused:?}");
}

cases!("name":
    invalid_names_are_refused_on_plain_paths,
    invalid_names_are_refused_on_tx_paths,
    reserved_names_are_refused_on_plain_paths,
    reserved_names_are_refused_on_tx_paths,
    local_names_may_carry_the_reserved_prefix,
    schedule_validates_its_queue_argument,
    names_of_1024_bytes_work,
    hostile_names_are_just_names,
    names_are_shown_as_given,
    names_that_look_alike_are_distinct,
    wakes_keep_names_that_look_alike_apart,
    refused_names_leave_the_transaction_usable,
    names_are_checked_before_all_else,
);
