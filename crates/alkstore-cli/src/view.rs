//! Jobs and events as they are shown, to people and to machines.

use alkstore::engine::outbox_of_queue;
use alkstore::{Job, JobState, StreamEvent};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::output::{shown_short, utc};

/// A payload takes no more of a table's row than this.
const PAYLOAD_WIDTH: usize = 60;

/// A job's JSON line.
#[derive(Serialize)]
pub(crate) struct JobLine<'a> {
    id: i64,
    queue: String,
    state: &'static str,
    /// As stored; `null` if the bytes are no JSON, which `payload_text` then shows.
    payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_text: Option<String>,
    priority: i64,
    run_at: i64,
    attempts: i64,
    max_attempts: i64,
    worker_id: Option<&'a str>,
    claimed_at: Option<i64>,
    claim_expires_at: Option<i64>,
    created_at: i64,
    expires_at: Option<i64>,
    visibility_timeout_s: i64,
    backoff_base_s: i64,
    dead_letter_retention_s: Option<i64>,
    last_error: Option<&'a str>,
    died_at: Option<i64>,
}

impl<'a> From<&'a Job> for JobLine<'a> {
    fn from(job: &'a Job) -> Self {
        let (payload, payload_text) = payload(&job.payload);
        Self {
            id: job.id,
            queue: address(&job.queue),
            state: state(job.state),
            payload,
            payload_text,
            priority: job.priority,
            run_at: job.run_at,
            attempts: job.attempts,
            max_attempts: job.max_attempts,
            worker_id: job.worker_id.as_deref(),
            claimed_at: job.claimed_at,
            claim_expires_at: job.claim_expires_at,
            created_at: job.created_at,
            expires_at: job.expires_at,
            visibility_timeout_s: job.visibility_timeout_s,
            backoff_base_s: job.backoff_base_s,
            dead_letter_retention_s: job.dead_letter_retention_s,
            last_error: job.last_error.as_deref(),
            died_at: job.died_at,
        }
    }
}

/// The columns of [`job_row`].
pub(crate) const JOB_HEADER: &[&str] =
    &[">ID", "STATE", ">PRIORITY", ">ATTEMPTS", "RUN AT (UTC)", "WORKER", "ERROR", "PAYLOAD"];

/// A job's row in a table.
pub(crate) fn job_row(job: &Job) -> Vec<String> {
    vec![
        job.id.to_string(),
        state(job.state).to_owned(),
        job.priority.to_string(),
        format!("{}/{}", job.attempts, job.max_attempts),
        utc(job.run_at),
        job.worker_id.as_deref().map(|worker| shown_short(worker, 24)).unwrap_or_default(),
        job.last_error.as_deref().map(|error| shown_short(error, 40)).unwrap_or_default(),
        payload_short(&job.payload),
    ]
}

/// An event's JSON line.
#[derive(Serialize)]
pub(crate) struct EventLine<'a> {
    offset: i64,
    stream: &'a str,
    key: Option<&'a str>,
    payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_text: Option<String>,
    created_at: i64,
}

impl<'a> From<&'a StreamEvent> for EventLine<'a> {
    fn from(event: &'a StreamEvent) -> Self {
        let (payload, payload_text) = payload(&event.payload);
        Self {
            offset: event.offset,
            stream: &event.stream,
            key: event.key.as_deref(),
            payload,
            payload_text,
            created_at: event.created_at,
        }
    }
}

/// A payload cut to a table's width.
pub(crate) fn payload_short(bytes: &[u8]) -> String {
    shown_short(&String::from_utf8_lossy(bytes), PAYLOAD_WIDTH)
}

/// A payload as it is, on one line.
pub(crate) fn payload_line(bytes: &[u8]) -> String {
    crate::output::shown(&one_line(bytes))
}

/// The state's name, as in `--state`.
pub(crate) fn state(state: JobState) -> &'static str {
    match state {
        JobState::Pending => "pending",
        JobState::Processing => "processing",
        JobState::Dead => "dead",
        _ => "unknown",
    }
}

/// The queue as operators address it: an outbox's jobs lie in a queue of the store's own.
fn address(queue: &str) -> String {
    match outbox_of_queue(queue) {
        Some(outbox) => format!("outbox:{outbox}"),
        None => queue.to_owned(),
    }
}

fn payload(bytes: &[u8]) -> (Option<Box<RawValue>>, Option<String>) {
    let text = one_line(bytes);
    match serde_json::from_str(&text) {
        Ok(raw) => (Some(raw), None),
        Err(_) => (None, Some(text)),
    }
}

/// Line breaks in JSON text lie between its parts only, where a space means the same.
fn one_line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_keep_their_text_and_stay_on_one_line() {
        let (raw, text) = payload(b"{\"b\": 1.10,\n\"a\": 123456789012345678901234567890}");
        let raw = raw.unwrap();
        assert_eq!(raw.get(), "{\"b\": 1.10, \"a\": 123456789012345678901234567890}");
        assert_eq!(text, None);
        let (raw, text) = payload(b"\xffnot json");
        assert!(raw.is_none());
        assert_eq!(text.as_deref(), Some("\u{fffd}not json"));
    }

    #[test]
    fn an_outbox_is_shown_by_its_address() {
        assert_eq!(address(&alkstore::engine::outbox_queue("webhooks")), "outbox:webhooks");
        assert_eq!(address("emails"), "emails");
    }
}
