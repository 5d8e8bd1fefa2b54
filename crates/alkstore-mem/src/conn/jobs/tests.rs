//! The indexes against a look at every row, after each of many random steps.

use alkstore::engine::domain::after;
use alkstore::engine::stamps::Stamps;

use super::*;

const QUEUE: &str = "q";

impl Jobs {
    fn live_rows(&self) -> impl Iterator<Item = (i64, &Row)> {
        self.pending.iter().chain(&self.processing).map(|(id, row)| (*id, &**row))
    }

    /// Every row is in its table and in the index of its place, and nothing else is.
    fn check(&self) {
        assert!(self.pending.values().all(|row| row.claim.is_none()));
        assert!(self.processing.values().all(|row| row.claim.is_some()));
        let (mut ready, mut due, mut doomed) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut expiring = BTreeSet::new();
        for (id, row) in self.live_rows() {
            assert!(!self.dead.contains_key(&id));
            assert_eq!(row.is_exhausted(), row.place == Place::Doomed);
            let fresh = match row.place {
                Place::Ready => ready.insert(row.claim_order(id)),
                Place::Due => due.insert((row.due_us(), id)),
                Place::Doomed => doomed.insert((row.due_us(), id)),
                Place::Parked => true,
            };
            assert!(fresh, "job {id} is live twice");
            expiring.extend(row.stamps.expires_at.map(|at| (at, id)));
        }
        assert_eq!(self.ready, ready);
        assert_eq!(self.due, due);
        assert_eq!(self.doomed, doomed);
        assert_eq!(self.expiring, expiring);
        let purge_at = |(id, dead): (&i64, &Dead)| {
            let retention_s = dead.row.stamps.dead_letter_retention_s?;
            Some((dead.died_at.saturating_add(retention_s), *id))
        };
        assert_eq!(self.purgeable, self.dead.iter().filter_map(purge_at).collect());
    }

    fn claimable(&self, now_us: i64) -> impl Iterator<Item = (i64, &Row)> {
        self.live_rows().filter(move |(_, row)| {
            let is_due = row.due_us() <= now_us && !row.is_exhausted();
            is_due && !is_expired(row.stamps.expires_at, now_us)
        })
    }
}

fn random_row(random: &mut fastrand::Rng, now_us: i64) -> Box<Row> {
    let delay = random.i64(-3..4);
    let now = whole_seconds(now_us);
    let stamps = Stamps {
        priority: random.i64(0..3),
        run_at: now + delay,
        ready_us: after(now_us, delay),
        created_at: now,
        expires_at: random.bool().then(|| now + random.i64(-1..9)),
        max_attempts: random.i64(0..4),
        visibility_timeout_s: random.i64(-1..4),
        backoff_base_s: 1,
        dead_letter_retention_s: random.bool().then(|| random.i64(0..9)),
    };
    Row::new(stamps, Vec::new())
}

fn claim(jobs: &mut Jobs, now_us: i64) -> Option<i64> {
    let expected = jobs.claimable(now_us).map(|(id, row)| row.claim_order(id)).min();
    jobs.promote(now_us);
    let taken = jobs.take_ready(now_us);
    assert_eq!(taken.as_ref().map(|(id, row)| row.claim_order(*id)), expected);
    let (id, mut row) = taken?;
    row.attempts += 1;
    row.begin_claim(1, "w", now_us);
    jobs.put(id, row, now_us);
    Some(id)
}

fn check_figures(jobs: &mut Jobs, now_us: i64) {
    jobs.promote(now_us);
    assert_eq!(jobs.count_ready(now_us), jobs.claimable(now_us).count());
    let since_us = jobs.claimable(now_us).map(|(_, row)| row.since_us()).min();
    assert_eq!(jobs.ready_since(now_us), since_us);
    let has_work = since_us.is_some() || jobs.first_exhausted(now_us).is_some();
    assert_eq!(jobs.readiness(now_us) == Readiness::Ready, has_work);
    let ids: Vec<i64> = jobs.list(QUEUE, None, None, usize::MAX).iter().map(|job| job.id).collect();
    assert!(ids.is_sorted_by(|a, b| a < b));
    let (pending, processing, dead) = jobs.counts();
    assert_eq!(ids.len(), pending + processing + dead);
}

#[test]
fn indexes_agree_with_the_rows() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut jobs = Jobs::default();
    let mut now_us = 1_000 * US;
    for id in 0..3_000 {
        now_us += random.i64(0..US / 2);
        let row = random_row(&mut random, now_us);
        jobs.put(id, row, now_us);
        let recent = id - random.i64(0..20);
        match random.u8(0..10) {
            0 => drop(jobs.take(recent)),
            1 => drop(jobs.take_dead(recent)),
            2 => {
                if let Some(row) = jobs.take(recent) {
                    jobs.bury(recent, row, "failed", now_us);
                }
            }
            3 => {
                while let Some(id) = jobs.first_expired(now_us) {
                    let row = jobs.take(id).expect("indexed");
                    jobs.bury(id, row, "expired", now_us);
                }
                while let Some(id) = jobs.first_exhausted(now_us) {
                    let row = jobs.take(id).expect("indexed");
                    jobs.bury(id, row, "exhausted", now_us);
                }
                while let Some(id) = jobs.first_purgeable(now_us) {
                    assert!(jobs.take_dead(id).is_some());
                }
                jobs.check();
                let late = jobs.live_rows().any(|(_, row)| {
                    is_expired(row.stamps.expires_at, now_us)
                        || (row.is_exhausted() && row.due_us() <= now_us)
                });
                assert!(!late, "a swept queue has no such rows");
            }
            4 => check_figures(&mut jobs, now_us),
            _ => {
                if let Some(claimed) = claim(&mut jobs, now_us) {
                    let is_live = jobs.live(claimed).is_some_and(|row| row.due_us() > now_us);
                    assert!(
                        jobs.take_claimed(claimed, Fence::Claim(0), now_us).is_none(),
                        "other fence"
                    );
                    if random.bool() {
                        assert_eq!(
                            jobs.take_claimed(claimed, Fence::Handle(1), now_us).is_some(),
                            is_live
                        );
                    }
                }
            }
        }
        jobs.check();
    }
}
