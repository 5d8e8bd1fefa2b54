//! SQL functions with which any connection of the application writes to the store.
//!
//! Each checks all of its arguments before its first statement: SQLite undoes a failed statement,
//! but not what functions in it have done.

use std::fmt::Display;
use std::sync::Arc;

use alkstore::engine::clock::Clock;
use alkstore::engine::stamps::{OUTBOX, PLAIN};
use alkstore::engine::{outbox_queue, text};
use alkstore::{
    EnqueueOpts, QueueOpts, Result, encode_payload_text, validate_local_name, validate_shared_name,
};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, DEFAULT_NAME, Error, ErrorCode, TransactionState, ffi};

use crate::conn::{Session, Write, WriteState};
use crate::error::sqlite_error;
use crate::queue::NewJob;
use crate::stream::NewEvent;
use crate::{migrate, notify, queue, sql, stream};

/// Adds SQL functions to a connection of the application's own, of any thread or process, to the
/// database file of a store.
///
/// | function | returns |
/// |---|---|
/// | `alkstore_enqueue(queue, payload, delay_s, run_at, priority, max_attempts, expires_s)` | the job's id |
/// | `alkstore_outbox_enqueue(outbox, …)`, the rest as above | the job's id |
/// | `alkstore_publish(stream, payload, key)` | the event's offset |
/// | `alkstore_notify(channel, payload)` | NULL |
/// | `alkstore_save_offset(stream, consumer, offset)` | NULL |
///
/// They do what the methods of [`TxHandle`](alkstore::TxHandle) do, with the same checks and
/// stamps, in the connection's own transaction; receivers of open stores wake after its commit. A
/// payload is JSON text, stored byte for byte. Arguments from `delay_s` on, `key` and a
/// notification's payload may be left out or NULL; the numbers are those of
/// [`EnqueueOpts`](alkstore::EnqueueOpts).
///
/// Call them in a trigger or in a `SELECT` of their own, run with `query_row`. (rusqlite's
/// `execute` takes no `SELECT`: it fails *after* the call. `execute_batch` stops at the first row.)
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use alkstore::{QueueOpts, Store};
/// use alkstore_sqlite::{SqliteOpts, SqliteStore};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("app.db");
///
/// let store = SqliteStore::open(&path, SqliteOpts::default())?;
/// let mut db = rusqlite::Connection::open(&path)?;
/// alkstore_sqlite::attach(&db)?;
/// db.execute_batch(
///     "CREATE TABLE customer (id INTEGER PRIMARY KEY, email TEXT);
///      CREATE TRIGGER greet AFTER INSERT ON customer BEGIN
///          SELECT alkstore_enqueue('emails', json_object('to', new.email));
///      END;",
/// )?;
///
/// let tx = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
/// tx.execute("INSERT INTO customer (email) VALUES ('ada@example.org')", [])?;
/// let event = r#"{"new": "ada@example.org"}"#;
/// let offset: i64 =
///     tx.query_row("SELECT alkstore_publish('customers', ?1)", [event], |row| row.get(0))?;
/// tx.commit()?;
///
/// assert_eq!(store.stream("customers").await?.read_since(0, 10).await?[0].offset, offset);
/// let queue = store.queue("emails", QueueOpts::default()).await?;
/// let job = queue.claim_one("worker").await?.expect("the trigger enqueued it");
/// assert_eq!(job.job().payload, br#"{"to":"ada@example.org"}"#);
/// # Ok(()) }
/// ```
///
/// # Transactions
///
/// - Begin with `BEGIN IMMEDIATE`. SQLite lets no transaction write that has read before others
///   wrote.
/// - After a failed statement that calls them, `ROLLBACK`, or `ROLLBACK TO` a savepoint from
///   before it: SQLite undoes the statement's rows, but perhaps not the job that it enqueued. A
///   call that is refused for its arguments has done nothing.
/// - Outside a transaction, a statement that writes commits together with the calls in it and in
///   its triggers. A `SELECT` commits each call by itself, and may not read tables.
/// - A rollback takes the returned ids back, also one to a savepoint: the next jobs and events,
///   anybody's, may get the same numbers. Forget them. (Those of a store's own transactions are
///   never used again.)
///
/// The functions last as long as the connection. Triggers that call them work in the store's own
/// transactions as well. With `PRAGMA trusted_schema` off, SQLite lets no trigger call them.
///
/// # Errors
/// [`Database`](alkstore::Error::Database) if the connection's main database is not one of a store
/// that this version knows, with what to do.
pub fn attach(connection: &Connection) -> Result<()> {
    let (version, attached) = lent(connection, |session| {
        let attached = session.one(&sql::IS_ATTACHED, [FUNCTIONS[0].name], |row| row.get(0));
        Ok((migrate::version(session)?, attached?))
    })
    .map_err(sqlite_error)?;
    migrate::check(version)?;
    if attached {
        return Ok(());
    }
    register(connection, None).map_err(sqlite_error)
}

