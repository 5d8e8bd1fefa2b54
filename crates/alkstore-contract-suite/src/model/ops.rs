//! Steps of an operator: looking, and repairing.

use alkstore::ops::{ConsumerInfo, LockInfo, QueueAddress, QueueInfo, QueueKind, StreamInfo};
use alkstore::{JobState, Result};
use proptest::prelude::*;
use proptest::sample::select;

use super::draw::{
    JobRef, Local, Name, Place, extents, job_lists, jobs, locals, names, places, seldom,
};
use super::seen::{Seen, about, lines};
use super::side::Side;

/// What changes nothing.
#[derive(Clone, Debug)]
pub(super) enum Look {
    Queues,
    Jobs { queue: Address, state: Option<JobState>, after: Option<JobRef>, limit: i64 },
    Streams,
    Consumers(Name),
    Locks,
    Schedules,
}

/// What repairs a store.
#[derive(Clone, Debug)]
pub(super) enum Repair {
    Redrive(Address, Vec<JobRef>),
    Discard(Address, Vec<JobRef>),
    RetryNow(Address, Vec<JobRef>),
    SetOffset(Name, Local, Place),
    ForgetConsumer(Name, Local),
    ReleaseLock(Name),
}

/// A queue or an outbox.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub(super) outbox: bool,
    pub(super) name: Name,
}

impl Address {
    pub(super) fn text(self, side: &Side) -> String {
        let kind = if self.outbox { QueueKind::Outbox } else { QueueKind::Queue };
        QueueAddress { kind, name: side.name(self.name) }.to_string()
    }
}

fn addresses() -> impl Strategy<Value = Address> {
    (prop::bool::weighted(0.3), names()).prop_map(|(outbox, name)| Address { outbox, name })
}

pub(super) fn looks() -> impl Strategy<Value = Look> {
    let states = select(&[JobState::Pending, JobState::Processing, JobState::Dead][..]);
    let states = proptest::option::of(states);
    let pages = (addresses(), states, seldom(jobs()), extents());
    prop_oneof![
        2 => Just(Look::Queues),
        3 => pages.prop_map(|(queue, state, after, limit)| Look::Jobs { queue, state, after, limit }),
        1 => Just(Look::Streams),
        1 => names().prop_map(Look::Consumers),
        1 => Just(Look::Locks),
        1 => Just(Look::Schedules),
    ]
}

pub(super) fn repairs() -> impl Strategy<Value = Repair> {
    let list = || (addresses(), job_lists());
    let places = (names(), locals(), places());
    prop_oneof![
        3 => list().prop_map(|(queue, jobs)| Repair::Redrive(queue, jobs)),
        2 => list().prop_map(|(queue, jobs)| Repair::Discard(queue, jobs)),
        2 => list().prop_map(|(queue, jobs)| Repair::RetryNow(queue, jobs)),
        2 => places.prop_map(|(name, consumer, place)| Repair::SetOffset(name, consumer, place)),
        1 => (names(), locals()).prop_map(|(name, c)| Repair::ForgetConsumer(name, c)),
        1 => names().prop_map(Repair::ReleaseLock),
    ]
}

impl Look {
    pub(super) async fn run(&self, side: &Side) -> Result<String> {
        let (store, seen) = (side.store(), &side.seen);
        Ok(match self {
            Self::Queues => {
                let queues = store.queues().await?;
                lines(queues.iter().filter(|queue| side.owns(&queue.name)).map(queue_info))
            }
            Self::Jobs { queue, state, after, limit } => {
                let after = after.map(|job| seen.id(job));
                seen.jobs(&store.jobs(&queue.text(side), *state, after, *limit).await?)
            }
            Self::Streams => {
                let streams = store.streams().await?;
                let own = streams.iter().filter(|stream| side.owns(&stream.name));
                lines(own.map(|stream| stream_info(seen, stream)))
            }
            Self::Consumers(name) => {
                let stream = side.name(*name);
                let consumers = store.consumers(&stream).await?;
                lines(consumers.iter().map(|consumer| consumer_info(seen, &stream, consumer)))
            }
            Self::Locks => {
                let locks = store.locks().await?;
                let own = locks.iter().filter(|lock| side.owns(&lock.name));
                lines(own.map(|lock| lock_info(seen, lock)))
            }
            Self::Schedules => {
                let schedules = store.schedules().await?;
                let own = schedules.iter().filter(|info| side.owns(&info.schedule.name));
                lines(own.map(|info| format!("{info:?}")))
            }
        })
    }
}

fn queue_info(queue: &QueueInfo) -> String {
    let mut shown = queue.clone();
    shown.oldest_ready_age_s = queue.oldest_ready_age_s.map(about);
    format!("{}: {shown:?}", queue.address())
}

fn stream_info(seen: &Seen, stream: &StreamInfo) -> String {
    let StreamInfo { name, first, head, length, .. } = stream;
    let [first, head] = [first, head].map(|offset| seen.place(name, *offset));
    format!("{name:?}: {length} from {first} to {head}")
}

fn consumer_info(seen: &Seen, stream: &str, info: &ConsumerInfo) -> String {
    let ConsumerInfo { consumer, offset, lag, ahead_of_log, trimmed_past, .. } = info;
    let place = seen.place(stream, *offset);
    let flags = format!("ahead {ahead_of_log}, trimmed past {trimmed_past}");
    format!("{consumer:?} at {place}, lag {lag}, {flags}")
}

fn lock_info(seen: &Seen, lock: &LockInfo) -> String {
    let LockInfo { name, owner, fencing_token, remaining_s, .. } = lock;
    let token = seen.known_token(*fencing_token);
    format!("{name:?} of {owner:?}, {token}, about {} s left", about(*remaining_s))
}

impl Repair {
    pub(super) async fn run(&self, side: &mut Side) -> Result<String> {
        let store = side.store().clone();
        Ok(match self {
            Self::Redrive(queue, jobs) => {
                let ids = store.redrive(&queue.text(side), &side.seen.ids(jobs)).await?;
                side.seen.new_jobs(&ids)
            }
            Self::Discard(queue, jobs) => {
                store.discard(&queue.text(side), &side.seen.ids(jobs)).await?.to_string()
            }
            Self::RetryNow(queue, jobs) => {
                store.retry_now(&queue.text(side), &side.seen.ids(jobs)).await?.to_string()
            }
            Self::SetOffset(name, consumer, place) => {
                let stream = side.name(*name);
                let offset = side.seen.offset(&stream, *place);
                store.set_offset(&stream, &consumer.text(), offset).await?;
                "set".to_owned()
            }
            Self::ForgetConsumer(name, consumer) => {
                let stream = side.name(*name);
                store.forget_consumer(&stream, &consumer.text()).await?.to_string()
            }
            Self::ReleaseLock(name) => {
                let name = side.name(*name);
                store.release_lock(&name).await?.to_string()
            }
        })
    }
}
