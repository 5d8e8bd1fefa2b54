//! Steps on queues, and on the claims that they gave out.

use std::time::Duration;

use alkstore::{EnqueueOpts, JobHandle, QueueOpts, Result};
use proptest::prelude::*;

use super::draw::{
    self, JobRef, Local, Name, Pace, Payload, Pick, enqueue_opts, error_texts, extents, job_lists,
    jobs, locals, names, payloads, picks,
};
use super::seen::{Seen, lines};
use super::side::{NONE_HELD, Side};

/// A step on a queue's handle; which one is the step's [`Pick`].
#[derive(Clone, Debug)]
pub(super) enum QueueStep {
    Enqueue(Payload, EnqueueOpts),
    EnqueueBatch(Vec<(Payload, EnqueueOpts)>),
    ClaimOne(Local),
    ClaimBatch(Local, i64),
    AckBatch(Vec<JobRef>),
    Cancel(JobRef),
    GetJob(JobRef),
    SweepExpired,
    WaitReady,
}

/// Opens a handle with these options.
#[derive(Clone, Debug)]
pub(super) struct OpenQueue(pub(super) Name, pub(super) QueueOpts);

/// A step on a claim that is held; which one is the step's [`Pick`].
#[derive(Clone, Debug)]
pub(super) enum ClaimStep {
    Ack,
    Retry(Option<&'static str>, Option<i64>),
    Fail(Option<&'static str>),
    Heartbeat(i64),
    HandBack,
    Drop,
}

pub(super) fn opens(pace: Pace) -> impl Strategy<Value = OpenQueue> {
    (names(), draw::queue_opts(pace)).prop_map(|(name, opts)| OpenQueue(name, opts))
}

pub(super) fn batches(pace: Pace) -> impl Strategy<Value = Vec<(Payload, EnqueueOpts)>> {
    proptest::collection::vec((payloads(), enqueue_opts(pace)), 0..5)
}

pub(super) fn steps(pace: Pace) -> impl Strategy<Value = (Pick, QueueStep)> {
    let step = prop_oneof![
        8 => (payloads(), enqueue_opts(pace)).prop_map(|(p, o)| QueueStep::Enqueue(p, o)),
        3 => batches(pace).prop_map(QueueStep::EnqueueBatch),
        8 => locals().prop_map(QueueStep::ClaimOne),
        4 => (locals(), extents()).prop_map(|(worker, n)| QueueStep::ClaimBatch(worker, n)),
        4 => job_lists().prop_map(QueueStep::AckBatch),
        2 => jobs().prop_map(QueueStep::Cancel),
        3 => jobs().prop_map(QueueStep::GetJob),
        3 => Just(QueueStep::SweepExpired),
        2 => Just(QueueStep::WaitReady),
    ];
    (picks(), step)
}

pub(super) fn claim_steps(pace: Pace) -> impl Strategy<Value = (Pick, ClaimStep)> {
    let delays = proptest::option::weighted(0.6, prop_oneof![Just(0), pace.seconds()]);
    let step = prop_oneof![
        3 => Just(ClaimStep::Ack),
        4 => (error_texts(), delays).prop_map(|(text, delay)| ClaimStep::Retry(text, delay)),
        2 => error_texts().prop_map(ClaimStep::Fail),
        2 => pace.terms().prop_map(ClaimStep::Heartbeat),
        3 => Just(ClaimStep::HandBack),
        1 => Just(ClaimStep::Drop),
    ];
    (picks(), step)
}

impl OpenQueue {
    pub(super) async fn run(&self, side: &mut Side) -> Result<String> {
        let queue = side.queue(self.0, self.1.clone()).await?;
        let name = queue.name().to_owned();
        side.queues.keep(queue);
        Ok(name)
    }
}

impl QueueStep {
    pub(super) async fn run(&self, pick: Pick, side: &mut Side) -> Result<String> {
        let Side { queues, claims, seen, .. } = side;
        let Some(queue) = queues.get(pick) else {
            return Ok(NONE_HELD.to_owned());
        };
        Ok(match self {
            Self::Enqueue(payload, opts) => {
                let id = queue.enqueue(payload.value(), opts.clone()).await?;
                seen.new_jobs(&[id])
            }
            Self::EnqueueBatch(jobs) => {
                let ids = queue.enqueue_batch(values(jobs)).await?;
                seen.new_jobs(&ids)
            }
            Self::ClaimOne(worker) => {
                let claim = queue.claim_one(&worker.text()).await?;
                let text = shown(seen, claim.as_slice());
                claim.into_iter().for_each(|claim| claims.keep(claim));
                text
            }
            Self::ClaimBatch(worker, n) => {
                let batch = queue.claim_batch(&worker.text(), *n).await?;
                let text = shown(seen, &batch);
                batch.into_iter().for_each(|claim| claims.keep(claim));
                text
            }
            Self::AckBatch(jobs) => queue.ack_batch(&seen.ids(jobs)).await?.to_string(),
            Self::Cancel(job) => queue.cancel(seen.id(*job)).await?.to_string(),
            Self::GetJob(job) => {
                let job = queue.get_job(seen.id(*job)).await?;
                seen.jobs(job.as_slice())
            }
            Self::SweepExpired => queue.sweep_expired().await?.to_string(),
            Self::WaitReady => queue.wait_ready(Duration::ZERO).await?.to_string(),
        })
    }
}

/// The batch as the engine takes it.
pub(super) fn values(jobs: &[(Payload, EnqueueOpts)]) -> Vec<(serde_json::Value, EnqueueOpts)> {
    jobs.iter().map(|(payload, opts)| (payload.value(), opts.clone())).collect()
}

fn shown(seen: &Seen, claims: &[Box<dyn JobHandle>]) -> String {
    lines(claims.iter().map(|claim| seen.job(claim.job())))
}

impl ClaimStep {
    pub(super) async fn run(&self, pick: Pick, side: &mut Side) -> Result<String> {
        if let Self::Heartbeat(extend) = self {
            return match side.claims.get(pick) {
                Some(claim) => Ok(claim.heartbeat(*extend).await?.to_string()),
                None => Ok(NONE_HELD.to_owned()),
            };
        }
        match side.claims.take(pick) {
            Some(claim) => self.end(claim, &mut side.seen).await,
            None => Ok(NONE_HELD.to_owned()),
        }
    }

    /// Does what consumes the claim's handle.
    pub(super) async fn end(&self, claim: Box<dyn JobHandle>, seen: &mut Seen) -> Result<String> {
        let landed = match self {
            Self::Ack => claim.ack().await?,
            Self::Retry(text, delay) => {
                let job = claim.job().clone();
                let retried = claim.retry(text.map(str::to_owned), *delay).await?;
                if retried && delay.is_none() && job.attempts < job.max_attempts {
                    seen.retried_on_curve(&job);
                }
                retried
            }
            Self::Fail(text) => claim.fail(text.map(str::to_owned)).await?,
            Self::Heartbeat(extend) => claim.heartbeat(*extend).await?,
            Self::HandBack => claim.hand_back().await?,
            Self::Drop => false,
        };
        Ok(landed.to_string())
    }
}
