//! What steps are made of: names, numbers, options and payloads, odd ones among them.

use std::fmt;

use alkstore::{EnqueueOpts, QueueOpts};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

/// Whether time passes in a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// None does: what lasts is over at once or far away.
    Still,
    /// Some steps wait, so that what lasts a second ends.
    Lapsing,
}

impl Pace {
    /// Delays, deadlines and terms, in seconds.
    pub(super) fn seconds(self) -> impl Strategy<Value = i64> {
        select(match self {
            Self::Still => &[1_000, 0, -1, 100_000, -5_000, i64::MAX, i64::MIN][..],
            Self::Lapsing => &[1, 1, 1, 0, -1, 1_000][..],
        })
    }

    /// Terms that are mostly accepted.
    pub(super) fn terms(self) -> impl Strategy<Value = i64> {
        let usual = if self == Self::Still { 1_000 } else { 1 };
        prop_oneof![3 => Just(usual), 1 => self.seconds()]
    }
}

/// The names that are accepted; each sequence gives them an ending of its own.
pub(super) const NAMES: usize = 4;

/// A name of the shared kinds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    Good(usize),
    Bad(usize),
}

impl Name {
    /// The name in the sequence with this ending.
    pub(super) fn with(self, ending: &str) -> String {
        match self {
            Self::Good(0) => format!("a{ending}"),
            Self::Good(1) => format!("outbox:Ünï \"it's\"; --%_\n{ending}"),
            // As long as a name may be; two that differ late.
            Self::Good(n) => format!("{}{n}{ending}", "x".repeat(1_023 - ending.len())),
            Self::Bad(0) => String::new(),
            Self::Bad(1) => " \t".to_owned(),
            Self::Bad(2) => "a\0b".to_owned(),
            Self::Bad(3) => "y".repeat(1_025),
            Self::Bad(4) => "__alkstore_outbox:a".to_owned(),
            Self::Bad(_) => "__alkstore_scheduler".to_owned(),
        }
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        shortened(f, &self.with(""))
    }
}

pub(super) fn names() -> impl Strategy<Value = Name> {
    let good = prop_oneof![6 => Just(0), 3 => Just(1), 1 => 2..NAMES].prop_map(Name::Good);
    prop_oneof![30 => good, 1 => (0..6_usize).prop_map(Name::Bad)]
}

/// A consumer, owner, worker id or key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Local(usize);

impl Local {
    pub(super) fn text(self) -> String {
        match self.0 {
            0 => "v".to_owned(),
            1 => "it's \"w\"; --\n".to_owned(),
            2 => "__alkstore_w".to_owned(),
            3 => "é".repeat(512),
            4 => String::new(),
            5 => "\u{a0}\n".to_owned(),
            6 => "a\0b".to_owned(),
            _ => "é".repeat(513),
        }
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        shortened(f, &self.text())
    }
}

pub(super) fn locals() -> impl Strategy<Value = Local> {
    prop_oneof![20 => 0..2_usize, 2 => 2..4_usize, 1 => 4..8_usize].prop_map(Local)
}

fn shortened(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    match text.char_indices().nth(32) {
        Some((end, _)) => write!(f, "{:?}… of {} bytes", &text[..end], text.len()),
        None => write!(f, "{text:?}"),
    }
}

/// Something that is held or was given out: the n-th newest, modulo how many there are.
pub(super) type Pick = usize;

pub(super) fn picks() -> impl Strategy<Value = Pick> {
    prop_oneof![3 => 0..3_usize, 1 => 0..12_usize]
}

/// A job's id.
#[derive(Clone, Copy, Debug)]
pub(super) enum JobRef {
    Newest(Pick),
    Unknown(i64),
}

pub(super) fn jobs() -> impl Strategy<Value = JobRef> {
    let unknown = select(&[0, -1, i64::MIN, i64::MAX, 1 << 40][..]);
    prop_oneof![15 => picks().prop_map(JobRef::Newest), 1 => unknown.prop_map(JobRef::Unknown)]
}

pub(super) fn job_lists() -> impl Strategy<Value = Vec<JobRef>> {
    proptest::collection::vec(jobs(), 0..6)
}

/// A place in a stream.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// At the n-th newest event that was ever published to it.
    At(Pick),
    /// Just before it.
    Before(Pick),
    Number(i64),
}

