//! Every statement of the engine. A [`Stmt`] can be made here only.

/// A statement from a file in `sql/`.
#[derive(Debug)]
pub(crate) struct Stmt(&'static str);

impl Stmt {
    /// Leaves out the comments on top: the text is the key of the cache of prepared statements.
    const fn from_file(text: &'static str) -> Self {
        let mut text = text;
        while let [b'-', b'-', ..] = text.as_bytes() {
            let mut end = 0;
            while text.as_bytes()[end] != b'\n' {
                end += 1;
            }
            text = text.split_at(end + 1).1;
        }
        Self(text)
    }

    pub(crate) fn text(&self) -> &'static str {
        self.0
    }
}

/// The schema's migrations, in order; the position plus one is the version.
pub(crate) const MIGRATIONS: &[&str] = &[include_str!("../sql/migrations/0001_initial.sql")];

macro_rules! statements {
    ($($name:ident = $path:literal;)*) => {
        $(pub(crate) static $name: Stmt = Stmt::from_file(include_str!(concat!("../sql/", $path, ".sql")));)*

        /// All statements: name, file and text.
        #[cfg(test)]
        pub(crate) static ALL: &[(&str, &str, &Stmt)] =
            &[$(($path, include_str!(concat!("../sql/", $path, ".sql")), &$name)),*];
    };
}

