//! Every statement seeks: by its plan on the schema, and by counted steps on full tables.

use rusqlite::StatementStatus::VmStep;

use crate::conn::{Session, Write, WriterSession, prepare};
use crate::queue::{claim, promote};
use crate::sql::{self, Stmt};
use crate::{Durability, SqliteOpts};

/// Statements that read whole tables of few rows, or the first few rows in the order of an index.
const SCANS: &[&str] = &["notify/prune", "ops/locks", "ops/schedules", "store/version"];
/// Statements that sort rows of one queue, which only an operator asks for.
const SORTS: &[&str] = &["ops/jobs", "ops/queue_names", "ops/stream_names"];

fn open(folder: &tempfile::TempDir) -> WriterSession {
    let opts = SqliteOpts { durability: Durability::Normal, ..Default::default() };
    prepare(&folder.path().join("plans.db"), &opts).unwrap()
}

fn plan(session: &Session, stmt: &Stmt) -> Vec<String> {
    let text = format!("EXPLAIN QUERY PLAN {}", stmt.text());
    let mut prepared = session.connection().prepare(&text).unwrap();
    for i in 1..=prepared.parameter_count() {
        prepared.raw_bind_parameter(i, 1).unwrap();
    }
    let mut rows = prepared.raw_query();
    let mut details = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        details.push(row.get(3).unwrap());
    }
    details
}

#[test]
fn no_statement_scans_a_table_or_sorts() {
    let folder = tempfile::tempdir().unwrap();
    let session = open(&folder);
    for (name, _, stmt) in sql::ALL.iter().filter(|(name, ..)| *name != "store/data_version") {
        for detail in plan(&session, stmt) {
            let scans = detail.starts_with("SCAN __alkstore") || detail.starts_with("SCAN job");
            assert!(!scans || SCANS.contains(name), "{name}: {detail}");
            let sorts = detail.contains("TEMP B-TREE");
            assert!(!sorts || SORTS.contains(name), "{name}: {detail}");
        }
    }
}

#[test]
fn a_claim_seeks_the_ready_lane() {
    let folder = tempfile::tempdir().unwrap();
    let session = open(&folder);
    assert_eq!(
        plan(&session, &sql::QUEUE_READY),
        ["SEARCH __alkstore_job USING INDEX __alkstore_job_ready (queue=?)"]
    );
    assert_eq!(
        plan(&session, &sql::QUEUE_DUE),
        ["SEARCH __alkstore_job USING INDEX __alkstore_job_due (queue=? AND due_us<?)"]
    );
}

/// What a claim runs.
const CLAIM: &[&Stmt] =
    &[&sql::QUEUE_DUE, &sql::QUEUE_READY, &sql::QUEUE_CLAIM, &sql::QUEUE_SET_LANE];

/// Fills the queue with `n` jobs of each kind, the ones that cannot be claimed in front.
fn fill(session: &WriterSession, n: i64) {
    let kinds = [
        // lane, priority, due_us, attempts, worker_id, expires_at
        "0, 0, now, 0, NULL, NULL",              // ready
        "1, 9, now + 1000000000, 0, NULL, NULL", // delayed
        "1, 9, now + 1000000000, 1, 'w', NULL",  // leased
        "0, 9, now, 0, NULL, 1",                 // expired, not swept
        "1, 9, now - 1, 3, 'w', NULL",           // exhausted
    ];
    let numbers = format!(
        "WITH RECURSIVE numbers (i, now) AS (
             SELECT 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER)
             UNION ALL SELECT i + 1, now FROM numbers WHERE i < {n}
         )"
    );
    let mut fill = "BEGIN;".to_owned();
    for (kind, columns) in (0..).zip(kinds) {
        fill += &format!(
            "{numbers}
             INSERT INTO __alkstore_job (
                 id, lane, priority, due_us, attempts, worker_id, expires_at, queue, run_at,
                 max_attempts, claims, created_at, visibility_timeout_s, backoff_base_s, payload
             )
             SELECT i + {n} * {kind}, {columns}, 'q', 0, 3, 0, 0, 300, 5, x'31' FROM numbers;"
        );
    }
    fill += &format!(
        "{numbers}
         INSERT INTO __alkstore_dead (
             id, queue, priority, run_at, attempts, max_attempts, created_at,
             visibility_timeout_s, backoff_base_s, last_error, died_at, payload
         )
         SELECT i + {n} * 9, 'q', 9, 0, 3, 3, 0, 300, 5, 'e', 0, x'31' FROM numbers;
         UPDATE __alkstore_sequence SET job = {n} * 10;
         COMMIT;"
    );
    session.committing(|session| session.connection().execute_batch(&fill)).unwrap();
}

/// The steps of a claim of ten, once claims have moved out of the way what is in it.
fn steps(n: i64) -> i64 {
    let folder = tempfile::tempdir().unwrap();
    let session = open(&folder);
    fill(&session, n);
    session.run(&sql::BEGIN, []).unwrap();
    let mut write = Write::new(&session);
    let mut claimed = 0;
    while promote(&mut write, "q").unwrap().more {}
    while claimed < 10 {
        claimed += claim(&mut write, "q", "w", 10).unwrap().jobs.len();
    }
    for stmt in CLAIM {
        session.prepared(stmt).unwrap().reset_status(VmStep);
    }
    assert!(!promote(&mut write, "q").unwrap().more);
    assert_eq!(claim(&mut write, "q", "w", 10).unwrap().jobs.len(), 10);
    let count = |stmt: &&Stmt| i64::from(session.prepared(stmt).unwrap().get_status(VmStep));
    let steps = CLAIM.iter().map(count).sum();
    session.run(&sql::ROLLBACK, []).unwrap();
    steps
}

#[test]
fn a_claim_takes_as_many_steps_on_full_tables_as_on_small_ones() {
    let (small, full) = (steps(100), steps(100_000));
    assert!(small > 0 && full * 2 <= small * 3, "100 of each: {small}; 100,000: {full}");
}
