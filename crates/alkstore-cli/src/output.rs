//! What goes to standard output: tables and lines for people, JSON lines for machines.

use std::fmt::Display;
use std::io::{self, BufWriter, Write};

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

/// Whoever reads the output has closed the pipe, as `head` does.
#[derive(Debug, thiserror::Error)]
#[error("standard output was closed")]
pub(crate) struct StdoutClosed;

/// Standard output in one of its two forms.
pub(crate) struct Output {
    out: Box<dyn Write + Send>,
    json: bool,
}

impl Output {
    pub(crate) fn to_stdout(json: bool) -> Self {
        Self { out: Box::new(BufWriter::new(io::stdout())), json }
    }

    /// Whether the reader is a machine.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Writes a value as one JSON line.
    pub(crate) fn object(&mut self, value: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(value).context("could not encode the output")?;
        self.line(line)
    }

    /// Writes a line as it is.
    pub(crate) fn line(&mut self, line: impl Display) -> Result<()> {
        writeln!(self.out, "{line}").or_else(write_failed)
    }

    /// Writes a table. Columns named with a leading `>` are aligned to the right.
    pub(crate) fn table(&mut self, header: &[&str], rows: Vec<Vec<String>>) -> Result<()> {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(header.iter().map(|name| name.trim_start_matches('>')));
        for row in rows {
            table.add_row(row);
        }
        for (column, name) in table.column_iter_mut().zip(header) {
            column.set_padding((0, 2));
            if name.starts_with('>') {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for line in table.lines() {
            self.line(line.trim_end())?;
        }
        Ok(())
    }

    /// Writes a list: one JSON line or one row of a table for each item.
    pub(crate) fn list<T: Serialize>(
        &mut self,
        header: &[&str],
        items: impl IntoIterator<Item = T>,
        row: impl Fn(&T) -> Vec<String>,
    ) -> Result<()> {
        if !self.json {
            return self.table(header, items.into_iter().map(|item| row(&item)).collect());
        }
        items.into_iter().try_for_each(|item| self.object(&item))
    }

    /// Hands everything written so far to the reader.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.out.flush().or_else(write_failed)
    }
}

fn write_failed(error: io::Error) -> Result<()> {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Err(StdoutClosed.into());
    }
    Err(error).context("could not write to standard output")
}

/// Text as it is shown: what could steer a terminal or break a line is escaped.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_invisible(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Line separators and the marks that reorder text.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// The same, cut to a number of characters.
pub(crate) fn shown_short(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", shown(&text[..end])),
        None => shown(text),
    }
}

/// A unix second as `2026-11-30 22:40:44`, in UTC; years beyond 9999 stay a number.
pub(crate) fn utc(unix_s: i64) -> String {
    const LAST: i64 = 253_402_300_799;
    if !(0..=LAST).contains(&unix_s) {
        return unix_s.to_string();
    }
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    // Years that begin in March put the leap day at the end; an era has 400 of them.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second % 3_600 / 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// A count with its thousands set apart: `12,345`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_dates() {
        for (unix_s, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_400, "2000-02-29 00:00:00"),
            (951_868_800, "2000-03-01 00:00:00"),
            (1_709_251_199, "2024-02-29 23:59:59"),
            (4_107_542_400, "2100-03-01 00:00:00"),
            (253_402_300_799, "9999-12-31 23:59:59"),
            (253_402_300_800, "253402300800"),
            (-1, "-1"),
            (i64::MIN, "-9223372036854775808"),
        ] {
            assert_eq!(utc(unix_s), text);
        }
    }

    #[test]
    fn shown_text_cannot_steer_a_terminal() {
        assert_eq!(shown("a\u{1b}[31m\n\u{9b}\u{202e}ü"), "a\\u{1b}[31m\\n\\u{9b}\\u{202e}ü");
        assert_eq!(shown_short("äöü", 3), "äöü");
        assert_eq!(shown_short("äöüß", 3), "äöü…");
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }
}
