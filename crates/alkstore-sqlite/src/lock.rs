//! Named locks: a row per tenure.

use std::sync::Arc;

use alkstore::engine::domain::{US, after, duration};
use alkstore::{Lock, Result, async_trait};
use rusqlite::params;

use crate::conn::{Core, Sequence, Write};
use crate::sql;

/// Lapsed locks may be renewed for a while before they are removed.
const KEEP_LAPSED_US: i64 = 600 * US;
const PRUNE_LIMIT: i64 = 4;

/// A handle to one tenure.
#[derive(Debug)]
pub(crate) struct SqliteLock {
    core: Arc<Core>,
    name: String,
    fencing_token: i64,
}

impl SqliteLock {
    pub(crate) async fn acquire(
        core: &Arc<Core>,
        name: &str,
        owner: &str,
        ttl: i64,
    ) -> Result<Option<Box<dyn Lock>>> {
        let (row_name, owner) = (name.to_owned(), owner.to_owned());
        let token = core.write(move |write| acquire(write, &row_name, &owner, ttl)).await?;
        Ok(token.map(|fencing_token| -> Box<dyn Lock> {
            Box::new(Self { core: core.clone(), name: name.to_owned(), fencing_token })
        }))
    }
}

#[async_trait]
impl Lock for SqliteLock {
    fn name(&self) -> &str {
        &self.name
    }

    fn fencing_token(&self) -> i64 {
        self.fencing_token
    }

    async fn renew(&self, ttl: i64) -> Result<bool> {
        duration("ttl", ttl)?;
        let (name, token) = (self.name.clone(), self.fencing_token);
        self.core.write_one(move |write| renew(write, &name, token, ttl)).await
    }

    async fn release(self: Box<Self>) -> Result<bool> {
        let (name, token) = (self.name, self.fencing_token);
        self.core.write_one(move |write| release(write, &name, token)).await
    }
}

/// Takes the lock and returns the tenure's token; `None` if another owner holds it.
pub(crate) fn acquire(
    write: &mut Write<'_>,
    name: &str,
    owner: &str,
    ttl: i64,
) -> rusqlite::Result<Option<i64>> {
    let now_us = write.now_us();
    let held = write.first(&sql::LOCK_GET, [name], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
    })?;
    if let Some((holder, token, expires_us)) = held
        && expires_us > now_us
    {
        return Ok((holder == owner).then_some(token));
    }
    let token = write.next_id(Sequence::FencingToken)?;
    write.run(&sql::LOCK_ACQUIRE, params![name, owner, token, after(now_us, ttl)])?;
    write.run(&sql::LOCK_PRUNE, params![now_us - KEEP_LAPSED_US, PRUNE_LIMIT])?;
    Ok(Some(token))
}

pub(crate) fn renew(
    write: &mut Write<'_>,
    name: &str,
    token: i64,
    ttl: i64,
) -> rusqlite::Result<bool> {
    let expires_us = after(write.now_us(), ttl);
    Ok(write.run(&sql::LOCK_RENEW, params![expires_us, name, token])? > 0)
}

pub(crate) fn release(write: &mut Write<'_>, name: &str, token: i64) -> rusqlite::Result<bool> {
    Ok(write.run(&sql::LOCK_RELEASE, params![name, token, write.now_us()])? > 0)
}
