//! The operator surface: what is shown, page by page, and what can be repaired.

pub(crate) mod operate;

use std::sync::Arc;
use std::time::Duration;

use alkstore::ops::{ConsumerInfo, QueueKind};
use alkstore::{EnqueueOpts, Error, JobState, QueueOpts};
use serde_json::json;

use crate::StoreFactory;
use crate::harness::cases;
use crate::open::open;
use crate::queue::{LAPSING, put, take};
use crate::schedule::{LEADER_LOCK, Runner};
use crate::stream::publish;
use crate::wait::eventually;

/// An empty store shows nothing.
async fn an_empty_store_shows_nothing(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    store.queue("q", Default::default()).await.unwrap();
    store.stream("s").await.unwrap();
    store.outbox("o").await.unwrap();
    assert!(store.queues().await.unwrap().is_empty());
    assert!(store.jobs("q", None, None, 9).await.unwrap().is_empty());
    assert!(store.streams().await.unwrap().is_empty());
    assert!(store.consumers("s").await.unwrap().is_empty());
    assert!(store.locks().await.unwrap().is_empty());
    assert!(store.schedules().await.unwrap().is_empty());
}

/// A queue's figures: waiting, ready, claimed and dead jobs.
async fn queues_are_counted(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    for _ in 0..6 {
        put(&*queue).await;
    }
    let mut claims = queue.claim_batch("w", 3).await.unwrap();
    assert!(claims.remove(0).fail(None).await.unwrap());
    let later = EnqueueOpts { delay: Some(600), ..Default::default() };
    queue.enqueue(json!(1), later).await.unwrap();
    let info = store.queues().await.unwrap().remove(0);
    assert_eq!((info.kind, &*info.name, info.address()), (QueueKind::Queue, "q", "q".to_owned()));
    assert_eq!((info.pending, info.ready, info.processing, info.dead), (4, 3, 2, 1));

    let lapsing = store.queue("l", LAPSING).await.unwrap();
    put(&*lapsing).await;
    take(&*lapsing).await;
    let info = store.queues().await.unwrap().remove(0);
    assert_eq!((&*info.name, info.ready, info.processing), ("l", 1, 1), "a lapsed claim is ready");

    let dead = store.queue("d", Default::default()).await.unwrap();
    put(&*dead).await;
    assert!(take(&*dead).await.fail(None).await.unwrap());
    let info = store.queues().await.unwrap().remove(0);
    assert_eq!((&*info.name, info.pending, info.dead), ("d", 0, 1), "dead jobs are jobs");
}

/// Jobs that no claim could take are not ready: expired, exhausted, delayed, claimed, dead.
async fn jobs_that_cannot_be_claimed_are_not_ready(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", QueueOpts { max_attempts: 1, ..LAPSING }).await.unwrap();
    put(&*queue).await;
    take(&*queue).await;
    let opts = |expires, max_attempts| EnqueueOpts { expires, max_attempts, ..Default::default() };
    queue.enqueue(json!(1), opts(Some(0), None)).await.unwrap();
    queue.enqueue(json!(1), opts(None, Some(0))).await.unwrap();
    let info = store.queues().await.unwrap().remove(0);
    assert_eq!((info.pending, info.ready, info.processing), (2, 0, 1));
    assert_eq!(info.oldest_ready_age_s, None);
}

/// The age is that of the ready job that has waited longest.
async fn the_oldest_ready_job_has_an_age(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let at = |run_at| EnqueueOpts { run_at: Some(run_at), ..Default::default() };
    let now = crate::queue::now_s();
    queue.enqueue(json!(1), at(now + 600)).await.unwrap();
    assert_eq!(store.queues().await.unwrap()[0].oldest_ready_age_s, None);
    for (run_at, age) in [(now, 0), (now - 50, 50), (now - 20, 50)] {
        queue.enqueue(json!(1), at(run_at)).await.unwrap();
        let shown = store.queues().await.unwrap()[0].oldest_ready_age_s.unwrap();
        assert!((age..age + 30).contains(&shown), "{shown}");
    }
}

/// A job becomes ready anew when it is handed back or its claim lapses, not before it was claimed.
async fn a_job_that_was_claimed_waits_anew(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let long_ago = EnqueueOpts { run_at: Some(5), ..Default::default() };
    for visibility_timeout_s in [300, 0, -9_000, i64::MIN] {
        let name = format!("lasting {visibility_timeout_s}");
        let opts = QueueOpts { visibility_timeout_s, ..Default::default() };
        let queue = store.queue(&name, opts).await.unwrap();
        queue.enqueue(json!(1), long_ago.clone()).await.unwrap();
        let claim = take(&*queue).await;
        assert_eq!(claim.hand_back().await.unwrap(), visibility_timeout_s > 0);
    }
    for info in store.queues().await.unwrap() {
        let age = info.oldest_ready_age_s.unwrap();
        assert!((0..30).contains(&age), "{age} s on {}", info.name);
    }
}

