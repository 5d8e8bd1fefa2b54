//! `alkstore enqueue`: one job, or one per line of standard input.

use alkstore::ops::{QueueAddress, QueueKind};
use alkstore::{EnqueueOpts, QueueOpts, validate_shared_name};
use anyhow::Result;
use serde::Serialize;

use crate::connect::Engine;
use crate::input::in_batches;
use crate::json_text::JsonText;
use crate::output::{Output, count, shown};
use crate::report::Usage;

#[derive(clap::Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Args {
    /// The queue, or outbox:NAME.
    queue: String,
    /// The payload, as JSON; without it, each line of standard input is one.
    payload: Option<String>,
    /// Seconds before it may be claimed.
    #[arg(long, value_name = "SECONDS")]
    delay: Option<i64>,
    /// Unix second from which it may be claimed.
    #[arg(long, value_name = "UNIX_SECOND", conflicts_with = "delay")]
    run_at: Option<i64>,
    /// Higher is claimed first.
    #[arg(long, default_value_t = 0)]
    priority: i64,
    /// Claims after which it is dead [default: 3; 5 in an outbox].
    #[arg(long, value_name = "N")]
    max_attempts: Option<i64>,
    /// Seconds from now after which it is not handed out any more.
    #[arg(long, value_name = "SECONDS")]
    expires: Option<i64>,
    /// Seconds that a claim lasts [default: 300; 60 in an outbox].
    #[arg(long, value_name = "SECONDS")]
    visibility: Option<i64>,
    /// Seconds before the first retry; each further one doubles [default: 5].
    #[arg(long, value_name = "SECONDS")]
    backoff: Option<i64>,
    /// Seconds that it is kept once dead [default: for ever].
    #[arg(long, value_name = "SECONDS")]
    retention: Option<i64>,
    /// Lines of standard input per transaction; a pause in the input ends one too.
    #[arg(long, value_name = "LINES", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batch: u32,
}

/// Enqueues and prints the ids.
pub(crate) async fn run(args: Args, store: &dyn Engine, out: &mut Output) -> Result<()> {
    let target = Target::new(&args, store)?;
    if let Some(payload) = &args.payload {
        let ids = target.enqueue(vec![JsonText::parse(payload)?]).await?;
        return report(&args.queue, &ids, out);
    }
    let stored = in_batches(args.batch, JsonText::parse, async |payloads| {
        let ids = target.enqueue(payloads).await?;
        if out.is_json() {
            report(&args.queue, &ids, out)?;
        }
        Ok(ids)
    })
    .await?;
    if out.is_json() {
        return Ok(());
    }
    let (queue, ids) = (shown(&args.queue), stored.span("ids"));
    out.line(format_args!("{queue}: {} enqueued{ids}", count(stored.count)))
}

/// Where the jobs go, and how they are stamped.
struct Target<'a> {
    store: &'a dyn Engine,
    address: QueueAddress,
    stamps: QueueOpts,
    opts: EnqueueOpts,
}

impl<'a> Target<'a> {
    fn new(args: &Args, store: &'a dyn Engine) -> Result<Self> {
        let address = QueueAddress::parse(&args.queue);
        validate_shared_name(&address.name)?;
        let defaults = QueueOpts::default();
        let stamps = QueueOpts {
            visibility_timeout_s: args.visibility.unwrap_or(defaults.visibility_timeout_s),
            backoff_base_s: args.backoff.unwrap_or(defaults.backoff_base_s),
            dead_letter_retention_s: args.retention,
            ..defaults
        };
        let stamped = args.visibility.or(args.backoff).or(args.retention).is_some();
        if address.kind == QueueKind::Outbox && stamped {
            return Err(Usage(
                "an outbox has stamps of its own: leave out --visibility, --backoff and \
                 --retention"
                    .to_owned(),
            )
            .into());
        }
        let opts = EnqueueOpts {
            delay: args.delay,
            run_at: args.run_at,
            priority: args.priority,
            max_attempts: args.max_attempts,
            expires: args.expires,
        };
        Ok(Self { store, address, stamps, opts })
    }

    async fn enqueue(&self, payloads: Vec<JsonText>) -> Result<Vec<i64>> {
        let job = |payload: JsonText| (payload.into_text(), self.opts.clone());
        let jobs = payloads.into_iter().map(job).collect();
        Ok(self.store.enqueue_texts(&self.address, &self.stamps, jobs).await?)
    }
}

#[derive(Serialize)]
struct Enqueued<'a> {
    queue: &'a str,
    id: i64,
}

fn report(queue: &str, ids: &[i64], out: &mut Output) -> Result<()> {
    for &id in ids {
        if out.is_json() {
            out.object(&Enqueued { queue, id })?;
        } else {
            out.line(format_args!("{}: job {id}", shown(queue)))?;
        }
    }
    Ok(())
}