/// Adds the functions to a connection: a writer's, or one of the application's own.
pub(crate) fn register(
    connection: &Connection,
    writer: Option<&Arc<WriteState>>,
) -> rusqlite::Result<()> {
    for function in FUNCTIONS {
        let writer = writer.cloned();
        // Not DIRECTONLY, for triggers; not INNOCUOUS, for a file that is attached beside the
        // store's could then write to the store.
        let flags = FunctionFlags::SQLITE_UTF8;
        connection.create_scalar_function(function.name, -1, flags, move |context| {
            let call = Call::new(function, context, writer.as_deref())?;
            (function.run)(&call)
        })?;
    }
    Ok(())
}

/// A function; the arguments beyond the required ones may be left out.
#[derive(Debug)]
struct Function {
    name: &'static str,
    args: &'static [&'static str],
    required: usize,
    run: fn(&Call<'_>) -> rusqlite::Result<Option<i64>>,
}

static FUNCTIONS: &[Function] = &[
    Function {
        name: "alkstore_enqueue",
        args: &["queue", "payload", "delay_s", "run_at", "priority", "max_attempts", "expires_s"],
        required: 2,
        run: |call| call.enqueue(&PLAIN, str::to_owned),
    },
    Function {
        name: "alkstore_outbox_enqueue",
        args: &["outbox", "payload", "delay_s", "run_at", "priority", "max_attempts", "expires_s"],
        required: 2,
        run: |call| call.enqueue(&OUTBOX, outbox_queue),
    },
    Function {
        name: "alkstore_publish",
        args: &["stream", "payload", "key"],
        required: 2,
        run: |call| call.publish(),
    },
    Function {
        name: "alkstore_notify",
        args: &["channel", "payload"],
        required: 1,
        run: |call| call.notify(),
    },
    Function {
        name: "alkstore_save_offset",
        args: &["stream", "consumer", "offset"],
        required: 3,
        run: |call| call.save_offset(),
    },
];

/// A call of a function.
struct Call<'c> {
    function: &'static Function,
    context: &'c Context<'c>,
    writer: Option<&'c WriteState>,
}

impl<'c> Call<'c> {
    fn new(
        function: &'static Function,
        context: &'c Context<'c>,
        writer: Option<&'c WriteState>,
    ) -> rusqlite::Result<Self> {
        let Function { args, required, .. } = function;
        let call = Self { function, context, writer };
        let given = context.len();
        if !(*required..=args.len()).contains(&given) {
            let mut takes = args[..*required].join(", ");
            if let optional @ [_, ..] = &args[*required..] {
                takes.push_str(&format!(" [, {}]", optional.join(", ")));
            }
            return Err(call.refused(format_args!("it takes ({takes}), but {given} were given")));
        }
        Ok(call)
    }

    fn enqueue(
        &self,
        defaults: &QueueOpts,
        queue: impl FnOnce(&str) -> String,
    ) -> rusqlite::Result<Option<i64>> {
        let name = self.name(0, validate_shared_name)?;
        let opts = EnqueueOpts {
            delay: self.integer(2)?,
            run_at: self.integer(3)?,
            priority: self.integer(4)?.unwrap_or(0),
            max_attempts: self.integer(5)?,
            expires: self.integer(6)?,
        };
        let job = NewJob::new(Clock::System.now_us(), &opts, defaults, self.payload(1)?);
        let queue: Arc<str> = queue(name).into();
        self.write(|write| queue::enqueue(write, &queue, &job).map(Some))
    }

    fn publish(&self) -> rusqlite::Result<Option<i64>> {
        let stream: Arc<str> = self.name(0, validate_shared_name)?.into();
        let key = if self.is_null(2) { None } else { Some(self.name(2, validate_local_name)?) };
        let payload = self.payload(1)?;
        let event = NewEvent::new(Clock::System.now_us(), key.map(str::to_owned), || Ok(payload));
        let event = event.map_err(|error| self.refused(text::chain(&error)))?;
        self.write(|write| stream::publish(write, &stream, &event).map(Some))
    }

    fn notify(&self) -> rusqlite::Result<Option<i64>> {
        let channel: Arc<str> = self.name(0, validate_shared_name)?.into();
        if !self.is_null(1) {
            self.payload(1)?;
        }
        self.write(|write| notify::notify(write, &channel))?;
        Ok(None)
    }

    fn save_offset(&self) -> rusqlite::Result<Option<i64>> {
        let stream = self.name(0, validate_shared_name)?;
        let consumer = self.name(1, validate_local_name)?;
        let offset = self.integer(2)?.ok_or_else(|| self.wrong_type(2, "an integer"))?;
        self.write(|write| stream::save_offset(write, stream, consumer, offset))?;
        Ok(None)
    }

