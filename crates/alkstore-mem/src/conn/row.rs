//! A job's row: its stamps, its claims, and where its table keeps it.

use std::cmp::Reverse;

use alkstore::engine::domain::{US, after, whole_seconds};
use alkstore::engine::rows::JobRow;
use alkstore::engine::stamps::Stamps;
use alkstore::{Job, JobState};

/// Numbers the queue handles of a store.
pub(crate) type HandleId = i64;

/// Handles whose claims a row remembers at most, beside its last claim's.
const FORMER_LIMIT: usize = 1_024;

/// A live job.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) stamps: Stamps,
    pub(crate) payload: Vec<u8>,
    pub(crate) attempts: i64,
    /// Grows with every claim and never shrinks: the fence.
    claims: i64,
    pub(super) claim: Option<Claim>,
    /// The handle that had the last claim, and others that had earlier ones.
    claimant: HandleId,
    former: Vec<HandleId>,
    pub(super) place: Place,
}

/// Who has a job, and until when.
#[derive(Debug)]
pub(super) struct Claim {
    worker_id: String,
    claimed_at: i64,
    deadline_us: i64,
}

/// Which claims on a row an operation may end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fence {
    /// This very claim.
    Claim(i64),
    /// Any, unless this handle had an earlier one: then a batch of it is late.
    Handle(HandleId),
}

/// The index that a live row is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Ready,
    Due,
    Doomed,
    /// In none: it is out of its table, or past its expiry and waits for a sweep.
    Parked,
}

/// The order in which jobs are claimed: priority, ready time, id.
pub(super) type ClaimOrder = (Reverse<i64>, i64, i64);

impl Row {
    pub(crate) fn new(stamps: Stamps, payload: Vec<u8>) -> Box<Self> {
        Box::new(Self {
            stamps,
            payload,
            attempts: 0,
            claims: 0,
            claim: None,
            claimant: 0,
            former: Vec::new(),
            place: Place::Parked,
        })
    }

    /// Gives the row to a worker for as long as its stamp says.
    pub(crate) fn begin_claim(&mut self, handle: HandleId, worker_id: &str, now_us: i64) {
        if self.claims > 0 && self.claimant != handle && !self.former.contains(&self.claimant) {
            if self.former.len() == FORMER_LIMIT {
                self.former.remove(0);
            }
            self.former.push(self.claimant);
        }
        self.claimant = handle;
        self.claims += 1;
        self.claim = Some(Claim {
            worker_id: worker_id.to_owned(),
            claimed_at: whole_seconds(now_us),
            deadline_us: after(now_us, self.stamps.visibility_timeout_s),
        });
    }

    /// Moves the claim's deadline.
    pub(crate) fn extend_claim(&mut self, deadline_us: i64) {
        if let Some(claim) = &mut self.claim {
            claim.deadline_us = deadline_us;
        }
    }

    /// Makes the row pending. The claim counter stays: old handles must not fit the next claim.
    pub(crate) fn end_claim(&mut self) {
        self.claim = None;
    }

    /// How many claims there were: the last one's fence.
    pub(crate) fn claims(&self) -> i64 {
        self.claims
    }

    /// Whether time alone will make it ready.
    pub(crate) fn is_delayed(&self, now_us: i64) -> bool {
        self.claim.is_none() && self.stamps.ready_us > now_us && !self.is_exhausted()
    }

    pub(super) fn admits(&self, fence: Fence) -> bool {
        match fence {
            Fence::Claim(claim) => self.claims == claim,
            Fence::Handle(handle) => self.claimant == handle || !self.former.contains(&handle),
        }
    }

    pub(super) fn due_us(&self) -> i64 {
        self.claim.as_ref().map_or(self.stamps.ready_us, |claim| claim.deadline_us)
    }

    /// Since when it has been waiting, if it is due.
    pub(super) fn since_us(&self) -> i64 {
        // A claim that was to lapse before it was made lapsed when it was made.
        let claimed_us = self.claim.as_ref().map(|claim| claim.claimed_at.saturating_mul(US));
        self.due_us().max(claimed_us.unwrap_or(i64::MIN))
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.attempts >= self.stamps.max_attempts
    }

    pub(super) fn claim_order(&self, id: i64) -> ClaimOrder {
        (Reverse(self.stamps.priority), self.stamps.run_at, id)
    }

    /// The live job as a value.
    pub(crate) fn job(&self, queue: &str, id: i64) -> Job {
        let state = if self.claim.is_some() { JobState::Processing } else { JobState::Pending };
        self.row(queue, id, state).into()
    }

    pub(super) fn row(&self, queue: &str, id: i64, state: JobState) -> JobRow {
        let claim = self.claim.as_ref();
        JobRow {
            id,
            queue: queue.to_owned(),
            state,
            payload: self.payload.clone(),
            priority: self.stamps.priority,
            run_at: self.stamps.run_at,
            attempts: self.attempts,
            max_attempts: self.stamps.max_attempts,
            worker_id: claim.map(|claim| claim.worker_id.clone()),
            claimed_at: claim.map(|claim| claim.claimed_at),
            claim_expires_at: claim.map(|claim| whole_seconds(claim.deadline_us)),
            created_at: self.stamps.created_at,
            expires_at: self.stamps.expires_at,
            visibility_timeout_s: self.stamps.visibility_timeout_s,
            backoff_base_s: self.stamps.backoff_base_s,
            dead_letter_retention_s: self.stamps.dead_letter_retention_s,
            last_error: None,
            died_at: None,
        }
    }
}
