//! The statements as files: their parameters, their columns, and that they are planned once.

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
        let prepared = connection.prepare(stmt.text()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let taken: Vec<&str> =
            (1..=prepared.parameter_count()).filter_map(|i| prepared.parameter_name(i)).collect();
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
