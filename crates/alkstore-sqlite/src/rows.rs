//! From rows to the core crate's row structs. Columns are read in the order of the statements,
//! which a test compares with the names here.

use alkstore::engine::domain::whole_seconds;
use alkstore::engine::rows::{EventRow, JobRow, ScheduleRow};
use alkstore::{JobState, ScheduleOpts};
use rusqlite::types::FromSql;
use rusqlite::{Result, Row};

/// Reads a row's columns one after the other.
struct Columns<'r> {
    row: &'r Row<'r>,
    next: usize,
}

impl<'r> Columns<'r> {
    fn of(row: &'r Row<'r>) -> Self {
        Self { row, next: 0 }
    }

    fn take<T: FromSql>(&mut self) -> Result<T> {
        let value = self.row.get(self.next);
        self.next += 1;
        value
    }
}

/// A live job with what its claims need.
#[derive(Debug)]
pub(crate) struct LiveJob {
    pub(crate) row: JobRow,
    pub(crate) due_us: i64,
    pub(crate) claims: i64,
}

pub(crate) fn live_job(row: &Row<'_>) -> Result<LiveJob> {
    let mut columns = Columns::of(row);
    let (mut job, due_us) = job(&mut columns)?;
    if job.worker_id.is_some() {
        job.state = JobState::Processing;
        job.claim_expires_at = due_us.map(whole_seconds);
    } else {
        job.claim_expires_at = None;
    }
    Ok(LiveJob { row: job, due_us: due_us.unwrap_or(i64::MAX), claims: columns.take()? })
}

pub(crate) fn dead_job(row: &Row<'_>) -> Result<JobRow> {
    let mut columns = Columns::of(row);
    let (mut job, claim_expires_at) = job(&mut columns)?;
    job.state = JobState::Dead;
    job.claim_expires_at = claim_expires_at;
    job.last_error = columns.take()?;
    job.died_at = columns.take()?;
    Ok(job)
}

/// The columns that live and dead jobs share; the second value is the one in the claim's place.
fn job(columns: &mut Columns<'_>) -> Result<(JobRow, Option<i64>)> {
    let mut row = JobRow {
        id: columns.take()?,
        queue: columns.take()?,
        state: JobState::Pending,
        payload: columns.take()?,
        priority: columns.take()?,
        run_at: columns.take()?,
        attempts: columns.take()?,
        max_attempts: columns.take()?,
        worker_id: columns.take()?,
        claimed_at: columns.take()?,
        claim_expires_at: None,
        created_at: 0,
        expires_at: None,
        visibility_timeout_s: 0,
        backoff_base_s: 0,
        dead_letter_retention_s: None,
        last_error: None,
        died_at: None,
    };
    let claim = columns.take()?;
    row.created_at = columns.take()?;
    row.expires_at = columns.take()?;
    row.visibility_timeout_s = columns.take()?;
    row.backoff_base_s = columns.take()?;
    row.dead_letter_retention_s = columns.take()?;
    Ok((row, claim))
}

pub(crate) fn event(stream: &str, row: &Row<'_>) -> Result<EventRow> {
    let mut columns = Columns::of(row);
    Ok(EventRow {
        stream: stream.to_owned(),
        offset: columns.take()?,
        key: columns.take()?,
        created_at: columns.take()?,
        payload: columns.take()?,
    })
}

pub(crate) fn schedule(row: &Row<'_>) -> Result<ScheduleRow> {
    let mut columns = Columns::of(row);
    Ok(ScheduleRow {
        name: columns.take()?,
        spec: columns.take()?,
        queue: columns.take()?,
        payload: columns.take()?,
        opts: ScheduleOpts {
            priority: columns.take()?,
            max_attempts: columns.take()?,
            expires: columns.take()?,
        },
        next_fire_us: columns.take()?,
        last_fire_us: columns.take()?,
    })
}
