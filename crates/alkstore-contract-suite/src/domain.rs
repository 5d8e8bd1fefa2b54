//! Numbers: extents clamp to empty, durations reject, boundaries are total.

use std::sync::Arc;
use std::time::Duration;

use alkstore::{EnqueueOpts, Error, Job, JobHandle, JobState, QueueOpts, ScheduleOpts};
use serde_json::json;

use crate::StoreFactory;
use crate::harness::cases;
use crate::open::open;

const NOT_POSITIVE: [i64; 3] = [0, -1, i64::MIN];
const EXTREMES: [i64; 6] = [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 1, i64::MAX];

/// A claim of no more than nothing claims nothing; of the most, everything.
async fn claim_batch_clamps_its_extent(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    for n in 0..5 {
        queue.enqueue(json!(n), Default::default()).await.unwrap();
    }
    for n in NOT_POSITIVE {
        assert!(queue.claim_batch("w", n).await.unwrap().is_empty(), "{n}");
    }
    assert_eq!(queue.claim_batch("w", i64::MAX).await.unwrap().len(), 5);
}

/// Reads with a limit that is not positive read nothing, never the whole stream.
async fn stream_reads_clamp_their_limit(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    stream.publish(json!(1)).await.unwrap();
    let mut events = stream.subscribe("c").await.unwrap();
    let mut tx = store.begin_tx().await.unwrap();
    for limit in NOT_POSITIVE {
        assert!(stream.read_since(0, limit).await.unwrap().is_empty(), "{limit}");
        assert!(stream.read_from_consumer("c", limit).await.unwrap().is_empty(), "{limit}");
        assert!(events.read_since(0, limit).await.unwrap().is_empty(), "{limit}");
        assert!(tx.read_since_tx("s", 0, limit).await.unwrap().is_empty(), "{limit}");
        assert!(tx.read_from_consumer_tx("s", "c", limit).await.unwrap().is_empty(), "{limit}");
    }
    assert_eq!(stream.read_since(0, i64::MAX).await.unwrap().len(), 1);
    assert_eq!(stream.read_from_consumer("c", i64::MAX).await.unwrap().len(), 1);
    assert_eq!(events.read_since(0, i64::MAX).await.unwrap().len(), 1);
    assert_eq!(tx.read_since_tx("s", 0, i64::MAX).await.unwrap().len(), 1);
    assert_eq!(tx.read_from_consumer_tx("s", "c", i64::MAX).await.unwrap().len(), 1);
}

/// A read may start at any offset.
async fn stream_reads_start_at_any_offset(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    stream.publish(json!(1)).await.unwrap();
    let mut events = stream.subscribe("c").await.unwrap();
    let mut tx = store.begin_tx().await.unwrap();
    for offset in EXTREMES {
        let found = usize::from(offset <= 0);
        assert_eq!(stream.read_since(offset, 9).await.unwrap().len(), found, "{offset}");
        assert_eq!(events.read_since(offset, 9).await.unwrap().len(), found, "{offset}");
        assert_eq!(tx.read_since_tx("s", offset, 9).await.unwrap().len(), found, "{offset}");
    }
}

/// A lock without a duration is refused with `Database` and its cause, and nobody holds it.
async fn try_lock_refuses_a_ttl_that_is_not_positive(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for ttl in NOT_POSITIVE {
        let error = store.try_lock("l", "o", ttl).await.map(drop).unwrap_err();
        assert!(matches!(error, Error::Database(_)), "{error:?}");
        let cause = std::error::Error::source(&error).expect("its cause").to_string();
        assert!(cause.contains(&ttl.to_string()), "{cause}");
        assert!(!error.is_transient());
    }
    assert!(store.locks().await.unwrap().is_empty());
    assert!(store.try_lock("l", "p", 60).await.unwrap().is_some());
}

/// A renewal without a duration is refused, and the tenure stays as it was.
async fn renew_refuses_a_ttl_that_is_not_positive(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let lock = store.try_lock("l", "o", 600).await.unwrap().unwrap();
    for ttl in NOT_POSITIVE {
        let error = lock.renew(ttl).await.unwrap_err();
        assert!(matches!(error, Error::Database(_)), "{error:?}");
    }
    assert!(store.locks().await.unwrap()[0].remaining_s > 500);
    assert!(lock.release().await.unwrap());
}

