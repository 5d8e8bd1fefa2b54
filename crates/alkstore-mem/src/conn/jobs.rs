//! One queue's jobs: a table per state, and the indexes that claims and sweeps seek.
//!
//! Every change is "take the row out, change it, put it back", so that no index is ever stale.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};
use std::ops::Bound;

use alkstore::engine::domain::{US, is_expired, whole_seconds};
use alkstore::engine::rows::JobRow;
use alkstore::engine::wait::Readiness;
use alkstore::{Job, JobState};

use super::row::{ClaimOrder, Fence, Place, Row};

#[derive(Debug)]
struct Dead {
    row: Box<Row>,
    last_error: String,
    died_at: i64,
}

/// A queue's tables.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    // Boxed: a row moves between tables, and tables shift what they hold.
    pending: BTreeMap<i64, Box<Row>>,
    processing: BTreeMap<i64, Box<Row>>,
    dead: BTreeMap<i64, Dead>,
    /// What a claim may take, but for rows that have expired since.
    ready: BTreeSet<ClaimOrder>,
    /// What becomes ready at a time (µs): delayed rows and claims.
    due: BTreeSet<(i64, i64)>,
    /// What is out of attempts and dies at a time (µs), unless the claim is ended before.
    doomed: BTreeSet<(i64, i64)>,
    /// Live rows that expire at a time (s).
    expiring: BTreeSet<(i64, i64)>,
    /// Dead rows that may be deleted at a time (s).
    purgeable: BTreeSet<(i64, i64)>,
}

impl Dead {
    fn job(&self, queue: &str, id: i64) -> Job {
        JobRow {
            last_error: Some(self.last_error.clone()),
            died_at: Some(self.died_at),
            ..self.row.row(queue, id, JobState::Dead)
        }
        .into()
    }
}

