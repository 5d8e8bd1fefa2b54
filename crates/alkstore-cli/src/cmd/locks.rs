//! `alkstore locks`: the locks that are held.

use alkstore::ops::LockInfo;
use anyhow::Result;
use serde::Serialize;

use crate::connect::Engine;
use crate::output::{Output, shown};

#[derive(Serialize)]
struct LockLine {
    lock: String,
    owner: String,
    fencing_token: i64,
    remaining_s: i64,
}

impl From<LockInfo> for LockLine {
    fn from(lock: LockInfo) -> Self {
        Self {
            lock: lock.name,
            owner: lock.owner,
            fencing_token: lock.fencing_token,
            remaining_s: lock.remaining_s,
        }
    }
}

/// Lists the locks.
pub(crate) async fn run(store: &dyn Engine, out: &mut Output) -> Result<()> {
    let locks = store.locks().await?.into_iter().map(LockLine::from);
    out.list(&["LOCK", "OWNER", ">TOKEN", ">LEFT"], locks, |lock| {
        vec![
            shown(&lock.lock),
            shown(&lock.owner),
            lock.fencing_token.to_string(),
            format!("{} s", lock.remaining_s),
        ]
    })
}