    fn get(&self, i: usize) -> ValueRef<'_> {
        if i < self.context.len() { self.context.get_raw(i) } else { ValueRef::Null }
    }

    fn is_null(&self, i: usize) -> bool {
        self.get(i) == ValueRef::Null
    }

    fn text(&self, i: usize, wanted: &str) -> rusqlite::Result<&str> {
        let ValueRef::Text(bytes) = self.get(i) else {
            return Err(self.wrong_type(i, wanted));
        };
        std::str::from_utf8(bytes).map_err(|error| self.refused_arg(i, error))
    }

    fn name(&self, i: usize, validate: fn(&str) -> Result<()>) -> rusqlite::Result<&str> {
        let name = self.text(i, "text")?;
        validate(name).map_err(|error| self.refused_arg(i, text::chain(&error)))?;
        Ok(name)
    }

    fn payload(&self, i: usize) -> rusqlite::Result<Vec<u8>> {
        let json = self.text(i, "JSON text")?;
        encode_payload_text(json).map_err(|error| self.refused_arg(i, text::chain(&error)))
    }

    fn integer(&self, i: usize) -> rusqlite::Result<Option<i64>> {
        match self.get(i) {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(integer) => Ok(Some(integer)),
            _ => Err(self.wrong_type(i, "an integer")),
        }
    }

    fn wrong_type(&self, i: usize, wanted: &str) -> Error {
        let given = match self.get(i) {
            ValueRef::Null => "NULL",
            ValueRef::Integer(_) => "an integer",
            ValueRef::Real(_) => "a floating-point number",
            ValueRef::Text(_) => "text",
            ValueRef::Blob(_) => "a BLOB",
        };
        self.refused(format_args!("{} must be {wanted}, not {given}", self.function.args[i]))
    }

    fn refused_arg(&self, i: usize, why: impl Display) -> Error {
        self.refused(format_args!("{}: {why}", self.function.args[i]))
    }

    fn refused(&self, why: impl Display) -> Error {
        Error::UserFunctionError(format!("{}: {why}", self.function.name).into())
    }

    /// Runs the function's statements.
    fn write<T>(
        &self,
        f: impl FnOnce(&mut Write<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        on_connection(self.context, |session| {
            if let Some(writer) = self.writer {
                return f(&mut Write::within(session, writer));
            }
            match transaction(session)? {
                Transaction::Open => f(&mut Write::foreign(session)),
                Transaction::Reading => Err(self.refused(READING)),
                Transaction::None => committed(session, f),
            }
        })
        .map_err(|error| self.failed(error))
    }

    /// SQLite takes a message or a code from a function. Callers act on codes.
    fn failed(&self, error: Error) -> Error {
        match error {
            Error::SqliteFailure(failure, Some(why))
                if matches!(failure.code, ErrorCode::Unknown | ErrorCode::ConstraintViolation) =>
            {
                self.refused(why)
            }
            Error::SqliteFailure(failure, _) => Error::SqliteFailure(failure, None),
            error => error,
        }
    }
}

const READING: &str = "outside a transaction no SELECT may read a table while this is called: \
                       begin a transaction first";

/// What the statements of a call are part of.
enum Transaction {
    /// One that the application ends, or that ends with the statement around the call.
    Open,
    /// None, but a statement is reading.
    Reading,
    /// None.
    None,
}

fn transaction(session: &Session) -> rusqlite::Result<Transaction> {
    let connection = session.connection();
    if !connection.is_autocommit() {
        return Ok(Transaction::Open);
    }
    Ok(match connection.transaction_state(DEFAULT_NAME)? {
        TransactionState::None => Transaction::None,
        TransactionState::Read => Transaction::Reading,
        _ => Transaction::Open,
    })
}

/// Runs a call in a transaction of its own. Without one each of its statements would be committed
/// by itself, and an id would be visible as given out before its row is.
fn committed<T>(
    session: &Session,
    f: impl FnOnce(&mut Write<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    session.run(&sql::BEGIN, [])?;
    let written = f(&mut Write::foreign(session)).and_then(|value| {
        session.run(&sql::COMMIT, [])?;
        Ok(value)
    });
    if written.is_err() && !session.connection().is_autocommit() {
        // The first error is the one to report.
        let _ = session.run(&sql::ROLLBACK, []);
    }
    written
}

/// Runs a call's statements on the connection that it came from, and keeps them from showing in
/// `last_insert_rowid()`.
#[expect(unsafe_code, reason = "rusqlite has no safe way to a function's connection")]
fn on_connection<T>(
    context: &Context<'_>,
    f: impl FnOnce(&Session) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    // SAFETY: SQLite made this call on the thread that uses the connection, which is there until
    // the call returns. It is sent to no other thread.
    let connection = unsafe { context.get_connection() }?;
    let last_rowid = connection.last_insert_rowid();
    let result = lent(&connection, f);
    // SAFETY: as above.
    unsafe { ffi::sqlite3_set_last_insert_rowid(connection.handle(), last_rowid) };
    result
}

/// Runs statements of ours on a connection of the application's.
#[expect(unsafe_code, reason = "rusqlite has no safe way to own a connection that stays open")]
fn lent<T>(
    connection: &Connection,
    f: impl FnOnce(&Session) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    // SAFETY: the handle is that of an open connection of this thread, and stays open: what is
    // made of it is gone before this borrow of the connection ends, and does not close it.
    let session = Session::new(unsafe { Connection::from_handle(connection.handle()) }?);
    f(&session)
}