pub(super) fn places() -> impl Strategy<Value = Place> {
    prop_oneof![
        4 => picks().prop_map(Place::At),
        1 => picks().prop_map(Place::Before),
        2 => select(&[0, -1, i64::MIN, 1 << 40, i64::MAX][..]).prop_map(Place::Number),
    ]
}

/// "At most this many".
pub(super) fn extents() -> impl Strategy<Value = i64> {
    select(&[1, 2, 5, 100, 0, -1, i64::MAX, i64::MIN][..])
}

fn attempts() -> impl Strategy<Value = i64> {
    select(&[3, 2, 1, 3, 2, 1, 0, -1, i64::MAX, i64::MIN][..])
}

pub(super) fn priorities() -> impl Strategy<Value = i64> {
    select(&[0, 0, 0, 1, -1, i64::MAX, i64::MIN][..])
}

/// A number that is set now and then.
pub(super) fn seldom<S: Strategy>(numbers: S) -> impl Strategy<Value = Option<S::Value>> {
    proptest::option::weighted(0.2, numbers)
}

pub(super) fn enqueue_opts(pace: Pace) -> impl Strategy<Value = EnqueueOpts> {
    let absolute = select(&[0, 5, -5, 4_000_000_000, i64::MAX, i64::MIN][..]);
    let numbers = (
        seldom(pace.seconds()),
        seldom(absolute),
        priorities(),
        seldom(attempts()),
        seldom(pace.seconds()),
    );
    let set = numbers.prop_map(|(delay, run_at, priority, max_attempts, expires)| EnqueueOpts {
        delay,
        run_at,
        priority,
        max_attempts,
        expires,
    });
    prop_oneof![1 => Just(EnqueueOpts::default()), 2 => set]
}

/// [`alkstore::ScheduleOpts`] as numbers: priority, attempts, expiry.
pub(super) fn schedule_opts(pace: Pace) -> impl Strategy<Value = (i64, Option<i64>, Option<i64>)> {
    (priorities(), seldom(attempts()), seldom(pace.seconds()))
}

pub(super) fn queue_opts(pace: Pace) -> impl Strategy<Value = QueueOpts> {
    let usual = if pace == Pace::Still { 300 } else { 1 };
    let timeouts = prop_oneof![3 => Just(usual), 3 => Just(0), 1 => pace.seconds()];
    // On the curve of a base of 5 s nothing is due before the sequence ends.
    let bases = select(&[5, 0, -3, 5_000, i64::MAX, i64::MIN][..]);
    let numbers = (timeouts, attempts(), bases, seldom(pace.seconds()));
    let set = numbers.prop_map(|(timeout, max_attempts, base, retention)| QueueOpts {
        visibility_timeout_s: timeout,
        max_attempts,
        backoff_base_s: base,
        dead_letter_retention_s: retention,
    });
    prop_oneof![1 => Just(QueueOpts::default()), 3 => set]
}

/// A payload; a deep one by its depth alone, which is easier to read.
#[derive(Clone, Debug)]
pub(super) enum Payload {
    Json(Value),
    Nested(usize),
}

impl Payload {
    pub(super) fn value(&self) -> Value {
        match self {
            Self::Json(value) => value.clone(),
            Self::Nested(levels) => (0..*levels).fold(json!(1), |inner, _| json!([inner])),
        }
    }
}

pub(super) fn payloads() -> impl Strategy<Value = Payload> {
    prop_oneof![
        20 => (0..100).prop_map(|n| Payload::Json(json!(n))),
        4 => values().prop_map(Payload::Json),
        1 => (126..130_usize).prop_map(Payload::Nested),
    ]
}

fn values() -> impl Strategy<Value = Value> {
    let leaves = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(json!("\0")),
    ];
    leaves.prop_recursive(3, 12, 4, |inner| {
        let members = proptest::collection::vec((any::<String>(), inner.clone()), 0..4);
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(Value::from),
            members.prop_map(|members| members.into_iter().collect::<Value>()),
        ]
    })
}

/// What an operation may record as a job's last error.
pub(super) fn error_texts() -> impl Strategy<Value = Option<&'static str>> {
    let texts = select(&["smtp is down", "", "a\0b\n\u{1b}'"][..]);
    proptest::option::weighted(0.6, texts)
}
