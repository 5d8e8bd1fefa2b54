//! Steps on channels and on the receivers that listen to them.

use alkstore::Result;
use proptest::prelude::*;

use super::draw::{Name, Payload, Pick, names, payloads, picks};
use super::side::{IDLE, Listener, NONE_HELD, Other, Side};
use super::stream::PATIENCE;

/// A step on a channel.
#[derive(Clone, Debug)]
pub(super) enum NotifyStep {
    Notify(Name, Payload),
    Listen(Name),
    Recv(Pick),
    Drop(Pick),
}

pub(super) fn steps() -> impl Strategy<Value = NotifyStep> {
    prop_oneof![
        4 => (names(), payloads()).prop_map(|(name, payload)| NotifyStep::Notify(name, payload)),
        2 => names().prop_map(NotifyStep::Listen),
        5 => picks().prop_map(NotifyStep::Recv),
        1 => picks().prop_map(NotifyStep::Drop),
    ]
}

impl NotifyStep {
    pub(super) async fn run(&self, side: &mut Side) -> Result<String> {
        Ok(match self {
            Self::Notify(name, payload) => {
                let channel = side.name(*name);
                side.store().notify(&channel, payload.value()).await?;
                side.notified(&channel);
                "notified".to_owned()
            }
            Self::Listen(name) => {
                let channel = side.name(*name);
                let receiver = side.store().listen(&channel).await?;
                side.listeners.keep(Listener { channel, receiver, notified: false });
                "listening".to_owned()
            }
            Self::Recv(pick) => {
                let other = side.other;
                match side.listeners.get(*pick) {
                    Some(listener) => recv(listener, other).await?,
                    None => NONE_HELD.to_owned(),
                }
            }
            Self::Drop(pick) => {
                side.listeners.take(*pick).map_or(NONE_HELD, |_| "dropped").to_owned()
            }
        })
    }
}

/// Takes all wakes that are there. They coalesce, and may repeat if there was a cause at all.
async fn recv(listener: &mut Listener, other: Other) -> Result<String> {
    let mut woken = None;
    while let Some(wake) = listener.receiver.try_recv()? {
        woken = Some(wake);
    }
    if woken.is_none() && other == Other::Something {
        woken = listener.receiver.recv_timeout(PATIENCE).await?;
    }
    Ok(match woken {
        Some(wake) if !listener.notified => format!("{wake:?} without a cause"),
        Some(wake) if other != Other::Idle => format!("{wake:?}"),
        _ => IDLE.to_owned(),
    })
}
