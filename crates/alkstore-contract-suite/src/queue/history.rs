//! What workers of any behaviour do to a queue, recorded and checked as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use alkstore::{JobHandle, JobState, QueueOpts};
use tokio::time::Instant;

use crate::StoreFactory;
use crate::harness::cases;
use crate::open::{Opened, open};

const JOBS: usize = 150;
/// Longer than a loaded machine stalls: claims are recorded just after they were made.
const LEASE: Duration = Duration::from_secs(2);

/// What is known of the jobs so far.
#[derive(Default)]
struct History {
    /// Claims that nobody has ended: no other may begin before this time.
    held_until: BTreeMap<i64, Instant>,
    acked: BTreeSet<i64>,
    failed: BTreeSet<i64>,
    counted: BTreeMap<i64, i64>,
}

type Shared = Arc<Mutex<History>>;

fn look(history: &Shared) -> MutexGuard<'_, History> {
    history.lock().unwrap()
}

/// Records a claim that was asked for at `asked`.
fn begin(history: &Shared, job: &dyn JobHandle, asked: Instant) {
    let (now, row) = (Instant::now(), job.job());
    let mut history = look(history);
    if let Some(until) = history.held_until.insert(row.id, asked + LEASE) {
        assert!(now >= until, "job {} was handed out during another claim", row.id);
    }
    let over = history.acked.contains(&row.id) || history.failed.contains(&row.id);
    assert!(!over, "job {} was over", row.id);
    let counted = history.counted.entry(row.id).or_default();
    *counted += 1;
    assert_eq!(row.attempts, *counted, "job {}: {row:?}", row.id);
}

/// Ends a claim in a way of chance; whatever is tried, its lease counts no more.
async fn end(history: &Shared, job: Box<dyn JobHandle>, random: &mut fastrand::Rng) {
    let id = job.job().id;
    let what = random.u8(..20);
    if what < 2 {
        // Abandoned: it comes back when the lease is over.
        return;
    }
    look(history).held_until.remove(&id);
    match what {
        2..5 => {
            job.retry(None, Some(0)).await.unwrap();
        }
        5..7 => {
            // Counted down first: the next claim may be there before this call returns.
            *look(history).counted.get_mut(&id).unwrap() -= 1;
            if !job.hand_back().await.unwrap() {
                *look(history).counted.get_mut(&id).unwrap() += 1;
            }
        }
        7..9 => {
            if job.fail(None).await.unwrap() {
                assert!(look(history).failed.insert(id));
            }
        }
        _ => {
            if job.ack().await.unwrap() {
                assert!(look(history).acked.insert(id), "job {id} was acked twice");
            }
        }
    }
}

async fn work(store: Opened, history: Shared, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let queue = store.queue("q", Default::default()).await.unwrap();
    loop {
        let asked = Instant::now();
        let claims = queue.claim_batch("w", random.i64(1..4)).await.unwrap();
        if claims.is_empty() {
            let info = store.queues().await.unwrap().remove(0);
            if info.pending + info.processing == 0 {
                return;
            }
            queue.wait_ready(Duration::from_millis(100)).await.unwrap();
        }
        for job in &claims {
            begin(&history, &**job, asked);
        }
        for job in claims {
            if random.u8(..4) == 0 {
                tokio::task::yield_now().await;
            }
            end(&history, job, &mut random).await;
        }
    }
}

/// Whatever workers do, no job is handed out twice at a time, lost, or ended twice.
async fn every_job_ends_once_whatever_workers_do(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let opts = QueueOpts { visibility_timeout_s: 2, max_attempts: 1_000, ..Default::default() };
    let queue = store.queue("q", opts).await.unwrap();
    // Never claimed: it keeps the queue listed when all others are gone.
    let later = alkstore::EnqueueOpts { expires: Some(-1), ..Default::default() };
    queue.enqueue(0.into(), later).await.unwrap();
    assert_eq!(queue.sweep_expired().await.unwrap(), 1);
    let jobs = (0..JOBS).map(|n| (n.into(), Default::default())).collect();
    let ids: BTreeSet<i64> = queue.enqueue_batch(jobs).await.unwrap().into_iter().collect();
    let (history, seed) = (Shared::default(), fastrand::u64(..));
    let workers = (0..6).map(|n| {
        let store = if n % 2 == 0 { store.clone() } else { other.clone() };
        tokio::spawn(work(store, history.clone(), seed.wrapping_add(n)))
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap_or_else(|_| panic!("seed {seed}"));
    }
    let dead = store.jobs("q", Some(JobState::Dead), None, 1_000).await.unwrap();
    let dead: BTreeSet<i64> = dead.iter().skip(1).map(|job| job.id).collect();
    let history = look(&history);
    assert!(history.acked.is_disjoint(&history.failed));
    assert_eq!(&history.acked | &history.failed, ids, "seed {seed}");
    assert_eq!(dead, history.failed);
}

cases!("queue": every_job_ends_once_whatever_workers_do);
