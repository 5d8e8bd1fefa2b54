//! Steps on locks and on their tenures.

use alkstore::Result;
use proptest::prelude::*;

use super::draw::{Local, Name, Pace, Pick, locals, names, picks};
use super::side::{NONE_HELD, Side};

/// A step on a lock.
#[derive(Clone, Debug)]
pub(super) enum LockStep {
    TryLock(Name, Local, i64),
    Renew(Pick, i64),
    Release(Pick),
    Drop(Pick),
}

pub(super) fn steps(pace: Pace) -> impl Strategy<Value = LockStep> {
    let locking = (names(), locals(), pace.terms());
    prop_oneof![
        4 => locking.prop_map(|(name, owner, ttl)| LockStep::TryLock(name, owner, ttl)),
        3 => (picks(), pace.terms()).prop_map(|(pick, ttl)| LockStep::Renew(pick, ttl)),
        3 => picks().prop_map(LockStep::Release),
        1 => picks().prop_map(LockStep::Drop),
    ]
}

impl LockStep {
    pub(super) async fn run(&self, side: &mut Side) -> Result<String> {
        Ok(match self {
            Self::TryLock(name, owner, ttl) => {
                let name = side.name(*name);
                match side.store().try_lock(&name, &owner.text(), *ttl).await? {
                    None => "held by another".to_owned(),
                    Some(lock) => {
                        let tenure = side.seen.token(lock.fencing_token());
                        let tenure = format!("{tenure} of {:?}", lock.name());
                        side.locks.keep(lock);
                        tenure
                    }
                }
            }
            Self::Renew(pick, ttl) => match side.locks.get(*pick) {
                Some(lock) => lock.renew(*ttl).await?.to_string(),
                None => NONE_HELD.to_owned(),
            },
            Self::Release(pick) => match side.locks.take(*pick) {
                Some(lock) => lock.release().await?.to_string(),
                None => NONE_HELD.to_owned(),
            },
            Self::Drop(pick) => side.locks.take(*pick).map_or(NONE_HELD, |_| "dropped").to_owned(),
        })
    }
}
