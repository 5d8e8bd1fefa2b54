//! The retry curve, as it is seen on the rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use alkstore::engine::backoff::range;
use alkstore::engine::clock::ManualClock;
use alkstore::{Queue, QueueOpts};

use crate::StoreFactory;
use crate::harness::cases;
use crate::open::{Opened, open, open_at};
use crate::queue::{job, now_s, put, take};

async fn curved(store: &Opened, backoff_base_s: i64) -> Box<dyn Queue> {
    let opts = QueueOpts { backoff_base_s, max_attempts: i64::MAX, ..Default::default() };
    store.queue("q", opts).await.unwrap()
}

/// Claims and retries a new job until it has made `attempts`, the last retry on the curve.
///
/// Returns the bounds between which its delay must lie, given when the retry was made.
async fn delays_after(queue: &dyn Queue, attempts: i64) -> std::ops::RangeInclusive<i64> {
    let id = put(queue).await;
    for _ in 1..attempts {
        assert!(take(queue).await.retry(None, Some(0)).await.unwrap());
    }
    let claim = take(queue).await;
    assert_eq!(claim.job().attempts, attempts);
    let before = now_s();
    assert!(claim.retry(None, None).await.unwrap());
    let run_at = job(queue, id).await.run_at;
    assert!(queue.cancel(id).await.unwrap());
    run_at - now_s()..=run_at - before
}

/// The n-th retry waits between half of `base · 2^(n-1)` and all of it, up to an hour.
async fn the_retry_curve_doubles_up_to_an_hour(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for (base, attempts, least, most) in [
        (5, 1, 3, 5),
        (5, 2, 5, 10),
        (5, 3, 10, 20),
        (1, 1, 1, 1),
        (3, 4, 12, 24),
        (100, 6, 1_600, 3_200),
        (100, 7, 1_800, 3_600),
        (1, 13, 1_800, 3_600),
        (1, 70, 1_800, 3_600),
        (i64::MAX, 2, 1_800, 3_600),
    ] {
        let queue = curved(&store, base).await;
        let delay = delays_after(&*queue, attempts).await;
        let fits = *delay.start() <= most && *delay.end() >= least;
        assert!(fits, "base {base}, attempt {attempts}: {delay:?}");
    }
}

/// A base that is not positive means no wait.
async fn a_base_that_is_not_positive_does_not_wait(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for base in [0, -5, i64::MIN] {
        let queue = curved(&store, base).await;
        let delay = delays_after(&*queue, 3).await;
        assert!(delay.contains(&0), "{delay:?}");
    }
}

/// The curve is that of the job's stamp, not of the handle that claims it.
async fn the_curve_is_the_jobs_own(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let id = put(&*curved(&store, 1_000).await).await;
    let queue = curved(&store, 0).await;
    let before = now_s();
    assert!(take(&*queue).await.retry(None, None).await.unwrap());
    let row = job(&*queue, id).await;
    assert!(row.run_at >= before + 500, "{row:?}");
    assert_eq!(row.backoff_base_s, 1_000);
}

/// The delay is drawn anew each time.
async fn the_delay_is_drawn_at_random(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = curved(&store, 3_000).await;
    for _ in 0..20 {
        put(&*queue).await;
    }
    let mut drawn = BTreeSet::new();
    for claim in queue.claim_batch("w", 20).await.unwrap() {
        let id = claim.job().id;
        assert!(claim.retry(None, None).await.unwrap());
        let row = job(&*queue, id).await;
        drawn.insert(row.run_at - row.created_at);
    }
    // Of 1,501 equally likely delays; the spread of a second or two of running is no match.
    assert!(drawn.last().unwrap() - drawn.first().unwrap() > 200, "{drawn:?}");
}

/// Every second of the range is drawn, and no other.
async fn the_delay_is_drawn_from_the_whole_range(f: Arc<dyn StoreFactory>) {
    let clock = ManualClock::at(1_000_000);
    let store = open_at(&f, &clock).await;
    for (base, attempts) in [(5, 1), (3, 3)] {
        let queue = curved(&store, base).await;
        let mut drawn = BTreeSet::new();
        for _ in 0..200 {
            let id = put(&*queue).await;
            for _ in 1..attempts {
                assert!(take(&*queue).await.retry(None, Some(0)).await.unwrap());
            }
            assert!(take(&*queue).await.retry(None, None).await.unwrap());
            drawn.insert(job(&*queue, id).await.run_at - clock.now());
            assert!(queue.cancel(id).await.unwrap());
        }
        let (least, most) = range(base, attempts);
        assert_eq!(drawn, (least..=most).collect());
    }
}

cases!("job":
    the_retry_curve_doubles_up_to_an_hour,
    a_base_that_is_not_positive_does_not_wait,
    the_curve_is_the_jobs_own,
    the_delay_is_drawn_at_random;
    clock: the_delay_is_drawn_from_the_whole_range,
);
