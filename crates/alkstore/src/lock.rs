//! Named locks with a time to live.

use async_trait::async_trait;

use crate::Result;

/// One tenure of a named lock. Dropping it does not release it.
///
/// Others are excluded until it is released or its time runs out; nobody is told of the latter.
/// Hand the fencing token to the resource that the lock protects, so that it can refuse a late
/// writer.
#[async_trait]
pub trait Lock: Send + Sync {
    /// The lock's name.
    fn name(&self) -> &str;

    /// Grows with every new acquisition in the store, for ever. 0 from an engine without tokens;
    /// those of this project have them.
    fn fencing_token(&self) -> i64 {
        0
    }

    /// A full `ttl` seconds from now; `false` once it was released or taken over.
    ///
    /// # Errors
    /// [`Database`](crate::Error::Database) for a `ttl` that is not positive.
    async fn renew(&self, ttl: i64) -> Result<bool>;

    /// Frees the lock; `false` if this tenure was over.
    async fn release(self: Box<Self>) -> Result<bool>;
}