impl Jobs {
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.processing.is_empty() && self.dead.is_empty()
    }

    /// The job, live or dead.
    pub(crate) fn job(&self, queue: &str, id: i64) -> Option<Job> {
        match self.live(id) {
            Some(row) => Some(row.job(queue, id)),
            None => self.dead.get(&id).map(|dead| dead.job(queue, id)),
        }
    }

    /// A live row, for a look.
    pub(crate) fn live(&self, id: i64) -> Option<&Row> {
        let row = self.pending.get(&id).or_else(|| self.processing.get(&id));
        row.map(Box::as_ref)
    }

    /// Puts a live row into its table and indexes.
    ///
    /// A claim never makes a row ready here, even one that lapses at once: a batch must not take
    /// the row again.
    pub(crate) fn put(&mut self, id: i64, mut row: Box<Row>, now_us: i64) {
        row.place = if row.is_exhausted() {
            self.doomed.insert((row.due_us(), id));
            Place::Doomed
        } else if row.claim.is_none() && row.due_us() <= now_us {
            self.ready.insert(row.claim_order(id));
            Place::Ready
        } else {
            self.due.insert((row.due_us(), id));
            Place::Due
        };
        if let Some(at) = row.stamps.expires_at {
            self.expiring.insert((at, id));
        }
        self.table(&row).insert(id, row);
    }

    /// Takes a live row out of its table and indexes.
    pub(crate) fn take(&mut self, id: i64) -> Option<Box<Row>> {
        let row = self.pending.remove(&id).or_else(|| self.processing.remove(&id))?;
        self.unlink(id, &row);
        Some(row)
    }

    /// Takes a row out if the claim on it is valid now and the fence admits it.
    pub(crate) fn take_claimed(&mut self, id: i64, fence: Fence, now_us: i64) -> Option<Box<Row>> {
        let Entry::Occupied(entry) = self.processing.entry(id) else {
            return None;
        };
        let row = entry.get();
        if row.due_us() <= now_us || !row.admits(fence) {
            return None;
        }
        let row = entry.remove();
        self.unlink(id, &row);
        Some(row)
    }

    /// Takes the next row in claim order out; rows that have expired are parked on the way.
    pub(crate) fn take_ready(&mut self, now_us: i64) -> Option<(i64, Box<Row>)> {
        while let Some((_, _, id)) = self.ready.pop_first() {
            let mut row = self.pending.remove(&id).or_else(|| self.processing.remove(&id))?;
            row.place = Place::Parked;
            if is_expired(row.stamps.expires_at, now_us) {
                self.table(&row).insert(id, row);
            } else {
                self.unlink(id, &row);
                return Some((id, row));
            }
        }
        None
    }

    fn table(&mut self, row: &Row) -> &mut BTreeMap<i64, Box<Row>> {
        if row.claim.is_some() { &mut self.processing } else { &mut self.pending }
    }

    fn unlink(&mut self, id: i64, row: &Row) {
        match row.place {
            Place::Ready => self.ready.remove(&row.claim_order(id)),
            Place::Due => self.due.remove(&(row.due_us(), id)),
            Place::Doomed => self.doomed.remove(&(row.due_us(), id)),
            Place::Parked => true,
        };
        if let Some(at) = row.stamps.expires_at {
            self.expiring.remove(&(at, id));
        }
    }

    fn live_mut(&mut self, id: i64) -> Option<&mut Row> {
        let row = self.pending.get_mut(&id).or_else(|| self.processing.get_mut(&id));
        row.map(Box::as_mut)
    }

    /// Makes ready what has come due.
    pub(crate) fn promote(&mut self, now_us: i64) {
        while let Some(&(due_us, id)) = self.due.first().filter(|(due_us, _)| *due_us <= now_us) {
            self.due.remove(&(due_us, id));
            if let Some(row) = self.live_mut(id) {
                row.place = Place::Ready;
                let key = row.claim_order(id);
                self.ready.insert(key);
            }
        }
    }

    fn first_ready(&mut self, now_us: i64) -> Option<i64> {
        while let Some(&key) = self.ready.first() {
            let id = key.2;
            match self.live_mut(id) {
                Some(row) if is_expired(row.stamps.expires_at, now_us) => {
                    row.place = Place::Parked;
                }
                _ => return Some(id),
            }
            self.ready.remove(&key);
        }
        None
    }

    /// Whether a claim would find a row to give out or to bury.
    pub(crate) fn readiness(&mut self, now_us: i64) -> Readiness {
        self.promote(now_us);
        if self.first_ready(now_us).is_some() || self.first_exhausted(now_us).is_some() {
            return Readiness::Ready;
        }
        let next = self.due.first().into_iter().chain(self.doomed.first()).min();
        next.map_or(Readiness::Idle, |(us, _)| Readiness::After(us.saturating_sub(now_us)))
    }

    /// Moves a row that was taken out to the dead.
    pub(crate) fn bury(&mut self, id: i64, row: Box<Row>, last_error: &str, now_us: i64) {
        let died_at = whole_seconds(now_us);
        if let Some(retention_s) = row.stamps.dead_letter_retention_s {
            self.purgeable.insert((died_at.saturating_add(retention_s), id));
        }
        self.dead.insert(id, Dead { row, last_error: last_error.to_owned(), died_at });
    }

    /// Takes a dead row out.
    pub(crate) fn take_dead(&mut self, id: i64) -> Option<Box<Row>> {
        let dead = self.dead.remove(&id)?;
        if let Some(retention_s) = dead.row.stamps.dead_letter_retention_s {
            self.purgeable.remove(&(dead.died_at.saturating_add(retention_s), id));
        }
        Some(dead.row)
    }

    /// A row out of attempts whose claim has lapsed, or that was never to run.
    pub(crate) fn first_exhausted(&self, now_us: i64) -> Option<i64> {
        first_until(&self.doomed, now_us)
    }

    /// A live row past its expiry.
    pub(crate) fn first_expired(&self, now_us: i64) -> Option<i64> {
        first_until(&self.expiring, whole_seconds(now_us))
    }

    /// A dead row past its retention.
    pub(crate) fn first_purgeable(&self, now_us: i64) -> Option<i64> {
        first_until(&self.purgeable, whole_seconds(now_us))
    }

    /// Rows in state pending, processing and dead.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        (self.pending.len(), self.processing.len(), self.dead.len())
    }

    /// How many rows a claim could take now; call [`promote`](Self::promote) before.
    pub(crate) fn count_ready(&self, now_us: i64) -> usize {
        let expired = self.expiring.range(..=(whole_seconds(now_us), i64::MAX));
        let gone =
            expired.filter(|(_, id)| self.live(*id).is_some_and(|row| row.place == Place::Ready));
        self.ready.len() - gone.count()
    }

    /// Since when (µs) the longest-waiting row that a claim could take now has been ready.
    pub(crate) fn ready_since(&self, now_us: i64) -> Option<i64> {
        let mut since_us = i64::MAX;
        let mut from = Bound::Unbounded;
        while let Some(&(priority, ..)) = self.ready.range((from, Bound::Unbounded)).next() {
            for (of, run_at, id) in self.ready.range((from, Bound::Unbounded)) {
                // No row is ready before its `run_at`, and within a priority that only grows.
                if *of != priority || run_at.saturating_mul(US) >= since_us {
                    break;
                }
                let row = self.live(*id).filter(|row| !is_expired(row.stamps.expires_at, now_us));
                since_us = row.map_or(since_us, |row| since_us.min(row.since_us()));
            }
            from = Bound::Excluded((priority, i64::MAX, i64::MAX));
        }
        (since_us < i64::MAX).then_some(since_us)
    }

    /// Up to `limit` jobs beyond `after`, by id.
    pub(crate) fn list(
        &self,
        queue: &str,
        state: Option<JobState>,
        after: Option<i64>,
        limit: usize,
    ) -> Vec<Job> {
        let beyond = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let wanted = |s: JobState| state.is_none_or(|state| state == s);
        let mut jobs = Vec::new();
        if wanted(JobState::Pending) {
            let rows = self.pending.range(beyond).take(limit);
            jobs.extend(rows.map(|(id, row)| row.job(queue, *id)));
        }
        if wanted(JobState::Processing) {
            let rows = self.processing.range(beyond).take(limit);
            jobs.extend(rows.map(|(id, row)| row.job(queue, *id)));
        }
        if wanted(JobState::Dead) {
            let rows = self.dead.range(beyond).take(limit);
            jobs.extend(rows.map(|(id, dead)| dead.job(queue, *id)));
        }
        jobs.sort_unstable_by_key(|job| job.id);
        jobs.truncate(limit);
        jobs
    }
}

fn first_until(index: &BTreeSet<(i64, i64)>, until: i64) -> Option<i64> {
    index.first().filter(|(at, _)| *at <= until).map(|(_, id)| *id)
}

#[cfg(test)]
mod tests;
