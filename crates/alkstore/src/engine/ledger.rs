//! The claims that one queue handle gave out, so that its `ack_batch` can be fenced.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::domain::after;

/// Beyond this many entries, those that lapsed over an hour ago are dropped now and then.
const PRUNE_ABOVE: usize = 65_536;
const KEEP_LAPSED_S: i64 = 3_600;

/// Job id → the claim that was given out last, until the job is gone.
///
/// A lapsed claim stays known: a late batch must not end the claim that followed it.
#[derive(Debug, Default)]
pub struct ClaimLedger(Mutex<Claims>);

#[derive(Debug, Default)]
struct Claims {
    by_id: HashMap<i64, Claim>,
    prune_at: usize,
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    fence: i64,
    deadline_us: i64,
}

impl ClaimLedger {
    /// Remembers claims that were given out at `now_us`: id, fence and deadline of each.
    pub fn record(&self, now_us: i64, claims: impl IntoIterator<Item = (i64, i64, i64)>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.by_id.extend(
            claims.into_iter().map(|(id, fence, deadline_us)| (id, Claim { fence, deadline_us })),
        );
        if state.by_id.len() > state.prune_at.max(PRUNE_ABOVE) {
            state.by_id.retain(|_, claim| after(claim.deadline_us, KEEP_LAPSED_S) > now_us);
            state.prune_at = state.by_id.len() * 2;
        }
    }

    /// Forgets jobs that are gone.
    pub fn forget(&self, ids: &[i64]) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for id in ids {
            state.by_id.remove(id);
        }
    }

    /// The ids once each, in the order given, with the fence of those that this handle claimed.
    #[must_use]
    pub fn fences(&self, ids: &[i64]) -> Vec<(i64, Option<i64>)> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen = std::collections::HashSet::with_capacity(ids.len());
        ids.iter()
            .filter(|id| seen.insert(**id))
            .map(|id| (*id, state.by_id.get(id).map(|claim| claim.fence)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lapsed_claims_stay_known_and_memory_is_bounded() {
        let ledger = ClaimLedger::default();
        ledger.record(0, [(1, 7, 10)]);
        assert_eq!(ledger.fences(&[1, 2, 1]), [(1, Some(7)), (2, None)]);
        ledger.forget(&[1]);
        assert_eq!(ledger.fences(&[1]), [(1, None)]);

        let year_us = 31_536_000_000_000;
        for round in 0..10 {
            ledger.record(round * year_us, (0..100_000).map(|i| (round * 100_000 + i, 1, 0)));
        }
        assert!(ledger.0.lock().unwrap().by_id.len() <= 200_000);
    }
}
