//! Wakes inside one process: from whoever commits to the receivers that care.

mod signals;
/// Here, so that a test can put others in their place.
mod sync {
    pub(super) use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
}

use std::time::Duration;

use async_trait::async_trait;

use crate::{Error, LISTENER_RECONNECTED, Result, Wake, WakeReceiver};

pub use signals::{Event, Hub, Kind, Signal};

/// A [`WakeReceiver`] on a channel's signal.
#[derive(Debug)]
pub struct ChannelReceiver(Signal);

impl ChannelReceiver {
    /// A receiver of the signal's wakes.
    #[must_use]
    pub fn new(signal: Signal) -> Self {
        Self(signal)
    }

    fn wake(&self, event: Event) -> Wake {
        Wake::new(match event {
            Event::Changed | Event::Work => self.0.name(),
            Event::Reconnected => LISTENER_RECONNECTED,
        })
    }
}

#[async_trait]
impl WakeReceiver for ChannelReceiver {
    async fn recv(&mut self) -> Option<Wake> {
        let event = self.0.recv().await?;
        Some(self.wake(event))
    }

    fn try_recv(&mut self) -> Result<Option<Wake>> {
        let event = self.0.try_recv()?;
        Ok(event.map(|event| self.wake(event)))
    }

    async fn recv_timeout(&mut self, d: Duration) -> Result<Option<Wake>> {
        match tokio::time::timeout(d, self.recv()).await {
            Ok(Some(wake)) => Ok(Some(wake)),
            Ok(None) => Err(Error::Closed),
            Err(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wakes_coalesce_and_kinds_are_separate() {
        let hub = Hub::new();
        let mut channel = hub.subscribe(Kind::Channel, "a");
        let mut queue = hub.subscribe(Kind::Queue, "a");
        for _ in 0..1_000 {
            hub.wake(Kind::Channel, "a");
        }
        assert_eq!(channel.try_recv().unwrap(), Some(Event::Changed));
        assert_eq!(channel.try_recv().unwrap(), None);
        assert_eq!(queue.try_recv().unwrap(), None);
    }

    #[test]
    fn causes_are_taken_once_and_old_ones_ignored() {
        let hub = Hub::new();
        let mut signal = hub.subscribe(Kind::Channel, "a");
        hub.wake_caused(Kind::Channel, "a", 5);
        signal.ignore_until(5);
        assert_eq!(signal.try_recv().unwrap(), None);
        hub.wake_caused(Kind::Channel, "a", 4);
        assert_eq!(signal.try_recv().unwrap(), None);
        hub.wake_caused(Kind::Channel, "a", 7);
        signal.ignore_until(6);
        assert_eq!(signal.try_recv().unwrap(), Some(Event::Changed));
        hub.wake_caused(Kind::Channel, "a", 7);
        assert_eq!(signal.try_recv().unwrap(), None);
    }

    #[test]
    fn closing_yields_what_was_there_first() {
        let hub = Hub::new();
        let mut signal = hub.subscribe(Kind::Channel, "a");
        hub.wake(Kind::Channel, "a");
        hub.reconnected();
        hub.shut();
        assert_eq!(signal.try_recv().unwrap(), Some(Event::Reconnected));
        assert_eq!(signal.try_recv().unwrap(), Some(Event::Changed));
        assert!(matches!(signal.try_recv(), Err(Error::Closed)));
        assert!(matches!(hub.subscribe(Kind::Queue, "b").try_recv(), Err(Error::Closed)));
    }

    #[test]
    fn a_dropped_receiver_leaves_nothing_behind() {
        let hub = Hub::new();
        let first = hub.subscribe(Kind::Stream, "s");
        let second = hub.subscribe(Kind::Stream, "s");
        drop(first);
        assert_eq!(hub.names(Kind::Stream), ["s"]);
        drop(second);
        assert!(hub.is_idle());
    }

    #[tokio::test]
    async fn a_waiting_receiver_is_woken() {
        let hub = Hub::new();
        let mut signal = hub.subscribe(Kind::Channel, "a");
        let waiting = tokio::spawn(async move { signal.recv().await });
        tokio::task::yield_now().await;
        hub.wake(Kind::Channel, "a");
        assert_eq!(waiting.await.unwrap(), Some(Event::Changed));
    }
}
