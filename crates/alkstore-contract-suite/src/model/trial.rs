//! One sequence on both stores.

use std::sync::Arc;
use std::time::Duration;

use alkstore::engine::clock::Clock;
use alkstore::engine::domain::whole_seconds;
use tokio::time::{Instant, sleep_until, timeout};

use super::draw::{NAMES, Name, Pace, Place};
use super::notify::NotifyStep;
use super::ops::{Address, Look};
use super::queue::{OpenQueue, QueueStep};
use super::seen::error;
use super::side::{IDLE, Other, Side};
use super::step::{Read, Step};
use super::stream::{ReceiverStep, StreamStep};
use crate::{Database, EngineStore, StoreFactory};

/// A step that takes longer waits for what will not come.
const STEP_LIMIT: Duration = Duration::from_secs(30);

/// How far an [`Step::Elapse`] is from the last one, or from the start: what lasts a second and
/// began in between is over by then, and nothing ends while steps are taken.
const ELAPSE: Duration = Duration::from_millis(1_300);
const ELAPSES: usize = 2;

/// Why a sequence did not end well.
pub(super) enum Verdict {
    /// Time came between the two sides, so that they may differ.
    Unfit,
    Differs(String),
}

/// The reference's data and the candidate's.
pub(super) struct Pair {
    data: [Data; 2],
    pub(super) used: u32,
}

/// A database with two stores on it.
struct Data {
    database: Arc<dyn Database>,
    durable: bool,
    stores: Vec<EngineStore>,
}

impl Data {
    async fn open(engine: &Arc<dyn StoreFactory>) -> Self {
        let database = engine.database().await;
        let mut data = Self { database, durable: engine.traits().durable, stores: Vec::new() };
        data.open_stores().await;
        data
    }

    async fn open_stores(&mut self) {
        for _ in 0..2 {
            self.stores.push(self.database.open().await);
        }
    }

    async fn close(&mut self) {
        for store in self.stores.drain(..) {
            store.close().await;
        }
    }
}

impl Pair {
    pub(super) async fn open([reference, candidate]: &[Arc<dyn StoreFactory>; 2]) -> Self {
        Self { data: [Data::open(reference).await, Data::open(candidate).await], used: 0 }
    }

    pub(super) async fn close(mut self) {
        for data in &mut self.data {
            data.close().await;
        }
    }

    /// Runs a sequence, and then looks at all that it has left.
    pub(super) async fn trial(&mut self, pace: Pace, steps: &[Step]) -> Result<(), Verdict> {
        self.used += 1;
        let ending = format!(" {}", self.used);
        let sides = self.data.each_ref().map(|data| Side::new(data.stores.clone(), &ending));
        let since = Instant::now();
        let mut trial = Trial { data: &mut self.data, sides, pace, since, elapses: 0 };
        for step in opening() {
            trial.both(&step).await?;
        }
        for (number, step) in steps.iter().enumerate() {
            trial.step(step).await.map_err(|verdict| match verdict {
                Verdict::Differs(how) => Verdict::Differs(format!("step {number}: {how}")),
                Verdict::Unfit => Verdict::Unfit,
            })?;
        }
        trial.close().await
    }
}

struct Trial<'a> {
    data: &'a mut [Data; 2],
    sides: [Side; 2],
    pace: Pace,
    /// Since when steps have been taken without a pause.
    since: Instant,
    elapses: usize,
}

