//! Receivers of open stores wake after the commit: in this process and from others.

use std::time::Duration;

use alkstore::{QueueOpts, Store};
use alkstore_testkit::{Parent, TempDb, roles};
use rusqlite::Connection;

use crate::{SOON, attached, count, database, events, get, jobs, open, soon};

/// Long enough for a wake that must not come.
const QUIET: Duration = Duration::from_millis(50);

#[tokio::test(flavor = "multi_thread")]
async fn receivers_wake_after_the_commit_and_not_before() {
    let (_path, store, db) = database();
    let mut wakes = store.listen("c").await.unwrap();
    let mut others = store.listen("d").await.unwrap();
    let mut events = store.stream("s").await.unwrap().subscribe("r").await.unwrap();
    let queue = store.queue("q", QueueOpts::default()).await.unwrap();
    let outbox = store.outbox("o").await.unwrap();
    assert!(!queue.wait_ready(Duration::ZERO).await.unwrap());
    for round in 1..=3 {
        let waiting = tokio::spawn({
            let queue = store.queue("q", QueueOpts::default()).await.unwrap();
            async move { queue.wait_ready(SOON).await }
        });
        db.execute_batch(
            "BEGIN;
             SELECT alkstore_enqueue('q', '1');
             SELECT alkstore_outbox_enqueue('o', '1');
             SELECT alkstore_publish('s', '1');
             SELECT alkstore_notify('c');
             SELECT alkstore_notify('c', '{}');",
        )
        .unwrap();
        assert!(wakes.recv_timeout(QUIET).await.unwrap().is_none());
        assert!(events.try_recv().unwrap().is_none());
        assert!(!waiting.is_finished());
        db.execute_batch("COMMIT").unwrap();
        assert!(wakes.recv_timeout(SOON).await.unwrap().is_some());
        assert_eq!(soon(events.recv()).await.unwrap().unwrap().offset, round);
        assert!(soon(waiting).await.unwrap().unwrap());
        let job = queue.claim_one("w").await.unwrap().unwrap();
        assert!(job.ack().await.unwrap());
        let delivered = outbox.run_once("w", &mut |_| async { Ok(()) }).await;
        assert!(delivered.unwrap());
    }
    db.execute_batch("BEGIN; SELECT alkstore_notify('c'); ROLLBACK").unwrap();
    assert!(others.try_recv().unwrap().is_none());
    while wakes.try_recv().unwrap().is_some() {}
    assert!(wakes.recv_timeout(QUIET).await.unwrap().is_none());
}

/// Writes for each line that it hears, and says when it has committed; or is killed before.
fn writer(parent: Parent) {
    let db = attached(&parent.args()[0]);
    parent.tell("ready");
    loop {
        let wanted = parent.hear();
        db.execute_batch(
            "BEGIN;
             INSERT INTO business (note) VALUES ('child');
             SELECT alkstore_enqueue('q', '1');
             SELECT alkstore_publish('s', '1');
             SELECT alkstore_notify('c');",
        )
        .unwrap();
        if wanted == "hang" {
            parent.tell("inside");
            let _ = parent.hear();
        }
        db.execute_batch("COMMIT").unwrap();
        parent.tell("committed");
    }
}

#[test]
fn another_process_writes_and_wakes() {
    let roles = roles! { writer };
    let (path, store, db) = database();
    let mut child = roles.spawn("writer", &[&path]);
    assert_eq!(child.hear(SOON), "ready");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut wakes = store.listen("c").await.unwrap();
        let mut received = store.stream("s").await.unwrap().subscribe("r").await.unwrap();
        let queue = store.queue("q", QueueOpts::default()).await.unwrap();
        for _ in 0..3 {
            child.tell("commit");
            assert!(wakes.recv_timeout(SOON).await.unwrap().is_some());
            soon(received.recv()).await.unwrap().unwrap();
            assert!(queue.wait_ready(SOON).await.unwrap());
            assert_eq!(child.hear(SOON), "committed");
        }
        child.tell("hang");
        assert_eq!(child.hear(SOON), "inside");
        child.kill();
        // Its transaction is gone, and nobody waits for it.
        get::<i64>(&db, "SELECT alkstore_publish('s', '2')");
        let kept = (jobs(&store, "q").await.len(), events(&store, "s").await.len());
        assert_eq!(kept, (3, 4));
        assert_eq!(count(&db, "business"), 3);
    });
}

#[test]
fn channels_that_have_been_quiet_for_long_are_forgotten() {
    let path = TempDb::new();
    let _store = open(&path);
    let db = attached(&path);
    let channels = |db: &Connection| -> Vec<String> {
        let sql = "SELECT channel FROM __alkstore_notification ORDER BY id";
        let mut channels = db.prepare(sql).unwrap();
        channels.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    get::<Option<i64>>(&db, "SELECT alkstore_notify('old')");
    get::<Option<i64>>(&db, "SELECT alkstore_notify('young')");
    db.execute_batch(
        "UPDATE __alkstore_notification SET sent_us = 0 WHERE channel = 'old';
         UPDATE __alkstore_sequence SET notification = 998;
         SELECT alkstore_notify('a');",
    )
    .unwrap();
    assert_eq!(channels(&db), ["old", "young", "a"]);
    get::<Option<i64>>(&db, "SELECT alkstore_notify('b')");
    assert_eq!(channels(&db), ["young", "a", "b"]);
}
