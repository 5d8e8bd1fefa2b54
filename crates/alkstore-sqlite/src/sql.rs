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
    TAKE_IDS = "store/take_ids";
    IS_ATTACHED = "store/is_attached";
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
mod plans;
#[cfg(test)]
mod tests;