/// A heartbeat without a duration is refused, and the claim stays as it was.
async fn heartbeat_refuses_an_extension_that_is_not_positive(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let id = queue.enqueue(json!(1), Default::default()).await.unwrap();
    let job = queue.claim_one("w").await.unwrap().unwrap();
    let before = queue.get_job(id).await.unwrap();
    for extend in NOT_POSITIVE {
        let error = job.heartbeat(extend).await.unwrap_err();
        assert!(matches!(error, Error::Database(_)), "{error:?}");
    }
    assert_eq!(queue.get_job(id).await.unwrap(), before);
    assert!(job.ack().await.unwrap());
}

/// The longest durations are taken and mean "for ever".
async fn the_longest_durations_do_not_overflow(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for ttl in [i64::MAX, i64::MAX / 1_000_000, i64::MAX / 1_000_000 - 2_000_000_000] {
        let lock = store.try_lock("l", "o", ttl).await.unwrap().unwrap();
        assert!(store.try_lock("l", "p", 60).await.unwrap().is_none());
        assert!(lock.renew(ttl).await.unwrap());
        assert!(store.locks().await.unwrap()[0].remaining_s > 1_000_000_000);
        assert!(lock.release().await.unwrap());
        let queue = store.queue("q", Default::default()).await.unwrap();
        queue.enqueue(json!(1), Default::default()).await.unwrap();
        let job = queue.claim_one("w").await.unwrap().unwrap();
        assert!(job.heartbeat(ttl).await.unwrap());
        assert!(queue.claim_one("w").await.unwrap().is_none());
        assert!(job.ack().await.unwrap());
    }
}

fn every_option(n: i64) -> [EnqueueOpts; 4] {
    let none = EnqueueOpts::default;
    [
        EnqueueOpts { delay: Some(n), ..none() },
        EnqueueOpts { run_at: Some(n), ..none() },
        EnqueueOpts { expires: Some(n), ..none() },
        EnqueueOpts { priority: n, max_attempts: Some(n), ..none() },
    ]
}

fn assert_resolved(job: &Job, opts: &EnqueueOpts) {
    let now = job.created_at;
    let run_at = match (opts.delay, opts.run_at) {
        (Some(delay), _) => now.saturating_add(delay),
        (None, Some(run_at)) => run_at,
        (None, None) => now,
    };
    assert_eq!(job.run_at, run_at, "{opts:?}");
    assert_eq!(job.expires_at, opts.expires.map(|s| now.saturating_add(s)), "{opts:?}");
    assert_eq!(job.priority, opts.priority, "{opts:?}");
    assert_eq!(job.max_attempts, opts.max_attempts.unwrap_or(3), "{opts:?}");
}

/// Every option of an enqueue may be any number; sums saturate, on every path.
async fn enqueue_options_are_total(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    for opts in EXTREMES.into_iter().flat_map(every_option) {
        let mut tx = store.begin_tx().await.unwrap();
        let inside = tx.enqueue_tx("q", opts.clone(), json!(1)).await.unwrap();
        let seen = tx.get_job_tx("q", inside).await.unwrap().unwrap();
        assert_resolved(&seen, &opts);
        tx.outbox_enqueue_tx("o", opts.clone(), json!(1)).await.unwrap();
        let batch = vec![(json!(1), opts.clone())];
        let batched = tx.enqueue_batch_tx("q", batch.clone()).await.unwrap();
        tx.commit().await.unwrap();
        let plain = queue.enqueue(json!(1), opts.clone()).await.unwrap();
        let plain_batch = queue.enqueue_batch(batch).await.unwrap();
        store.outbox("o").await.unwrap().enqueue(json!(1), opts.clone()).await.unwrap();
        for id in [inside, batched[0], plain, plain_batch[0]] {
            assert_resolved(&queue.get_job(id).await.unwrap().unwrap(), &opts);
        }
    }
    let jobs = store.jobs("q", None, None, 1_000).await.unwrap();
    assert_eq!(jobs.len(), 4 * 4 * EXTREMES.len());
}