/// An age beyond all numbers is shown as it can be.
async fn ages_of_any_length_are_shown(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    for opts in [
        EnqueueOpts { delay: Some(i64::MIN), ..Default::default() },
        EnqueueOpts { run_at: Some(i64::MIN), ..Default::default() },
    ] {
        queue.enqueue(json!(1), opts).await.unwrap();
        let age = store.queues().await.unwrap()[0].oldest_ready_age_s.unwrap();
        assert!(age > 1 << 40, "{age}");
    }
}

/// Outboxes are listed under their own names with their kind; addresses lead to the jobs.
async fn outboxes_are_listed_by_address(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for name in ["x", "outbox:x", "queue:x"] {
        put(&*store.queue(name, Default::default()).await.unwrap()).await;
        let outbox = store.outbox(name).await.unwrap();
        outbox.enqueue(json!(name), Default::default()).await.unwrap();
        outbox.enqueue(json!(name), Default::default()).await.unwrap();
    }
    let infos = store.queues().await.unwrap();
    assert_eq!(infos.len(), 6, "{infos:?}");
    assert!(infos.is_sorted_by_key(|info| info.address()), "{infos:?}");
    for info in infos {
        let jobs = store.jobs(&info.address(), None, None, 9).await.unwrap();
        let expected = if info.kind == QueueKind::Outbox { 2 } else { 1 };
        assert_eq!((info.pending, jobs.len()), (expected, 2.min(jobs.len())), "{info:?}");
        assert_eq!(i64::try_from(jobs.len()).unwrap(), expected, "{info:?}");
        if info.kind == QueueKind::Outbox {
            assert_eq!(jobs[0].payload_as::<String>().unwrap(), info.name);
        }
    }
}

/// Jobs are listed by id, live and dead ones in one line, page by page.
async fn jobs_are_paged_by_id(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let other = store.queue("r", Default::default()).await.unwrap();
    let mut ids = Vec::new();
    for n in 0..20 {
        put(&*other).await;
        ids.push(put(&*queue).await);
        if n % 3 == 0 {
            assert!(take(&*queue).await.fail(None).await.unwrap());
        }
    }
    for page in [1, 3, 7, 100] {
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let jobs = store.jobs("q", None, after, page).await.unwrap();
            let Some(last) = jobs.last() else { break };
            assert!(jobs.len() <= usize::try_from(page).unwrap());
            after = Some(last.id);
            listed.extend(jobs.iter().map(|job| job.id));
        }
        assert_eq!(listed, ids, "by {page}");
    }
}

/// A state filters the list.
async fn jobs_are_filtered_by_state(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    for _ in 0..6 {
        put(&*queue).await;
    }
    let mut claims = queue.claim_batch("w", 4).await.unwrap();
    assert!(claims.remove(1).fail(Some("why".into())).await.unwrap());
    let states = [(JobState::Pending, 2), (JobState::Processing, 3), (JobState::Dead, 1)];
    for (state, count) in states {
        let jobs = store.jobs("q", Some(state), None, 100).await.unwrap();
        assert_eq!(jobs.len(), count, "{state:?}");
        assert!(jobs.iter().all(|job| job.state == state));
        assert!(jobs.is_sorted_by_key(|job| job.id));
        let after = store.jobs("q", Some(state), Some(jobs[0].id), 100).await.unwrap();
        assert_eq!(after, jobs[1..]);
        for job in jobs {
            assert_eq!(queue.get_job(job.id).await.unwrap().unwrap(), job);
        }
    }
}

/// A stream's figures follow publishes and trims.
async fn streams_are_measured(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    let given = publish(&*stream, 5).await;
    store.stream("only a consumer").await.unwrap().save_offset("c", 3).await.unwrap();
    let shown = async || {
        let infos = store.streams().await.unwrap();
        let figures = infos.into_iter().map(|info| (info.name, info.first, info.head, info.length));
        figures.collect::<Vec<_>>()
    };
    let bare = ("only a consumer".to_owned(), 0, 0, 0);
    let full = ("s".to_owned(), given[0], given[4], 5);
    assert_eq!(shown().await, [bare.clone(), full]);
    stream.trim_to(given[1]).await.unwrap();
    assert_eq!(shown().await, [bare.clone(), ("s".to_owned(), given[2], given[4], 3)]);
    stream.trim_to(i64::MAX).await.unwrap();
    assert_eq!(shown().await, [bare]);
}

/// A consumer's place: its checkpoint, what is beyond it, and whether that can be trusted.
async fn consumers_are_placed(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    let given = publish(&*stream, 10).await;
    for (consumer, offset) in [("behind", given[1]), ("at", given[9]), ("far", i64::MAX)] {
        stream.save_offset(consumer, offset).await.unwrap();
    }
    let shown = async || {
        let infos = store.consumers("s").await.unwrap();
        let place = |info: ConsumerInfo| {
            (info.consumer, info.offset, info.lag, info.ahead_of_log, info.trimmed_past)
        };
        infos.into_iter().map(place).collect::<Vec<_>>()
    };
    let at = |trimmed_past| ("at".to_owned(), given[9], 0, false, trimmed_past);
    let far = ("far".to_owned(), i64::MAX, 0, true, false);
    let behind = |lag, trimmed_past| ("behind".to_owned(), given[1], lag, false, trimmed_past);
    assert_eq!(shown().await, [at(false), behind(8, false), far.clone()]);
    stream.trim_to(given[1]).await.unwrap();
    assert_eq!(shown().await, [at(false), behind(8, false), far.clone()], "it had read those");
    stream.trim_to(given[4]).await.unwrap();
    assert_eq!(shown().await, [at(false), behind(5, true), far.clone()]);
    stream.trim_to(given[9]).await.unwrap();
    assert_eq!(shown().await, [at(false), behind(0, true), far]);
}

