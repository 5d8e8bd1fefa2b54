-- The tables of every mechanism. Times end in _us (unix microseconds) or _at (unix seconds).

-- The last id of each kind that was given out. Never lowered, so none is used again.
CREATE TABLE __alkstore_sequence (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    job INTEGER NOT NULL,
    event INTEGER NOT NULL,
    fencing_token INTEGER NOT NULL,
    notification INTEGER NOT NULL
);
INSERT INTO __alkstore_sequence (id, job, event, fencing_token, notification)
VALUES (1, 0, 0, 0, 0);

-- A row's lane says which index finds it: 0 ready (a claim seeks it), 1 timed (at due_us it
-- becomes ready, or its claim lapses), 2 parked (past expires_at: only a sweep finds it).
-- It is claimed while worker_id is set; due_us is then the claim's deadline.
CREATE TABLE __alkstore_job (
    id INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    lane INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    run_at INTEGER NOT NULL,
    due_us INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    claims INTEGER NOT NULL,
    worker_id TEXT,
    claimed_at INTEGER,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    visibility_timeout_s INTEGER NOT NULL,
    backoff_base_s INTEGER NOT NULL,
    dead_letter_retention_s INTEGER,
    payload BLOB NOT NULL
);
CREATE INDEX __alkstore_job_ready
    ON __alkstore_job (queue, priority DESC, run_at, id) WHERE lane = 0;
CREATE INDEX __alkstore_job_due
    ON __alkstore_job (queue, due_us) WHERE lane = 1;
CREATE INDEX __alkstore_job_expiry
    ON __alkstore_job (queue, expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE __alkstore_dead (
    id INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    run_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    worker_id TEXT,
    claimed_at INTEGER,
    claim_expires_at INTEGER,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    visibility_timeout_s INTEGER NOT NULL,
    backoff_base_s INTEGER NOT NULL,
    dead_letter_retention_s INTEGER,
    last_error TEXT NOT NULL,
    died_at INTEGER NOT NULL,
    purge_at INTEGER,
    payload BLOB NOT NULL
);
CREATE INDEX __alkstore_dead_queue
    ON __alkstore_dead (queue, id);
CREATE INDEX __alkstore_dead_purge
    ON __alkstore_dead (queue, purge_at) WHERE purge_at IS NOT NULL;

CREATE TABLE __alkstore_event (
    stream TEXT NOT NULL,
    offset INTEGER NOT NULL,
    key TEXT,
    created_at INTEGER NOT NULL,
    payload BLOB NOT NULL,
    PRIMARY KEY (stream, offset)
) WITHOUT ROWID;

-- How far each stream was trimmed: the greatest offset that was deleted.
CREATE TABLE __alkstore_trim (
    stream TEXT PRIMARY KEY,
    last_offset INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE __alkstore_consumer (
    stream TEXT NOT NULL,
    consumer TEXT NOT NULL,
    offset INTEGER NOT NULL,
    PRIMARY KEY (stream, consumer)
) WITHOUT ROWID;

CREATE TABLE __alkstore_lock (
    name TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    fencing_token INTEGER NOT NULL,
    expires_us INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX __alkstore_lock_expiry
    ON __alkstore_lock (expires_us);

CREATE TABLE __alkstore_schedule (
    name TEXT PRIMARY KEY,
    spec TEXT NOT NULL,
    queue TEXT NOT NULL,
    payload BLOB NOT NULL,
    priority INTEGER NOT NULL,
    max_attempts INTEGER,
    expires INTEGER,
    next_fire_us INTEGER NOT NULL,
    last_fire_us INTEGER
) WITHOUT ROWID;
CREATE INDEX __alkstore_schedule_next
    ON __alkstore_schedule (next_fire_us);

-- The last notification of each channel, for the listeners of other processes.
CREATE TABLE __alkstore_notification (
    channel TEXT PRIMARY KEY,
    id INTEGER NOT NULL,
    sent_us INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX __alkstore_notification_id
    ON __alkstore_notification (id);
