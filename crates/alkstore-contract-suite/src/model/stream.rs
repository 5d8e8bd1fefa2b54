//! Steps on streams and on the receivers that follow them.

use std::time::Duration;

use alkstore::{EventReceiver, Result, StreamEvent};
use proptest::prelude::*;
use serde_json::Value;
use tokio::time::timeout;

use super::draw::{
    Local, Name, Payload, Pick, Place, extents, locals, names, payloads, picks, places, seldom,
};
use super::side::{IDLE, NONE_HELD, Other, Side};

/// What one side has, the other has within this time.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A step on the stream of a name.
#[derive(Clone, Debug)]
pub(super) enum StreamStep {
    Publish(Payload),
    PublishWithKey(Option<Local>, Payload),
    PublishBatch(Vec<(Option<Local>, Payload)>),
    ReadSince(Place, i64),
    ReadFromConsumer(Local, i64),
    SaveOffset(Local, Place),
    GetOffset(Local),
    TrimTo(Place),
    Subscribe(Local),
}

/// A step on a receiver that is held; which one is the step's [`Pick`].
#[derive(Clone, Debug)]
pub(super) enum ReceiverStep {
    Recv,
    ReadSince(Place, i64),
    SaveOffset,
    Offset,
    Drop,
}

pub(super) fn keys() -> impl Strategy<Value = Option<Local>> {
    seldom(locals())
}

pub(super) fn batches() -> impl Strategy<Value = Vec<(Option<Local>, Payload)>> {
    proptest::collection::vec((keys(), payloads()), 0..5)
}

pub(super) fn steps() -> impl Strategy<Value = (Name, StreamStep)> {
    let step = prop_oneof![
        6 => payloads().prop_map(StreamStep::Publish),
        3 => (keys(), payloads()).prop_map(|(key, p)| StreamStep::PublishWithKey(key, p)),
        2 => batches().prop_map(StreamStep::PublishBatch),
        4 => reads(),
        3 => (locals(), places()).prop_map(|(consumer, p)| StreamStep::SaveOffset(consumer, p)),
        2 => places().prop_map(StreamStep::TrimTo),
        3 => locals().prop_map(StreamStep::Subscribe),
    ];
    (names(), step)
}

/// Steps that change nothing.
pub(super) fn reads() -> impl Strategy<Value = StreamStep> {
    prop_oneof![
        (places(), extents()).prop_map(|(place, limit)| StreamStep::ReadSince(place, limit)),
        (locals(), extents()).prop_map(|(c, limit)| StreamStep::ReadFromConsumer(c, limit)),
        locals().prop_map(StreamStep::GetOffset),
    ]
}

pub(super) fn receiver_steps() -> impl Strategy<Value = (Pick, ReceiverStep)> {
    let step = prop_oneof![
        8 => Just(ReceiverStep::Recv),
        1 => (places(), extents()).prop_map(|(place, limit)| ReceiverStep::ReadSince(place, limit)),
        3 => Just(ReceiverStep::SaveOffset),
        1 => Just(ReceiverStep::Offset),
        1 => Just(ReceiverStep::Drop),
    ];
    (picks(), step)
}

impl StreamStep {
    pub(super) async fn run(&self, name: Name, side: &mut Side) -> Result<String> {
        let stream = side.stream(name).await?;
        let name = stream.name().to_owned();
        let seen = &mut side.seen;
        Ok(match self {
            Self::Publish(payload) => {
                let offset = stream.publish(payload.value()).await?;
                seen.new_offsets(&name, &[offset])
            }
            Self::PublishWithKey(key, payload) => {
                let key = key.map(Local::text);
                let offset = stream.publish_with_key(key, payload.value()).await?;
                seen.new_offsets(&name, &[offset])
            }
            Self::PublishBatch(events) => {
                let offsets = stream.publish_batch(values(events)).await?;
                seen.new_offsets(&name, &offsets)
            }
            Self::ReadSince(place, limit) => {
                let offset = seen.offset(&name, *place);
                seen.events(&stream.read_since(offset, *limit).await?)
            }
            Self::ReadFromConsumer(consumer, limit) => {
                seen.events(&stream.read_from_consumer(&consumer.text(), *limit).await?)
            }
            Self::SaveOffset(consumer, place) => {
                let offset = seen.offset(&name, *place);
                stream.save_offset(&consumer.text(), offset).await?;
                "saved".to_owned()
            }
            Self::GetOffset(consumer) => {
                seen.place(&name, stream.get_offset(&consumer.text()).await?)
            }
            Self::TrimTo(place) => {
                let horizon = seen.offset(&name, *place);
                stream.trim_to(horizon).await?.to_string()
            }
            Self::Subscribe(consumer) => {
                let receiver = stream.subscribe(&consumer.text()).await?;
                side.receivers.keep((name, receiver));
                "subscribed".to_owned()
            }
        })
    }
}

/// The batch as the engine takes it.
pub(super) fn values(events: &[(Option<Local>, Payload)]) -> Vec<(Option<String>, Value)> {
    events.iter().map(|(key, payload)| (key.map(Local::text), payload.value())).collect()
}

impl ReceiverStep {
    pub(super) async fn run(&self, pick: Pick, side: &mut Side) -> Result<String> {
        if let Self::Drop = self {
            return Ok(side.receivers.take(pick).map_or(NONE_HELD, |_| "dropped").to_owned());
        }
        let Side { receivers, seen, other, .. } = side;
        let Some((stream, receiver)) = receivers.get(pick) else {
            return Ok(NONE_HELD.to_owned());
        };
        Ok(match self {
            Self::Recv => {
                let event = recv(&mut **receiver, *other).await?;
                event.map_or(IDLE.to_owned(), |event| seen.event(&event))
            }
            Self::ReadSince(place, limit) => {
                let offset = seen.offset(stream, *place);
                seen.events(&receiver.read_since(offset, *limit).await?)
            }
            Self::SaveOffset => {
                receiver.save_offset().await?;
                "saved".to_owned()
            }
            Self::Offset | Self::Drop => seen.place(stream, receiver.offset()),
        })
    }
}

/// An event that is there, or that must come.
async fn recv(receiver: &mut dyn EventReceiver, other: Other) -> Result<Option<StreamEvent>> {
    match receiver.try_recv()? {
        None if other == Other::Something => match timeout(PATIENCE, receiver.recv()).await {
            Ok(Some(event)) => event.map(Some),
            Ok(None) => Err(alkstore::Error::Closed),
            Err(_) => Ok(None),
        },
        event => Ok(event),
    }
}