/// A checkpoint is ahead if its own stream never got there, whatever others have published.
async fn a_checkpoint_beyond_its_own_stream_is_ahead(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    let own = publish(&*stream, 1).await[0];
    let foreign = publish(&*store.stream("t").await.unwrap(), 3).await[2];
    stream.save_offset("c", foreign.max(own + 1)).await.unwrap();
    assert!(store.consumers("s").await.unwrap()[0].ahead_of_log);
    stream.trim_to(i64::MAX).await.unwrap();
    stream.save_offset("at its end", own).await.unwrap();
    let shown = store.consumers("s").await.unwrap();
    let ahead: Vec<bool> = shown.iter().map(|info| info.ahead_of_log).collect();
    assert_eq!(ahead, [false, true], "trimmed events were given out: {shown:?}");
}

/// Held locks are shown with their time left, the scheduler's too; lapsed ones are not.
async fn held_locks_are_shown(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let lock = store.try_lock("b", "owner b", 600).await.unwrap().unwrap();
    let short = store.try_lock("a", "owner a", 1).await.unwrap().unwrap();
    let shown = store.locks().await.unwrap();
    assert_eq!((&*shown[0].name, shown[0].remaining_s), ("a", 1), "rounded up");
    assert_eq!((&*shown[1].name, &*shown[1].owner), ("b", "owner b"));
    assert_eq!(shown[1].fencing_token, lock.fencing_token());
    assert!((590..=600).contains(&shown[1].remaining_s));
    let runner = Runner::lead(&store).await;
    let locks = store.locks().await.unwrap();
    let leader = locks.iter().find(|lock| lock.name == LEADER_LOCK).unwrap();
    assert!(leader.remaining_s > 0 && leader.fencing_token > short.fencing_token());
    runner.stop().await.unwrap();
    eventually(Duration::from_secs(10), async || {
        (store.locks().await.unwrap().len() == 1).then_some(())
    })
    .await;
    assert!(lock.release().await.unwrap());
    assert!(store.locks().await.unwrap().is_empty());
}

/// Schedules are listed by name.
async fn schedules_are_listed_by_name(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for name in ["b", "a", "c"] {
        let queue = format!("q{name}");
        store.schedule(name, "@every 2h", &queue, json!(1), Default::default()).await.unwrap();
    }
    let shown = store.schedules().await.unwrap();
    let names: Vec<&str> = shown.iter().map(|info| &*info.schedule.name).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!((&*shown[1].schedule.queue, &*shown[1].schedule.spec), ("qb", "@every 2h"));
}

/// Bad names are refused here too.
async fn operators_names_are_validated(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for (name, reserved) in
        [("", false), ("outbox:", false), ("queue: ", false), ("__alkstore_x", true)]
    {
        let refused = [
            store.jobs(name, None, None, 9).await.map(drop),
            store.redrive(name, &[1]).await.map(drop),
            store.discard(name, &[1]).await.map(drop),
            store.retry_now(name, &[1]).await.map(drop),
        ];
        for refused in refused {
            match refused {
                Err(Error::ReservedName { .. }) => assert!(reserved, "{name}"),
                Err(Error::InvalidName { .. }) => assert!(!reserved, "{name}"),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
    for refused in [
        store.consumers("").await.map(drop),
        store.set_offset("s", " ", 1).await,
        store.set_offset("a\0", "c", 1).await,
        store.forget_consumer("s", "").await.map(drop),
        store.release_lock("").await.map(drop),
    ] {
        assert!(matches!(refused, Err(Error::InvalidName { .. })), "{refused:?}");
    }
    let refused = store.release_lock("__alkstore_x").await;
    assert!(matches!(refused, Err(Error::ReservedName { .. })), "{refused:?}");
}

cases!("ops":
    an_empty_store_shows_nothing,
    queues_are_counted,
    jobs_that_cannot_be_claimed_are_not_ready,
    the_oldest_ready_job_has_an_age,
    a_job_that_was_claimed_waits_anew,
    ages_of_any_length_are_shown,
    outboxes_are_listed_by_address,
    jobs_are_paged_by_id,
    jobs_are_filtered_by_state,
    streams_are_measured,
    consumers_are_placed,
    a_checkpoint_beyond_its_own_stream_is_ahead,
    held_locks_are_shown,
    schedules_are_listed_by_name,
    operators_names_are_validated,
);