impl Trial<'_> {
    async fn step(&mut self, step: &Step) -> Result<(), Verdict> {
        match step {
            Step::Reopen => self.reopen().await,
            Step::Elapse if self.elapses < ELAPSES => {
                self.elapses += 1;
                self.since += ELAPSE;
                sleep_until(self.since).await;
            }
            step => {
                if let Step::Stream(name, StreamStep::TrimTo(_)) = step {
                    self.drain(Some(*name)).await?;
                }
                self.both(step).await?;
            }
        }
        Ok(())
    }

    /// Receives all that is there on one stream or on all.
    ///
    /// Before a trim, too: a receiver may have read ahead what is then trimmed, or may not.
    async fn drain(&mut self, only: Option<Name>) -> Result<(), Verdict> {
        let only = only.map(|name| self.sides[0].name(name));
        for pick in 0..self.sides[0].receivers.len() {
            let receiver = self.sides[0].receivers.get(pick);
            if receiver.is_some_and(|(stream, _)| only.as_ref().is_none_or(|only| only == stream)) {
                while self.both(&Step::Receiver(pick, ReceiverStep::Recv)).await? != IDLE {}
            }
        }
        Ok(())
    }

    /// Takes the step on both sides; the answer that they agree on.
    async fn both(&mut self, step: &Step) -> Result<String, Verdict> {
        let second = whole_seconds(Clock::System.now_us());
        let [reference, candidate] = &mut self.sides;
        reference.other = Other::NotAsked;
        let expected = answer(step, reference).await;
        candidate.other = if expected == IDLE { Other::Idle } else { Other::Something };
        let given = answer(step, candidate).await;
        let limit = match self.pace {
            Pace::Still => Duration::from_secs(2),
            Pace::Lapsing => Duration::from_millis(250),
        };
        if whole_seconds(Clock::System.now_us()) != second || self.since.elapsed() > limit {
            return Err(Verdict::Unfit);
        }
        if given == expected {
            return Ok(expected);
        }
        let answers = format!("  the reference: {expected}\n  the candidate: {given}");
        Err(Verdict::Differs(format!("{step:?}\n{answers}")))
    }

    /// What holds on to a store is let go on both sides, whether it can be opened again or not.
    async fn reopen(&mut self) {
        for (data, side) in self.data.iter_mut().zip(&mut self.sides) {
            side.let_go();
            if data.durable {
                data.close().await;
                data.open_stores().await;
                side.stores.clone_from(&data.stores);
            }
        }
    }

    /// Compares what receivers still have to say, and the whole state.
    async fn close(mut self) -> Result<(), Verdict> {
        self.drain(None).await?;
        for pick in 0..self.sides[0].listeners.len() {
            self.both(&Step::Notify(NotifyStep::Recv(pick))).await?;
        }
        for step in closing() {
            self.both(&step).await?;
        }
        for name in [Name::Good(0), Name::Good(1)] {
            self.both(&Step::OpenQueue(OpenQueue(name, Default::default()))).await?;
            for job in 0..self.sides[0].seen.all_jobs().len() {
                let job = super::draw::JobRef::Newest(job);
                self.both(&Step::Queue(0, QueueStep::GetJob(job))).await?;
            }
        }
        Ok(())
    }
}

async fn answer(step: &Step, side: &mut Side) -> String {
    match timeout(STEP_LIMIT, Box::pin(step.run(side))).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(refused)) => error(&refused),
        Err(_) => format!("nothing after {STEP_LIMIT:?}"),
    }
}

/// Handles to begin with: two on one queue.
fn opening() -> [Step; 3] {
    let short = alkstore::QueueOpts { visibility_timeout_s: 0, ..Default::default() };
    [(1, Default::default()), (0, short), (0, Default::default())]
        .map(|(name, opts)| Step::OpenQueue(OpenQueue(Name::Good(name), opts)))
}

/// Steps that show the state.
fn closing() -> Vec<Step> {
    let mut looks = vec![Look::Queues, Look::Streams, Look::Locks, Look::Schedules];
    let mut steps = Vec::new();
    for name in (0..NAMES).map(Name::Good) {
        for outbox in [false, true] {
            let queue = Address { outbox, name };
            looks.push(Look::Jobs { queue, state: None, after: None, limit: i64::MAX });
        }
        looks.push(Look::Consumers(name));
        let all = StreamStep::ReadSince(Place::Number(i64::MIN), i64::MAX);
        steps.push(Step::Read(Read::Stream(name, all)));
    }
    steps.extend(looks.into_iter().map(|look| Step::Read(Read::Look(look))));
    steps
}
