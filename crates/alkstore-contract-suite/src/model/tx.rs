//! Transactions: some begun and left idle, one at a time with operations, and reads beside it.

use alkstore::{EnqueueOpts, Result, TxHandle};
use proptest::prelude::*;

use super::draw::{
    JobRef, Local, Name, Pace, Payload, Pick, Place, enqueue_opts, extents, jobs, locals, names,
    payloads, picks, places,
};
use super::seen::{Seen, error, lines};
use super::side::{NONE_HELD, Side};
use super::step::Read;
use super::{queue, stream};

/// A step with transactions.
///
/// From the first operation of one on, nothing else writes until it ends: on an engine with one
/// writer the rest would wait.
#[derive(Clone, Debug)]
pub(super) enum TxStep {
    Begin,
    /// Ends one that has done nothing.
    EndIdle(Pick, End),
    /// Runs one that was begun before, or else a new one.
    Run(Pick, Vec<TxOp>, End),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Commit,
    Rollback,
    Drop,
}

/// An operation of the transaction, or a read outside it.
#[derive(Clone, Debug)]
pub(super) enum TxOp {
    Enqueue(Name, Payload, EnqueueOpts),
    EnqueueBatch(Name, Vec<(Payload, EnqueueOpts)>),
    OutboxEnqueue(Name, Payload, EnqueueOpts),
    Publish(Name, Payload),
    PublishWithKey(Name, Option<Local>, Payload),
    PublishBatch(Name, Vec<(Option<Local>, Payload)>),
    Notify(Name, Payload),
    SaveOffset(Name, Local, Place),
    GetJob(Name, JobRef),
    GetOffset(Name, Local),
    ReadSince(Name, Place, i64),
    ReadFromConsumer(Name, Local, i64),
    Outside(Read),
}

pub(super) fn steps(pace: Pace) -> impl Strategy<Value = TxStep> {
    let end = prop_oneof![
        4 => Just(End::Commit),
        2 => Just(End::Rollback),
        2 => Just(End::Drop),
    ];
    let ops = proptest::collection::vec(ops(pace), 0..8);
    prop_oneof![
        2 => Just(TxStep::Begin),
        1 => (picks(), end.clone()).prop_map(|(pick, end)| TxStep::EndIdle(pick, end)),
        8 => (picks(), ops, end).prop_map(|(pick, ops, end)| TxStep::Run(pick, ops, end)),
    ]
}

fn ops(pace: Pace) -> impl Strategy<Value = TxOp> {
    let opts = || enqueue_opts(pace);
    let name = names;
    prop_oneof![
        4 => (name(), payloads(), opts()).prop_map(|(n, p, o)| TxOp::Enqueue(n, p, o)),
        1 => (name(), queue::batches(pace)).prop_map(|(n, batch)| TxOp::EnqueueBatch(n, batch)),
        3 => (name(), payloads(), opts()).prop_map(|(n, p, o)| TxOp::OutboxEnqueue(n, p, o)),
        3 => (name(), payloads()).prop_map(|(n, p)| TxOp::Publish(n, p)),
        1 => (name(), stream::keys(), payloads()).prop_map(|(n, k, p)| TxOp::PublishWithKey(n, k, p)),
        1 => (name(), stream::batches()).prop_map(|(n, batch)| TxOp::PublishBatch(n, batch)),
        2 => (name(), payloads()).prop_map(|(n, p)| TxOp::Notify(n, p)),
        3 => (name(), locals(), places()).prop_map(|(n, c, place)| TxOp::SaveOffset(n, c, place)),
        2 => (name(), jobs()).prop_map(|(n, job)| TxOp::GetJob(n, job)),
        1 => (name(), locals()).prop_map(|(n, consumer)| TxOp::GetOffset(n, consumer)),
        2 => (name(), places(), extents()).prop_map(|(n, p, limit)| TxOp::ReadSince(n, p, limit)),
        2 => (name(), locals(), extents())
            .prop_map(|(n, c, limit)| TxOp::ReadFromConsumer(n, c, limit)),
        4 => super::step::reads().prop_map(TxOp::Outside),
    ]
}