/// Jobs with extreme options are claimed, or are not, by the rules, and can be swept.
async fn jobs_with_extreme_options_claim_and_sweep(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let enqueue = |opts: EnqueueOpts| queue.enqueue(json!(1), opts);
    let mut ready = Vec::new();
    for n in [i64::MIN, -1] {
        ready.push(enqueue(EnqueueOpts { run_at: Some(n), ..Default::default() }).await.unwrap());
        ready.push(enqueue(EnqueueOpts { delay: Some(n), ..Default::default() }).await.unwrap());
        enqueue(EnqueueOpts { expires: Some(n), ..Default::default() }).await.unwrap();
    }
    for n in [i64::MAX, i64::MAX / 1_000_000] {
        enqueue(EnqueueOpts { run_at: Some(n), ..Default::default() }).await.unwrap();
        enqueue(EnqueueOpts { delay: Some(n), ..Default::default() }).await.unwrap();
        let never = EnqueueOpts { expires: Some(n), max_attempts: Some(n), ..Default::default() };
        ready.push(enqueue(never).await.unwrap());
    }
    let claimed = queue.claim_batch("w", 100).await.unwrap();
    let mut claimed: Vec<i64> = claimed.iter().map(|job| job.job().id).collect();
    claimed.sort_unstable();
    assert_eq!(claimed, ready);
    assert_eq!(queue.sweep_expired().await.unwrap(), 2);
}

/// A queue's stamps may be any numbers: claims, retries and sweeps neither fail nor overflow.
async fn queue_options_are_taken_as_given(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for n in EXTREMES {
        let opts = QueueOpts {
            visibility_timeout_s: n,
            max_attempts: n,
            backoff_base_s: n,
            dead_letter_retention_s: Some(n),
        };
        let queue = store.queue(&format!("q{n}"), opts).await.unwrap();
        let id = queue.enqueue(json!(1), Default::default()).await.unwrap();
        let job = queue.get_job(id).await.unwrap().unwrap();
        assert_eq!((job.visibility_timeout_s, job.max_attempts, job.backoff_base_s), (n, n, n));
        assert_eq!(job.dead_letter_retention_s, Some(n));
        let claimed = queue.claim_one("w").await.unwrap();
        assert_eq!(claimed.is_some(), n > 0, "{n}");
        if let Some(claimed) = claimed {
            assert!(claimed.job().claim_expires_at.unwrap() > job.created_at);
            assert!(claimed.retry(None, None).await.unwrap());
            let job = queue.get_job(id).await.unwrap().unwrap();
            assert!(job.run_at - job.created_at >= 1_800, "{n}: {job:?}");
        }
        queue.sweep_expired().await.unwrap();
        let left = queue.get_job(id).await.unwrap();
        assert_eq!(left.is_some(), n > 0, "a retention of {n} keeps what never ran");
    }
}

/// A retry's delay may be any number.
async fn retry_delays_are_total(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    for delay in EXTREMES {
        let id = queue.enqueue(json!(1), Default::default()).await.unwrap();
        let job = queue.claim_one("w").await.unwrap().unwrap();
        assert!(job.retry(None, Some(delay)).await.unwrap());
        let job = queue.get_job(id).await.unwrap().unwrap();
        assert_eq!(job.state, JobState::Pending);
        let expected = job.created_at.saturating_add(delay);
        assert!((0..30).contains(&job.run_at.saturating_sub(expected)), "{delay}: {job:?}");
        let due = queue.claim_one("w").await.unwrap();
        assert_eq!(due.is_some(), delay <= 0, "{delay}");
        assert!(queue.cancel(id).await.unwrap());
    }
}

/// A horizon may be any number; a negative one deletes nothing.
async fn trim_horizons_are_total(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    for n in 0..3 {
        stream.publish(json!(n)).await.unwrap();
    }
    for horizon in [i64::MIN, -1, 0, i64::MIN, -1, 0] {
        assert_eq!(stream.trim_to(horizon).await.unwrap(), 0);
    }
    assert_eq!(stream.trim_to(i64::MAX).await.unwrap(), 3);
    assert_eq!(stream.trim_to(i64::MAX).await.unwrap(), 0);
    stream.publish(json!(4)).await.unwrap();
    assert_eq!(stream.read_since(0, 9).await.unwrap().len(), 1);
}

/// A checkpoint may be any number; below the stored one, 0 if there is none, nothing happens.
async fn checkpoints_are_total(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    for offset in [i64::MIN, -1, 0] {
        stream.save_offset("c", offset).await.unwrap();
        assert_eq!(stream.get_offset("c").await.unwrap(), 0, "{offset}");
    }
    for offset in [1, i64::MAX, 7, i64::MIN] {
        stream.save_offset("c", offset).await.unwrap();
    }
    assert_eq!(stream.get_offset("c").await.unwrap(), i64::MAX);
    let mut tx = store.begin_tx().await.unwrap();
    for offset in [i64::MIN, 5, i64::MAX, 6] {
        tx.save_offset_tx("s", "d", offset).await.unwrap();
    }
    assert_eq!(tx.get_offset_tx("s", "d").await.unwrap(), i64::MAX);
    tx.commit().await.unwrap();
    assert_eq!(stream.get_offset("d").await.unwrap(), i64::MAX);
}

