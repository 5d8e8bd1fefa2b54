//! Payloads from the command line or, one a line, from standard input.
//!
//! Lines go into the store in batches, each in one transaction. When the input pauses, what is
//! there is stored at once, so that a live pipe flows.

use std::io::{self, BufRead, IsTerminal};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::mpsc;

use crate::interrupt::interrupted;
use crate::output::count;

/// How long the input may pause before what is there is stored.
const PAUSE: Duration = Duration::from_millis(200);

/// What went in: how many payloads, and the ids of the first and the last.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    pub(crate) count: u64,
    ends: Option<(i64, i64)>,
}

impl Stored {
    fn add(&mut self, ids: &[i64]) {
        self.count += ids.len() as u64;
        if let (Some(&first), Some(&last)) = (ids.first(), ids.last()) {
            self.ends = Some((self.ends.map_or(first, |(first, _)| first), last));
        }
    }

    /// `", ids 3 to 8"`; nothing if there are none.
    pub(crate) fn span(&self, what: &str) -> String {
        self.ends.map(|(first, last)| format!(", {what} {first} to {last}")).unwrap_or_default()
    }
}

/// One usable line.
struct Line<T> {
    number: u64,
    /// Bytes of the input up to and with this line.
    end: u64,
    item: T,
}

/// Reads standard input line by line, parses each, and gives them to `store` in batches.
///
/// Blank lines are passed over. The first line that cannot be used ends it: its batch is not
/// stored, and the error says which lines are.
pub(crate) async fn in_batches<T, P, S>(batch: u32, parse: P, mut store: S) -> Result<Stored>
where
    T: Send + 'static,
    P: Fn(&str) -> Result<T> + Send + 'static,
    S: AsyncFnMut(Vec<T>) -> Result<Vec<i64>>,
{
    let batch = usize::try_from(batch)?;
    if io::stdin().is_terminal() {
        eprintln!("reading one JSON value a line from the terminal; Ctrl-D ends");
    }
    let (sender, mut lines) = mpsc::channel(batch.clamp(1, 10_000));
    // Reading blocks, and a pipe may never end: the thread is left behind when the command ends.
    std::thread::spawn(move || read_lines(io::stdin().lock(), parse, &sender));
    let bar = progress_bar();
    let (mut stored, mut last) = (Stored::default(), 0);
    let outcome = tokio::select! {
        () = interrupted() => Err(anyhow!("interrupted")),
        outcome = store_lines(batch, &mut lines, &mut store, |ids, line, end| {
            stored.add(ids);
            last = line;
            bar.set_position(end);
            bar.set_message(count(stored.count));
        }) => outcome,
    };
    bar.finish_and_clear();
    outcome.with_context(|| match last {
        0 => "nothing was stored".to_owned(),
        _ => format!(
            "stopped: {} payloads, up to line {last}, are stored and stay; go on from line {}",
            count(stored.count),
            last + 1
        ),
    })?;
    Ok(stored)
}

async fn store_lines<T>(
    batch: usize,
    lines: &mut mpsc::Receiver<Result<Line<T>>>,
    store: &mut impl AsyncFnMut(Vec<T>) -> Result<Vec<i64>>,
    mut progress: impl FnMut(&[i64], u64, u64),
) -> Result<()> {
    while let Some(first) = lines.recv().await {
        let first = first?;
        let (mut number, mut end) = (first.number, first.end);
        let mut items = vec![first.item];
        while items.len() < batch
            && let Ok(Some(line)) = tokio::time::timeout(PAUSE, lines.recv()).await
        {
            let line = line?;
            (number, end) = (line.number, line.end);
            items.push(line.item);
        }
        let ids = store(items)
            .await
            .with_context(|| format!("lines {} to {number} could not be stored", first.number))?;
        progress(&ids, number, end);
    }
    Ok(())
}

fn read_lines<T>(
    mut input: impl BufRead,
    parse: impl Fn(&str) -> Result<T>,
    sender: &mpsc::Sender<Result<Line<T>>>,
) {
    let (mut number, mut end) = (0, 0);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        number += 1;
        let line = match input.read_until(b'\n', &mut bytes) {
            Ok(0) => return,
            Ok(read) => {
                end += read as u64;
                if number == 1 && bytes.starts_with(b"\xef\xbb\xbf") {
                    bytes.drain(..3);
                }
                if bytes.trim_ascii().is_empty() {
                    continue;
                }
                std::str::from_utf8(&bytes)
                    .context("it is not UTF-8")
                    .and_then(&parse)
                    .map(|item| Line { number, end, item })
            }
            Err(error) => Err(error).context("standard input could not be read"),
        };
        let line = line.with_context(|| format!("line {number} cannot be used"));
        let last = line.is_err();
        if sender.blocking_send(line).is_err() || last {
            return;
        }
    }
}

/// A bar on standard error if that is a terminal: by bytes where the input's size is known.
fn progress_bar() -> ProgressBar {
    let bar = match stdin_size() {
        Some(bytes) => ProgressBar::new(bytes).with_style(
            ProgressStyle::with_template("{bar:30} {percent:>3}%  {msg} stored  {eta} left")
                .expect("the template is well-formed"),
        ),
        None => ProgressBar::new_spinner().with_style(
            ProgressStyle::with_template("{spinner} {msg} stored in {elapsed}")
                .expect("the template is well-formed"),
        ),
    };
    bar.set_draw_target(ProgressDrawTarget::stderr());
    bar
}

/// The size of standard input where it is a file.
fn stdin_size() -> Option<u64> {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        let file = std::fs::File::from(io::stdin().as_fd().try_clone_to_owned().ok()?);
        let meta = file.metadata().ok()?;
        meta.is_file().then_some(meta.len())
    }
    #[cfg(not(unix))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &'static [u8]) -> mpsc::Receiver<Result<Line<String>>> {
        let (sender, lines) = mpsc::channel(100);
        std::thread::spawn(move || read_lines(input, |text| Ok(text.trim().to_owned()), &sender));
        lines
    }

    async fn batches(batch: usize, input: &'static [u8]) -> (Vec<Vec<String>>, Result<()>) {
        let mut batches = Vec::new();
        let mut store = async |items: Vec<String>| {
            let ids = vec![0; items.len()];
            batches.push(items);
            Ok(ids)
        };
        let outcome = store_lines(batch, &mut read(input), &mut store, |_, _, _| {}).await;
        (batches, outcome)
    }

    #[tokio::test]
    async fn blank_lines_and_a_byte_order_mark_are_passed_over() {
        let (batches, outcome) = batches(2, b"\xef\xbb\xbf1\n\n 2 \r\n\t\n3").await;
        outcome.unwrap();
        assert_eq!(batches, [vec!["1", "2"], vec!["3"]]);
    }

    #[tokio::test]
    async fn a_bad_line_is_named_and_its_batch_is_left_out() {
        let (batches, outcome) = batches(2, b"1\n2\n\n3\n\xff\n5\n").await;
        assert_eq!(batches, [vec!["1", "2"]]);
        assert_eq!(outcome.unwrap_err().to_string(), "line 5 cannot be used");
    }
}
