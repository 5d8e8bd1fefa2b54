//! Notifications: wakes of channels, and nothing that is kept.

use std::time::Duration;

use alkstore::engine::clock::Clock;
use alkstore::engine::hub::{ChannelReceiver, Kind};
use alkstore::engine::wait::{First, first};
use alkstore::{Error, Result, Wake, WakeReceiver, async_trait};

use crate::conn::{Conn, State};

/// Receives one channel's wakes; its timeouts follow the store's clock.
#[derive(Debug)]
pub(crate) struct MemReceiver {
    wakes: ChannelReceiver,
    clock: Clock,
}

#[async_trait]
impl WakeReceiver for MemReceiver {
    async fn recv(&mut self) -> Option<Wake> {
        self.wakes.recv().await
    }

    fn try_recv(&mut self) -> Result<Option<Wake>> {
        self.wakes.try_recv()
    }

    async fn recv_timeout(&mut self, d: Duration) -> Result<Option<Wake>> {
        let us = i64::try_from(d.as_micros()).unwrap_or(i64::MAX);
        let end = self.clock.now_us().saturating_add(us);
        match first(self.wakes.recv(), self.clock.sleep_until(end)).await {
            First::A(wake) => wake.map(Some).ok_or(Error::Closed),
            First::B(()) => Ok(None),
        }
    }
}

/// Commits a notification and returns its number, for the wake that follows the commit.
pub(crate) fn notify(state: &mut State) -> i64 {
    state.notifications += 1;
    state.notifications
}

/// Subscribes first and then looks which notifications have committed: those are not its own.
pub(crate) async fn listen(conn: &Conn, channel: &str) -> Result<MemReceiver> {
    let mut signal = conn.subscribe(Kind::Channel, channel);
    let committed = conn.read(|state| state.notifications).await?;
    signal.ignore_until(committed);
    Ok(MemReceiver { wakes: ChannelReceiver::new(signal), clock: conn.clock().clone() })
}