statements! {
    BEGIN = "store/begin";
    COMMIT = "store/commit";
    ROLLBACK = "store/rollback";
    SAVEPOINT = "store/savepoint";
    RELEASE = "store/release";
    ROLLBACK_TO = "store/rollback_to";
    SAVEPOINT_TX = "store/savepoint_tx";
    ROLLBACK_TO_TX = "store/rollback_to_tx";
    SEQUENCES = "store/sequences";
    ADVANCE_SEQUENCES = "store/advance_sequences";
    DATA_VERSION = "store/data_version";
    MIGRATIONS_TABLE = "store/migrations_table";
    HAS_MIGRATIONS = "store/has_migrations";
    VERSION = "store/version";
    RECORD_MIGRATION = "store/record_migration";
    QUEUE_ENQUEUE = "queue/enqueue";
    QUEUE_DUE = "queue/due";
    QUEUE_SET_LANE = "queue/set_lane";
    QUEUE_READY = "queue/ready";
    QUEUE_CLAIM = "queue/claim";
    QUEUE_EXPIRED = "queue/expired";
    QUEUE_PURGE = "queue/purge";
    QUEUE_CANCEL = "queue/cancel";
    QUEUE_GET = "queue/get";
    QUEUE_GET_DEAD = "queue/get_dead";
    QUEUE_ACK_UNFENCED = "queue/ack_unfenced";
    QUEUE_WAIT = "queue/wait";
    JOB_ACK = "job/ack";
    JOB_HEARTBEAT = "job/heartbeat";
    JOB_RETRY = "job/retry";
    JOB_HAND_BACK = "job/hand_back";
    JOB_IS_LIVE = "job/is_live";
    JOB_BURY = "job/bury";
    JOB_BURY_REMOVE = "job/bury_remove";
    STREAM_PUBLISH = "stream/publish";
    STREAM_READ_SINCE = "stream/read_since";
    STREAM_HEAD = "stream/head";
    STREAM_SAVE_OFFSET = "stream/save_offset";
    STREAM_GET_OFFSET = "stream/get_offset";
    STREAM_TRIM_END = "stream/trim_end";
    STREAM_TRIM = "stream/trim";
    STREAM_TRIM_MARK = "stream/trim_mark";
    LOCK_GET = "lock/get";
    LOCK_ACQUIRE = "lock/acquire";
    LOCK_RENEW = "lock/renew";
    LOCK_RELEASE = "lock/release";
    LOCK_PRUNE = "lock/prune";
    SCHEDULE_GET = "schedule/get";
    SCHEDULE_UPSERT = "schedule/upsert";
    SCHEDULE_DELETE = "schedule/delete";
    SCHEDULE_DUE = "schedule/due";
    SCHEDULE_ADVANCE = "schedule/advance";
    SCHEDULE_NEXT = "schedule/next";
    NOTIFY_SEND = "notify/send";
    NOTIFY_READ_SINCE = "notify/read_since";
    NOTIFY_PRUNE = "notify/prune";
    OPS_QUEUE_NAMES = "ops/queue_names";
    OPS_QUEUE = "ops/queue";
    OPS_JOBS = "ops/jobs";
    OPS_DEAD = "ops/dead";
    OPS_STREAM_NAMES = "ops/stream_names";
    OPS_STREAM = "ops/stream";
    OPS_CONSUMERS = "ops/consumers";
    OPS_LOCKS = "ops/locks";
    OPS_SCHEDULES = "ops/schedules";
    OPS_REDRIVE = "ops/redrive";
    OPS_DISCARD = "ops/discard";
    OPS_RETRY_NOW = "ops/retry_now";
    OPS_SET_OFFSET = "ops/set_offset";
    OPS_FORGET_CONSUMER = "ops/forget_consumer";
    OPS_RELEASE_LOCK = "ops/release_lock";
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &[&str] = &[
        "id",
        "queue",
        "payload",
        "priority",
        "run_at",
        "attempts",
        "max_attempts",
        "worker_id",
        "claimed_at",
        "due_us",
        "created_at",
        "expires_at",
        "visibility_timeout_s",
        "backoff_base_s",
        "dead_letter_retention_s",
        "claims",
    ];
    const DEAD: &[&str] = &[
        "id",
        "queue",
        "payload",
        "priority",
        "run_at",
        "attempts",
        "max_attempts",
        "worker_id",
        "claimed_at",
        "claim_expires_at",
        "created_at",
        "expires_at",
        "visibility_timeout_s",
        "backoff_base_s",
        "dead_letter_retention_s",
        "last_error",
        "died_at",
    ];
    const EVENT: &[&str] = &["offset", "key", "created_at", "payload"];
    const SCHEDULE: &[&str] = &[
        "name",
        "spec",
        "queue",
        "payload",
        "priority",
        "max_attempts",
        "expires",
        "next_fire_us",
        "last_fire_us",
    ];

    fn database() -> rusqlite::Connection {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        crate::conn::plan_once(&connection).unwrap();
        connection.execute_batch(MIGRATIONS_TABLE.text()).unwrap();
        for migration in MIGRATIONS {
            connection.execute_batch(migration).unwrap();
        }
        connection
    }

    /// Parameters are bound by position: the order in a file's header is the order in its text.
    #[test]
    fn every_statement_prepares_and_takes_the_parameters_of_its_header() {
        let connection = database();
        let mut wrong = Vec::new();
        for (name, file, stmt) in ALL {
            let prepared =
                connection.prepare(stmt.text()).unwrap_or_else(|e| panic!("{name}: {e}"));
            let taken: Vec<&str> = (1..=prepared.parameter_count())
                .filter_map(|i| prepared.parameter_name(i))
                .collect();
            let header: Vec<&str> = file
                .lines()
                .take_while(|line| line.starts_with("--"))
                .filter_map(|line| line.strip_prefix("-- :"))
                .flat_map(|line| line.trim_end_matches(',').split(", "))
                .map(|parameter| parameter.trim_start_matches(':'))
                .collect();
            let taken: Vec<&str> = taken.iter().map(|name| name.trim_start_matches(':')).collect();
            if header != taken {
                wrong.push(format!("{name}: header {header:?}, text {taken:?}"));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn columns_are_read_in_the_order_of_the_statements() {
        let connection = database();
        for (stmt, columns) in [
            (&QUEUE_READY, JOB),
            (&QUEUE_GET, JOB),
            (&OPS_JOBS, JOB),
            (&QUEUE_GET_DEAD, DEAD),
            (&OPS_DEAD, DEAD),
            (&STREAM_READ_SINCE, EVENT),
            (&SCHEDULE_DUE, SCHEDULE),
            (&OPS_SCHEDULES, SCHEDULE),
        ] {
            let prepared = connection.prepare(stmt.text()).unwrap();
            assert_eq!(prepared.column_names().collect::<Vec<_>>(), columns);
        }
    }

    #[test]
    fn no_statement_is_planned_for_the_value_of_a_parameter() {
        let connection = database();
        let mut planned_again = Vec::new();
        for (name, _, stmt) in ALL.iter().filter(|(name, ..)| !name.starts_with("store/")) {
            let mut prepared = connection.prepare(stmt.text()).unwrap();
            for value in 1..4 {
                for i in 1..=prepared.parameter_count() {
                    prepared.raw_bind_parameter(i, value).unwrap();
                }
                // Some fail on such values; they were planned all the same.
                let _ = prepared.raw_query().next().map(|_| ());
            }
            if prepared.get_status(rusqlite::StatementStatus::RePrepare) > 0 {
                planned_again.push(*name);
            }
        }
        assert_eq!(planned_again, Vec::<&str>::new());
    }
}
