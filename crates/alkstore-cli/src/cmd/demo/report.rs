//! The audit's report: for people as a table, for machines as one JSON line.

use std::time::Duration;

use anyhow::{Result, bail};
use serde::Serialize;

use crate::output::{Output, count};

use super::figures::Figures;

/// One line of the audit.
#[derive(Serialize)]
pub(super) struct Check {
    check: &'static str,
    expected: i64,
    /// Whether more than the expected is right too.
    at_least: bool,
    found: i64,
    ok: bool,
}

impl Check {
    pub(super) fn exactly(check: &'static str, expected: i64, found: i64) -> Self {
        Self { check, expected, at_least: false, found, ok: found == expected }
    }

    pub(super) fn at_least(check: &'static str, expected: i64, found: i64) -> Self {
        Self { check, expected, at_least: true, found, ok: found >= expected }
    }

    fn row(&self) -> Vec<String> {
        let sign = if self.at_least { "≥ " } else { "" };
        let verdict = if self.ok { "ok" } else { "FAULT" };
        vec![
            self.check.to_owned(),
            format!("{sign}{}", grouped(self.expected)),
            grouped(self.found),
            verdict.to_owned(),
        ]
    }
}

/// What the audit of a run found.
pub(super) struct Report {
    pub(super) run: i64,
    pub(super) checks: Vec<Check>,
    pub(super) figures: Figures,
}

#[derive(Serialize)]
struct ReportLine<'a> {
    run: i64,
    clean: bool,
    elapsed_ms: Option<u128>,
    checks: &'a [Check],
    figures: &'a Figures,
}

impl Report {
    fn faults(&self) -> usize {
        self.checks.iter().filter(|check| !check.ok).count()
    }

    /// An error if a check does not hold.
    pub(super) fn verdict(&self) -> Result<()> {
        match self.faults() {
            0 => Ok(()),
            faults => bail!("the audit of run {} is not clean: {faults} checks fail", self.run),
        }
    }

    pub(super) fn print(&self, elapsed: Option<Duration>, out: &mut Output) -> Result<()> {
        if out.is_json() {
            return out.object(&ReportLine {
                run: self.run,
                clean: self.faults() == 0,
                elapsed_ms: elapsed.map(|elapsed| elapsed.as_millis()),
                checks: &self.checks,
                figures: &self.figures,
            });
        }
        let rows = self.checks.iter().map(Check::row).collect();
        out.table(&["AUDIT", ">EXPECTED", ">FOUND", ""], rows)?;
        out.line("")?;
        self.figures.print(out)?;
        if let Some(elapsed) = elapsed {
            out.line(format_args!("elapsed       {:.1} s", elapsed.as_secs_f64()))?;
        }
        Ok(())
    }
}

/// A number as people read it.
pub(super) fn grouped(n: i64) -> String {
    u64::try_from(n).map_or_else(|_| n.to_string(), count)
}
