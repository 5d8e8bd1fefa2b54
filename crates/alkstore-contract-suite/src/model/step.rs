//! A step of a sequence: what may be drawn, how often, and what it does.

use alkstore::Result;
use proptest::prelude::*;

use super::draw::{JobRef, Name, Pace, Pick, jobs, names, picks};
use super::lock::{self, LockStep};
use super::notify::{self, NotifyStep};
use super::ops::{self, Look, Repair};
use super::outbox::{self, OutboxStep};
use super::queue::{self, ClaimStep, OpenQueue, QueueStep};
use super::schedule::{self, ScheduleStep};
use super::side::Side;
use super::stream::{self, ReceiverStep, StreamStep};
use super::tx::{self, TxStep};

/// Something done to a store.
#[derive(Clone, Debug)]
pub(super) enum Step {
    OpenQueue(OpenQueue),
    Queue(Pick, QueueStep),
    Claim(Pick, ClaimStep),
    Stream(Name, StreamStep),
    Receiver(Pick, ReceiverStep),
    Notify(NotifyStep),
    Lock(LockStep),
    Outbox(Name, OutboxStep),
    Schedule(ScheduleStep),
    Tx(TxStep),
    Repair(Repair),
    Read(Read),
    /// Goes on with the other store on the same data.
    Switch,
    /// Closes the stores and opens the data again, where there is some.
    Reopen,
    /// Waits until what lasts a second is over.
    Elapse,
}

/// What changes nothing and never waits for a writer.
#[derive(Clone, Debug)]
pub(super) enum Read {
    Look(Look),
    Stream(Name, StreamStep),
    Job(Pick, JobRef),
}

pub(super) fn steps(pace: Pace) -> BoxedStrategy<Step> {
    let timeless = prop_oneof![
        3 => queue::opens(pace).prop_map(Step::OpenQueue),
        30 => queue::steps(pace).prop_map(|(pick, step)| Step::Queue(pick, step)),
        14 => queue::claim_steps(pace).prop_map(|(pick, step)| Step::Claim(pick, step)),
        16 => stream::steps().prop_map(|(name, step)| Step::Stream(name, step)),
        8 => stream::receiver_steps().prop_map(|(pick, step)| Step::Receiver(pick, step)),
        8 => notify::steps().prop_map(Step::Notify),
        7 => lock::steps(pace).prop_map(Step::Lock),
        9 => outbox::steps(pace).prop_map(|(name, step)| Step::Outbox(name, step)),
        5 => schedule::steps(pace).prop_map(Step::Schedule),
        10 => tx::steps(pace).prop_map(Step::Tx),
        8 => ops::repairs().prop_map(Step::Repair),
        8 => reads().prop_map(Step::Read),
        4 => prop_oneof![12 => Just(Step::Switch), 1 => Just(Step::Reopen)],
    ];
    match pace {
        Pace::Still => timeless.boxed(),
        Pace::Lapsing => prop_oneof![15 => timeless, 1 => Just(Step::Elapse)].boxed(),
    }
}

pub(super) fn reads() -> impl Strategy<Value = Read> {
    prop_oneof![
        2 => ops::looks().prop_map(Read::Look),
        2 => (names(), stream::reads()).prop_map(|(name, step)| Read::Stream(name, step)),
        1 => (picks(), jobs()).prop_map(|(pick, job)| Read::Job(pick, job)),
    ]
}

impl Step {
    /// Does it and says what came of it.
    pub(super) async fn run(&self, side: &mut Side) -> Result<String> {
        match self {
            Self::OpenQueue(open) => open.run(side).await,
            Self::Queue(pick, step) => step.run(*pick, side).await,
            Self::Claim(pick, step) => step.run(*pick, side).await,
            Self::Stream(name, step) => step.run(*name, side).await,
            Self::Receiver(pick, step) => step.run(*pick, side).await,
            Self::Notify(step) => step.run(side).await,
            Self::Lock(step) => step.run(side).await,
            Self::Outbox(name, step) => step.run(*name, side).await,
            Self::Schedule(step) => step.run(side).await,
            Self::Tx(step) => step.run(side).await,
            Self::Repair(repair) => repair.run(side).await,
            Self::Read(read) => read.run(side).await,
            Self::Switch => {
                side.stores.rotate_left(1);
                Ok("switched".to_owned())
            }
            // The runner does these for both sides at once.
            Self::Reopen | Self::Elapse => Ok("done".to_owned()),
        }
    }
}

impl Read {
    pub(super) async fn run(&self, side: &mut Side) -> Result<String> {
        match self {
            Self::Look(look) => look.run(side).await,
            Self::Stream(name, step) => step.run(*name, side).await,
            Self::Job(pick, job) => QueueStep::GetJob(*job).run(*pick, side).await,
        }
    }
}
