//! `alkstore notify`: wakes the listeners of a channel.

use anyhow::Result;

use crate::connect::Engine;
use crate::json_text::JsonText;

#[derive(clap::Args)]
#[command(after_help = "Nothing is kept for listeners that come later.")]
pub(crate) struct Args {
    /// The channel.
    channel: String,
    /// A payload, as JSON. It is checked, but a wake carries none.
    #[arg(default_value = "null")]
    payload: String,
}

/// Notifies; prints nothing.
pub(crate) async fn run(args: Args, store: &dyn Engine) -> Result<()> {
    let payload = JsonText::parse(&args.payload)?.value()?;
    Ok(store.notify(&args.channel, payload).await?)
}
