//! Named locks: one row per lock, one tenure per acquisition.

use alkstore::engine::domain::{after, duration};
use alkstore::engine::rows::LockRow;
use alkstore::{Lock, Result, async_trait};

use crate::conn::{Conn, State};

/// Lapsed locks may be renewed for a while before they are removed.
const KEEP_LAPSED_S: i64 = 600;

/// Lapsed locks that an acquisition removes at most.
const PRUNE_LIMIT: usize = 4;

/// One tenure of a lock.
#[derive(Debug)]
pub(crate) struct MemLock {
    conn: Conn,
    name: String,
    token: i64,
}

impl MemLock {
    pub(crate) fn new(conn: Conn, name: String, token: i64) -> Self {
        Self { conn, name, token }
    }
}

#[async_trait]
impl Lock for MemLock {
    fn name(&self) -> &str {
        &self.name
    }

    fn fencing_token(&self) -> i64 {
        self.token
    }

    async fn renew(&self, ttl: i64) -> Result<bool> {
        let ttl = duration("ttl", ttl)?;
        self.conn.write(|state| renew(state, &self.name, self.token, ttl)).await
    }

    async fn release(self: Box<Self>) -> Result<bool> {
        self.conn.write(|state| release(state, &self.name, self.token)).await
    }
}

/// Returns the tenure's token, or `None` if another owner holds the lock.
pub(crate) fn acquire(state: &mut State, name: &str, owner: &str, ttl_s: i64) -> Option<i64> {
    if let Some(held) = held(state, name) {
        return (held.owner == owner).then_some(held.fencing_token);
    }
    prune(state);
    let fencing_token = state.next_token();
    let expires_us = after(state.now_us, ttl_s);
    let (name, owner) = (name.to_owned(), owner.to_owned());
    put(state, LockRow { name, owner, fencing_token, expires_us });
    Some(fencing_token)
}

pub(crate) fn renew(state: &mut State, name: &str, token: i64, ttl_s: i64) -> bool {
    // Lapsed or not: nobody took it since.
    let Some(row) = state.locks.get(name).filter(|row| row.fencing_token == token) else {
        return false;
    };
    let row = LockRow { expires_us: after(state.now_us, ttl_s), ..row.clone() };
    put(state, row);
    true
}

pub(crate) fn release(state: &mut State, name: &str, token: i64) -> bool {
    if held(state, name).is_none_or(|row| row.fencing_token != token) {
        return false;
    }
    remove(state, name);
    true
}

/// The lock's row, if it is held now.
pub(crate) fn held<'a>(state: &'a State, name: &str) -> Option<&'a LockRow> {
    state.locks.get(name).filter(|row| row.expires_us > state.now_us)
}

pub(crate) fn remove(state: &mut State, name: &str) {
    if let Some(row) = state.locks.remove(name) {
        state.lock_ends.remove(&(row.expires_us, row.name));
    }
}

fn put(state: &mut State, row: LockRow) {
    remove(state, &row.name);
    state.lock_ends.insert((row.expires_us, row.name.clone()));
    state.locks.insert(row.name.clone(), row);
}

fn prune(state: &mut State) {
    for _ in 0..PRUNE_LIMIT {
        match state.lock_ends.first() {
            Some((ended, _)) if after(*ended, KEEP_LAPSED_S) <= state.now_us => {}
            _ => return,
        }
        if let Some((_, name)) = state.lock_ends.pop_first() {
            state.locks.remove(&name);
        }
    }
}
