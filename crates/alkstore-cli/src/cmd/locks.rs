//! `alkstore locks`: the locks that are held.

use anyhow::Result;
use serde::Serialize;

use crate::connect::Engine;
use crate::output::{Output, shown};

#[derive(Serialize)]
struct LockLine<'a> {
    lock: &'a str,
    owner: &'a str,
    fencing_token: i64,
    remaining_s: i64,
}

/// Lists the locks.
pub(crate) async fn run(store: &dyn Engine, out: &mut Output) -> Result<()> {
    let mut rows = Vec::new();
    for lock in store.locks().await? {
        if out.is_json() {
            out.object(&LockLine {
                lock: &lock.name,
                owner: &lock.owner,
                fencing_token: lock.fencing_token,
                remaining_s: lock.remaining_s,
            })?;
            continue;
        }
        rows.push(vec![
            shown(&lock.name),
            shown(&lock.owner),
            lock.fencing_token.to_string(),
            format!("{} s", lock.remaining_s),
        ]);
    }
    if out.is_json() {
        return Ok(());
    }
    out.table(&["LOCK", "OWNER", ">TOKEN", ">LEFT"], rows)
}
