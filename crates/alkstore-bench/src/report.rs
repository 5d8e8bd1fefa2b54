//! Results for people and for programs.

use std::io::{self, Write};

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use serde_json::json;

use crate::line::{Outcome, Plan, Spread};

/// Says that a line is done, since all of them take a while.
pub(crate) fn progress(measured: &[Outcome]) {
    for outcome in measured {
        eprintln!(
            "{} {} {:?}: {:.2} of {}",
            outcome.workload, outcome.name, outcome.durability, outcome.ratio.median, outcome.floor
        );
    }
}

pub(crate) fn table(outcomes: &[Outcome]) -> io::Result<()> {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(["", "workload", "", "floor", "floor/s", "ours/s", "ratio", "target", ""]);
    for outcome in outcomes {
        table.add_row([
            outcome.workload.to_owned(),
            outcome.name.to_owned(),
            format!("{} {:?}", outcome.engine, outcome.durability),
            outcome.floor.to_owned(),
            rate(&outcome.floor_rate),
            rate(&outcome.our_rate),
            format!("{:.2}", outcome.ratio.median),
            outcome.target.map_or_else(String::new, |target| format!("≥ {target}")),
            outcome.ok().map_or("", |ok| if ok { "ok" } else { "miss" }).to_owned(),
        ]);
    }
    for column in [4, 5, 6, 7] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    writeln!(io::stdout(), "{table}")
}

pub(crate) fn json(plan: &Plan, outcomes: &[Outcome]) -> serde_json::Result<String> {
    let spread = |s: &Spread| json!({"median": s.median, "min": s.min, "max": s.max});
    let results: Vec<_> = outcomes
        .iter()
        .map(|o| {
            json!({
                "engine": o.engine,
                "workload": o.workload,
                "name": o.name,
                "durability": format!("{:?}", o.durability).to_lowercase(),
                "floor": o.floor,
                "floor_per_s": spread(&o.floor_rate),
                "ours_per_s": spread(&o.our_rate),
                "ratio": spread(&o.ratio),
                "target": o.target,
                "ok": o.ok(),
            })
        })
        .collect();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    serde_json::to_string_pretty(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "os": std::env::consts::OS,
        "cores": cores,
        "rounds": plan.rounds,
        "results": results,
    }))
}

/// The median and, as a percentage of it, how far the rounds were apart.
fn rate(spread: &Spread) -> String {
    let width = (spread.max - spread.min) / spread.median * 50.0;
    format!("{} ±{width:.0}%", thousands(spread.median))
}

fn thousands(rate: f64) -> String {
    let digits = format!("{rate:.0}");
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_readable() {
        assert_eq!(thousands(7.4), "7");
        assert_eq!(thousands(123.0), "123");
        assert_eq!(thousands(1_234_567.8), "1,234,568");
        assert_eq!(rate(&Spread { median: 1000.0, min: 900.0, max: 1100.0 }), "1,000 ±10%");
    }
}