impl TxStep {
    pub(super) async fn run(&self, side: &mut Side) -> Result<String> {
        match self {
            Self::Begin => {
                let tx = side.store().begin_tx().await?;
                side.idle.keep(tx);
                Ok("begun".to_owned())
            }
            Self::EndIdle(pick, how) => match side.idle.take(*pick) {
                Some(tx) => end(tx, *how).await,
                None => Ok(NONE_HELD.to_owned()),
            },
            Self::Run(pick, ops, how) => {
                let mut tx = match side.idle.take(*pick) {
                    Some(tx) => tx,
                    None => side.store().begin_tx().await?,
                };
                let mut answers = Vec::new();
                let mut notified = Vec::new();
                for op in ops {
                    let answer = Box::pin(op.run(&mut *tx, side, &mut notified)).await;
                    answers.push(answer.unwrap_or_else(|refused| error(&refused)));
                }
                answers.push(end(tx, *how).await.unwrap_or_else(|refused| error(&refused)));
                if let End::Commit = how {
                    notified.iter().for_each(|channel| side.notified(channel));
                }
                Ok(lines(answers.into_iter()))
            }
        }
    }
}

async fn end(tx: Box<dyn TxHandle>, how: End) -> Result<String> {
    match how {
        End::Commit => tx.commit().await?,
        End::Rollback => tx.rollback().await?,
        End::Drop => drop(tx),
    }
    Ok(format!("{how:?}"))
}

impl TxOp {
    async fn run(
        &self,
        tx: &mut dyn TxHandle,
        side: &mut Side,
        notified: &mut Vec<String>,
    ) -> Result<String> {
        match self {
            Self::Outside(read) => read.run(side).await,
            Self::Notify(name, payload) => {
                let channel = side.name(*name);
                tx.notify_tx(&channel, payload.value()).await?;
                notified.push(channel);
                Ok("notified".to_owned())
            }
            Self::Enqueue(name, ..)
            | Self::EnqueueBatch(name, ..)
            | Self::OutboxEnqueue(name, ..)
            | Self::GetJob(name, _) => {
                let name = side.name(*name);
                self.on_queue(&name, tx, &mut side.seen).await
            }
            Self::Publish(name, _)
            | Self::PublishWithKey(name, ..)
            | Self::PublishBatch(name, _)
            | Self::SaveOffset(name, ..)
            | Self::GetOffset(name, _)
            | Self::ReadSince(name, ..)
            | Self::ReadFromConsumer(name, ..) => {
                let name = side.name(*name);
                self.on_stream(&name, tx, &mut side.seen).await
            }
        }
    }

    async fn on_queue(&self, name: &str, tx: &mut dyn TxHandle, seen: &mut Seen) -> Result<String> {
        let ids = match self {
            Self::Enqueue(_, payload, opts) => {
                vec![tx.enqueue_tx(name, opts.clone(), payload.value()).await?]
            }
            Self::OutboxEnqueue(_, payload, opts) => {
                vec![tx.outbox_enqueue_tx(name, opts.clone(), payload.value()).await?]
            }
            Self::EnqueueBatch(_, jobs) => tx.enqueue_batch_tx(name, queue::values(jobs)).await?,
            Self::GetJob(_, job) => {
                let job = tx.get_job_tx(name, seen.id(*job)).await?;
                return Ok(seen.jobs(job.as_slice()));
            }
            _ => unreachable!("{self:?} is no operation on a queue"),
        };
        Ok(seen.new_jobs(&ids))
    }

    async fn on_stream(
        &self,
        name: &str,
        tx: &mut dyn TxHandle,
        seen: &mut Seen,
    ) -> Result<String> {
        let offsets = match self {
            Self::Publish(_, payload) => vec![tx.publish_tx(name, payload.value()).await?],
            Self::PublishWithKey(_, key, payload) => {
                let key = key.map(Local::text);
                vec![tx.publish_with_key_tx(name, key, payload.value()).await?]
            }
            Self::PublishBatch(_, events) => {
                tx.publish_batch_tx(name, stream::values(events)).await?
            }
            Self::SaveOffset(_, consumer, place) => {
                let offset = seen.offset(name, *place);
                tx.save_offset_tx(name, &consumer.text(), offset).await?;
                return Ok("saved".to_owned());
            }
            Self::GetOffset(_, consumer) => {
                let offset = tx.get_offset_tx(name, &consumer.text()).await?;
                return Ok(seen.place(name, offset));
            }
            Self::ReadSince(_, place, limit) => {
                let offset = seen.offset(name, *place);
                return Ok(seen.events(&tx.read_since_tx(name, offset, *limit).await?));
            }
            Self::ReadFromConsumer(_, consumer, limit) => {
                let events = tx.read_from_consumer_tx(name, &consumer.text(), *limit).await?;
                return Ok(seen.events(&events));
            }
            _ => unreachable!("{self:?} is no operation on a stream"),
        };
        Ok(seen.new_offsets(name, &offsets))
    }
}
