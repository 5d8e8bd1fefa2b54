//! The writer's connection, on which the application's SQL runs as well.
//!
//! That SQL cannot end the writer's transaction, and if it makes SQLite roll it back, whatever
//! it does afterwards is not taken for the transaction.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use alkstore::RESERVED_PREFIX;
use rusqlite::Result;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization, Wal};

use super::Session;
use super::write::WriteState;
use crate::{functions, sql};

/// Settings of the connection that the writer relies on.
const SETTINGS: [&str; 6] = [
    "busy_timeout",
    "journal_mode",
    "locking_mode",
    "query_only",
    "synchronous",
    "wal_autocheckpoint",
];

#[derive(Debug, Default)]
struct Guard {
    /// The writer itself commits; any other commit is turned into a rollback.
    committing: AtomicBool,
    /// There was a rollback since the last BEGIN of the writer's.
    rolled_back: AtomicBool,
    /// The application's SQL is running, in which BEGIN, COMMIT and the like are refused.
    user_sql: AtomicBool,
    wal_frames: AtomicI32,
}

/// The writer's connection.
#[derive(Debug)]
pub(crate) struct WriterSession {
    session: Session,
    guard: Arc<Guard>,
    state: Arc<WriteState>,
}

impl WriterSession {
    pub(super) fn new(mut session: Session) -> Result<Self> {
        let guard = Arc::new(Guard::default());
        let connection = session.connection_mut();
        let commit = guard.clone();
        connection.commit_hook(Some(move || !commit.committing.load(Ordering::Relaxed)))?;
        let rollback = guard.clone();
        connection.rollback_hook(Some(move || {
            rollback.rolled_back.store(true, Ordering::Relaxed);
        }))?;
        let wal = guard.clone();
        // This takes the place of SQLite's own checkpoints, which would stall a commit.
        connection.wal_hook(Some(move |log: &mut Wal, frames| {
            if log.name() == rusqlite::MAIN_DB {
                wal.wal_frames.store(frames, Ordering::Relaxed);
            }
            Ok(())
        }))?;
        let users = guard.clone();
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            if users.user_sql.load(Ordering::Relaxed) && is_refused(&context.action) {
                Authorization::Deny
            } else {
                Authorization::Allow
            }
        }))?;
        let state = Arc::new(WriteState::default());
        functions::register(session.connection(), Some(&state))?;
        Ok(Self { session, guard, state })
    }

    pub(super) fn state(&self) -> &WriteState {
        &self.state
    }

    /// Takes the file's write lock, if nobody has it.
    pub(super) fn begin(&self) -> Result<()> {
        self.roll_back()?;
        self.run(&sql::BEGIN, [])?;
        self.guard.rolled_back.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Lets `f` commit.
    pub(crate) fn committing<T>(&self, f: impl FnOnce(&Session) -> T) -> T {
        self.guard.committing.store(true, Ordering::Relaxed);
        let result = f(&self.session);
        self.guard.committing.store(false, Ordering::Relaxed);
        result
    }

    /// Whether the transaction that was begun is not there any more.
    pub(super) fn is_gone(&self) -> bool {
        self.connection().is_autocommit() || self.guard.rolled_back.load(Ordering::Relaxed)
    }

    /// Rolls back whatever transaction is there.
    pub(super) fn roll_back(&self) -> Result<()> {
        if !self.connection().is_autocommit() {
            self.run(&sql::ROLLBACK, [])?;
        }
        Ok(())
    }

    /// Until it is dropped, SQL that would end the writer's transaction is refused.
    pub(super) fn guard_user_sql(&self) -> UserSql {
        self.guard.user_sql.store(true, Ordering::Relaxed);
        UserSql(self.guard.clone())
    }

    /// Pages in the `-wal` file after the last commit.
    pub(super) fn wal_frames(&self) -> i32 {
        self.guard.wal_frames.load(Ordering::Relaxed)
    }
}

impl Deref for WriterSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

/// SQL would end the transaction, or change what the writer relies on.
fn is_refused(action: &AuthAction<'_>) -> bool {
    match action {
        AuthAction::Transaction { .. } => true,
        AuthAction::Savepoint { savepoint_name, .. } => savepoint_name
            .get(..RESERVED_PREFIX.len())
            .is_some_and(|prefix| prefix.eq_ignore_ascii_case(RESERVED_PREFIX)),
        AuthAction::Pragma { pragma_name, pragma_value: Some(_) } => {
            SETTINGS.iter().any(|setting| setting.eq_ignore_ascii_case(pragma_name))
        }
        _ => false,
    }
}

/// The application's SQL is running.
#[derive(Debug)]
pub(crate) struct UserSql(Arc<Guard>);

impl Drop for UserSql {
    fn drop(&mut self) {
        self.0.user_sql.store(false, Ordering::Relaxed);
    }
}
