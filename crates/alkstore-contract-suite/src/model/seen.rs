//! Names for what an engine gives out: the n-th job, event or token, whatever its number.

use std::collections::HashMap;
use std::fmt::Write as _;

use alkstore::engine::backoff;
use alkstore::engine::clock::Clock;
use alkstore::engine::domain::whole_seconds;
use alkstore::{Error, Job, StreamEvent};

use super::draw::{JobRef, Pick, Place};

/// Numbers from here on are the sequence's own, not an offset that was given out.
const FAR: i64 = 1 << 39;

/// What one side has given out so far.
#[derive(Debug, Default)]
pub(super) struct Seen {
    jobs: Vec<i64>,
    /// The least and the greatest time that a retry on the curve may have chosen.
    curves: HashMap<i64, (i64, i64)>,
    offsets: HashMap<String, Vec<i64>>,
    tokens: Vec<i64>,
}

impl Seen {
    /// Names ids that were never given out before.
    pub(super) fn new_jobs(&mut self, ids: &[i64]) -> String {
        let mut names = String::from("new");
        for id in ids {
            let name = given(&mut self.jobs, *id, "J");
            let _ = write!(names, " {name}");
        }
        names
    }

    pub(super) fn id(&self, job: JobRef) -> i64 {
        match job {
            JobRef::Newest(pick) => newest(&self.jobs, pick).unwrap_or(0),
            JobRef::Unknown(id) => id,
        }
    }

    pub(super) fn ids(&self, jobs: &[JobRef]) -> Vec<i64> {
        jobs.iter().map(|job| self.id(*job)).collect()
    }

    pub(super) fn all_jobs(&self) -> &[i64] {
        &self.jobs
    }

    /// Notes that a retry chose the job's time itself.
    pub(super) fn retried_on_curve(&mut self, job: &Job) {
        let (least, most) = backoff::range(job.backoff_base_s, job.attempts);
        let now = whole_seconds(Clock::System.now_us());
        self.curves.insert(job.id, (now.saturating_add(least), now.saturating_add(most)));
    }

    pub(super) fn job(&self, job: &Job) -> String {
        let mut shown = job.clone();
        let name = self.job_name(job.id);
        let curve = self.curves.get(&job.id);
        let on_curve = curve.is_some_and(|(least, most)| (least..=most).contains(&&job.run_at));
        if on_curve {
            shown.run_at = 0;
        }
        shown.id = 0;
        shown.payload.clear();
        let payload = job.payload.escape_ascii();
        format!("{name} on the curve: {on_curve}, payload {payload}, {shown:?}")
    }

    pub(super) fn jobs(&self, jobs: &[Job]) -> String {
        lines(jobs.iter().map(|job| self.job(job)))
    }

    fn job_name(&self, id: i64) -> String {
        known(&self.jobs, id, "J")
    }

    /// Names offsets that are beyond all that the stream has given out.
    pub(super) fn new_offsets(&mut self, stream: &str, offsets: &[i64]) -> String {
        let given_out = self.offsets.entry(stream.to_owned()).or_default();
        let mut names = String::from("new");
        for offset in offsets {
            let _ = write!(names, " {}", given(given_out, *offset, "E"));
        }
        names
    }

    pub(super) fn offset(&self, stream: &str, place: Place) -> i64 {
        let offsets = self.offsets.get(stream).map_or(&[][..], Vec::as_slice);
        match place {
            Place::At(pick) => newest(offsets, pick).unwrap_or(0),
            // Just before the first one lies 0 in one engine and another number in another.
            Place::Before(pick) => match newest(offsets, pick) {
                Some(offset) if Some(&offset) != offsets.first() => offset - 1,
                _ => 0,
            },
            Place::Number(number) => number,
        }
    }

    /// How many of the stream's offsets lie up to here. Offsets need not be dense.
    pub(super) fn place(&self, stream: &str, offset: i64) -> String {
        if !(0..FAR).contains(&offset) {
            return offset.to_string();
        }
        let offsets = self.offsets.get(stream).map_or(&[][..], Vec::as_slice);
        format!("#{}", offsets.iter().filter(|given| **given <= offset).count())
    }

    pub(super) fn event(&self, event: &StreamEvent) -> String {
        let StreamEvent { offset, stream, key, payload, created_at, .. } = event;
        let offsets = self.offsets.get(stream).map_or(&[][..], Vec::as_slice);
        let (name, payload) = (known(offsets, *offset, "E"), payload.escape_ascii());
        format!("{name} of {stream:?} at {created_at}, key {key:?}, payload {payload}")
    }

    pub(super) fn events(&self, events: &[StreamEvent]) -> String {
        lines(events.iter().map(|event| self.event(event)))
    }

    /// Names a token: a known one, or a new one above all others.
    pub(super) fn token(&mut self, token: i64) -> String {
        if self.tokens.contains(&token) {
            known(&self.tokens, token, "T")
        } else {
            format!("new {}", given(&mut self.tokens, token, "T"))
        }
    }

    pub(super) fn known_token(&self, token: i64) -> String {
        known(&self.tokens, token, "T")
    }
}

fn newest(numbers: &[i64], pick: Pick) -> Option<i64> {
    let back = pick.checked_rem(numbers.len())?;
    numbers.get(numbers.len() - 1 - back).copied()
}

/// Notes a number that must be greater than all before it.
fn given(numbers: &mut Vec<i64>, number: i64, kind: &str) -> String {
    if number <= numbers.last().copied().unwrap_or(0) {
        return format!("{kind} {number}, which is not beyond all before it");
    }
    numbers.push(number);
    known(numbers, number, kind)
}

fn known(numbers: &[i64], number: i64, kind: &str) -> String {
    match numbers.binary_search(&number) {
        Ok(index) => format!("{kind}{index}"),
        Err(_) => format!("{kind} {number}, which was never given out"),
    }
}

pub(super) fn lines(items: impl Iterator<Item = String>) -> String {
    let mut text = String::from("[");
    for item in items {
        let _ = write!(text, "\n    {item}");
    }
    text.push(']');
    text
}

/// Seconds of which a sequence's own length is to be left out.
pub(super) fn about(seconds: i64) -> i64 {
    seconds.saturating_add(50) / 100 * 100
}

/// An error as far as engines must agree on it.
pub(super) fn error(error: &Error) -> String {
    match error {
        Error::Database(_) => format!("Err Database, transient: {}", error.is_transient()),
        Error::Codec(_) => "Err Codec".to_owned(),
        error => format!("Err {error:?}"),
    }
}
