//! Notifications: recorded for other processes with the commit, woken here right after it.

use std::sync::Arc;

use alkstore::engine::hub::{ChannelReceiver, Kind};
use alkstore::{Result, WakeReceiver};

use crate::conn::{Core, Write};

pub(crate) async fn listen(core: &Core, channel: &str) -> Result<Box<dyn WakeReceiver>> {
    let mut signal = core.subscribe(Kind::Channel, channel).await?;
    // What was committed up to here wakes nobody, however late its wake comes.
    signal.ignore_until(core.last_notification().await?);
    Ok(Box::new(ChannelReceiver::new(signal)))
}

pub(crate) fn notify(write: &mut Write<'_>, channel: &Arc<str>) -> rusqlite::Result<()> {
    write.notify(channel)
}
