//! Steps on outboxes: deliveries that succeed, fail, or decide for themselves.

use std::mem;

use alkstore::{Delivery, EnqueueOpts, Error, Job, JobHandle, JobState, Result, async_trait};
use proptest::prelude::*;

use super::draw::{Local, Name, Pace, Payload, enqueue_opts, locals, names, payloads};
use super::queue::{ClaimStep, claim_steps};
use super::seen::{Seen, error};
use super::side::Side;

/// A step on the outbox of a name.
#[derive(Clone, Debug)]
pub(super) enum OutboxStep {
    Enqueue(Payload, EnqueueOpts),
    RunOnce(Local, Deliver),
}

/// What a delivery does: perhaps something with the claim, then its result.
#[derive(Clone, Debug)]
pub(super) struct Deliver {
    with_claim: WithClaim,
    succeeds: bool,
}

#[derive(Clone, Debug)]
enum WithClaim {
    Drop,
    /// The claim outlives the delivery.
    Keep,
    End(ClaimStep),
}

pub(super) fn steps(pace: Pace) -> impl Strategy<Value = (Name, OutboxStep)> {
    let with_claim = prop_oneof![
        4 => Just(WithClaim::Drop),
        1 => Just(WithClaim::Keep),
        3 => claim_steps(pace).prop_map(|(_, step)| WithClaim::End(step)),
    ];
    let deliver = (with_claim, prop::bool::ANY)
        .prop_map(|(with_claim, succeeds)| Deliver { with_claim, succeeds });
    let step = prop_oneof![
        (payloads(), enqueue_opts(pace)).prop_map(|(p, opts)| OutboxStep::Enqueue(p, opts)),
        (locals(), deliver).prop_map(|(worker, deliver)| OutboxStep::RunOnce(worker, deliver)),
    ];
    (names(), step)
}

impl OutboxStep {
    pub(super) async fn run(&self, name: Name, side: &mut Side) -> Result<String> {
        let outbox = side.outbox(name).await?;
        match self {
            Self::Enqueue(payload, opts) => {
                let id = outbox.enqueue(payload.value(), opts.clone()).await?;
                Ok(side.seen.new_jobs(&[id]))
            }
            Self::RunOnce(worker, deliver) => {
                let seen = mem::take(&mut side.seen);
                let mut attempt = Attempt { deliver, seen, job: None, kept: None, log: Vec::new() };
                let ran = outbox.run_once(&worker.text(), &mut attempt).await;
                side.seen = attempt.seen;
                if let Some(job) = attempt.job.filter(|_| !deliver.succeeds) {
                    note_curve(side, name, &job).await?;
                }
                attempt.kept.into_iter().for_each(|claim| side.claims.keep(claim));
                Ok(format!("{} {}", ran?, attempt.log.join(", ")))
            }
        }
    }
}

/// A failed delivery is retried on the curve, unless the claim was over by then.
async fn note_curve(side: &mut Side, name: Name, job: &Job) -> Result<()> {
    let address = super::ops::Address { outbox: true, name }.text(side);
    let before = job.id.saturating_sub(1);
    let rows = side.store().jobs(&address, Some(JobState::Pending), Some(before), 1).await?;
    if rows.first().is_some_and(|row| row.id == job.id && row.run_at > row.created_at) {
        side.seen.retried_on_curve(job);
    }
    Ok(())
}

/// One delivery as it happened.
struct Attempt<'a> {
    deliver: &'a Deliver,
    seen: Seen,
    job: Option<Job>,
    kept: Option<Box<dyn JobHandle>>,
    log: Vec<String>,
}

#[async_trait]
impl Delivery for Attempt<'_> {
    async fn deliver(&mut self, claim: Box<dyn JobHandle>) -> Result<()> {
        self.log.push(self.seen.job(claim.job()));
        self.job = Some(claim.job().clone());
        match &self.deliver.with_claim {
            WithClaim::Drop => drop(claim),
            WithClaim::Keep => self.kept = Some(claim),
            WithClaim::End(step) => {
                let ended = step.end(claim, &mut self.seen).await;
                self.log.push(ended.unwrap_or_else(|refused| error(&refused)));
            }
        }
        if self.deliver.succeeds { Ok(()) } else { Err(Error::other("the endpoint answered 503")) }
    }
}