/// Ids of no job are values, not errors.
async fn ids_of_no_job_are_total(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let mut tx = store.begin_tx().await.unwrap();
    for id in EXTREMES {
        assert_eq!(queue.get_job(id).await.unwrap(), None);
        assert_eq!(tx.get_job_tx("q", id).await.unwrap(), None);
    }
    drop(tx);
    for id in EXTREMES {
        assert!(!queue.cancel(id).await.unwrap());
    }
    assert_eq!(queue.ack_batch(&EXTREMES).await.unwrap(), 0);
    assert_eq!(store.discard("q", &EXTREMES).await.unwrap(), 0);
    assert_eq!(store.retry_now("q", &EXTREMES).await.unwrap(), 0);
    assert!(store.redrive("q", &EXTREMES).await.unwrap().is_empty());
}

/// Listings clamp their limit and start after any id.
async fn listings_are_total(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    queue.enqueue(json!(1), Default::default()).await.unwrap();
    for limit in NOT_POSITIVE {
        assert!(store.jobs("q", None, None, limit).await.unwrap().is_empty(), "{limit}");
    }
    for after in EXTREMES {
        let found = store.jobs("q", None, Some(after), i64::MAX).await.unwrap();
        assert_eq!(found.len(), usize::from(after <= 0), "{after}");
    }
    for offset in EXTREMES {
        store.set_offset("s", "c", offset).await.unwrap();
        assert_eq!(store.consumers("s").await.unwrap()[0].offset, offset);
    }
}

/// A schedule's options may be any numbers.
async fn schedule_options_are_total(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for n in EXTREMES {
        let opts = ScheduleOpts { priority: n, max_attempts: Some(n), expires: Some(n) };
        let kept = store.schedule("s", "@every 1h", "q", json!(1), opts.clone()).await.unwrap();
        assert_eq!(kept.opts, opts);
        assert_eq!(store.schedules().await.unwrap()[0].schedule, kept);
    }
}

/// Waits may be of any length, none included.
async fn waits_may_have_any_length(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let mut wakes = store.listen("c").await.unwrap();
    assert!(!queue.wait_ready(Duration::ZERO).await.unwrap());
    assert_eq!(wakes.recv_timeout(Duration::ZERO).await.unwrap(), None);
    queue.enqueue(json!(1), Default::default()).await.unwrap();
    store.notify("c", json!(1)).await.unwrap();
    assert!(queue.wait_ready(Duration::MAX).await.unwrap());
    assert!(wakes.recv_timeout(Duration::MAX).await.unwrap().is_some());
    assert!(queue.wait_ready(Duration::ZERO).await.unwrap());
}

/// An outbox's delivery may be retried and acked whatever its options are.
async fn outbox_options_are_total(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let outbox = store.outbox("o").await.unwrap();
    for n in [i64::MIN, -1, 0] {
        let opts = EnqueueOpts { delay: Some(n), priority: n, ..Default::default() };
        outbox.enqueue(json!(n), opts).await.unwrap();
    }
    let mut delivered = Vec::new();
    let mut deliver = |job: Box<dyn JobHandle>| {
        delivered.push(job.job().payload_as::<i64>().unwrap());
        async { Ok(()) }
    };
    while outbox.run_once("w", &mut deliver).await.unwrap() {}
    assert_eq!(delivered, [0, -1, i64::MIN]);
}

cases!("domain":
    claim_batch_clamps_its_extent,
    stream_reads_clamp_their_limit,
    stream_reads_start_at_any_offset,
    try_lock_refuses_a_ttl_that_is_not_positive,
    renew_refuses_a_ttl_that_is_not_positive,
    heartbeat_refuses_an_extension_that_is_not_positive,
    the_longest_durations_do_not_overflow,
    enqueue_options_are_total,
    jobs_with_extreme_options_claim_and_sweep,
    queue_options_are_taken_as_given,
    retry_delays_are_total,
    trim_horizons_are_total,
    checkpoints_are_total,
    ids_of_no_job_are_total,
    listings_are_total,
    schedule_options_are_total,
    waits_may_have_any_length,
    outbox_options_are_total,
);
