//! Live progress: bars on a terminal, a line now and then elsewhere. All on standard error.

use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::{count, shown};

/// How often the counts are printed where there is no terminal.
const EVERY: Duration = Duration::from_secs(2);

/// How far the run is, as the business tables tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) orders: i64,
    pub(super) emails: i64,
    pub(super) events: i64,
    pub(super) webhooks: i64,
    pub(super) reports: i64,
}

pub(super) struct Progress {
    /// Orders, emails, events and webhooks; `None` where there is no terminal.
    bars: Option<(MultiProgress, [ProgressBar; 4])>,
    printed: Cell<(Counts, Instant)>,
}

impl Progress {
    pub(super) fn new(orders: u64) -> Self {
        let bars = std::io::stderr().is_terminal().then(|| {
            let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
            let style =
                ProgressStyle::with_template("{prefix:>9} {bar:40} {human_pos}/{human_len}")
                    .expect("the template is well-formed");
            let bars = ["orders", "emails", "events", "webhooks"].map(|name| {
                all.add(ProgressBar::new(orders).with_style(style.clone()).with_prefix(name))
            });
            (all, bars)
        });
        Self { bars, printed: Cell::new((Counts::default(), Instant::now())) }
    }

    /// Tells of something that happened.
    pub(super) fn say(&self, text: String) {
        let text = shown(&text);
        match &self.bars {
            Some((all, _)) => all.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }

    /// How many orders there will be in the end.
    pub(super) fn expect(&self, orders: u64) {
        for bar in self.bars.iter().flat_map(|(_, bars)| bars) {
            bar.set_length(orders);
        }
    }

    pub(super) fn show(&self, counts: Counts) {
        let Counts { orders, emails, events, webhooks, .. } = counts;
        let parts = [orders, emails, events, webhooks].map(|n| u64::try_from(n).unwrap_or(0));
        if let Some((_, bars)) = &self.bars {
            for (bar, n) in bars.iter().zip(parts) {
                bar.set_position(n);
            }
            return;
        }
        let (printed, at) = self.printed.get();
        if counts != printed && at.elapsed() >= EVERY {
            let [orders, emails, events, webhooks] = parts.map(count);
            eprintln!("{orders} orders, {emails} emails, {events} events, {webhooks} webhooks");
            self.printed.set((counts, Instant::now()));
        }
    }

    /// Takes the bars away.
    pub(super) fn clear(&self) {
        if let Some((all, _)) = &self.bars {
            // A terminal that has gone needs no clearing.
            let _ = all.clear();
        }
    }
}
