//! One line of the table: a workload done by its floors and by the engine, round by round.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::{Durability, Result};

/// How much is measured.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    /// How long each side of a rate runs.
    pub(crate) time: Duration,
    /// How many jobs are drained one by one.
    pub(crate) jobs: usize,
    /// How many jobs are drained in batches.
    pub(crate) batched_jobs: usize,
    /// How many batches of 1,000 are written.
    pub(crate) batches: usize,
    /// How many times a sleeper is woken.
    pub(crate) wakes: usize,
    /// How many events are read in pages.
    pub(crate) events: usize,
    pub(crate) dir: PathBuf,
}

/// What one side gets for one round: a folder of its own with nothing in it.
pub(crate) struct Round<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) runtime: &'a Runtime,
    pub(crate) dir: &'a Path,
    pub(crate) durability: Durability,
}

/// Does the workload and returns its rate per second.
pub(crate) type Side = Box<dyn Fn(&Round<'_>) -> Result<f64>>;

/// A floor, and the ratio to it that the engine should reach, if one is set.
pub(crate) struct Floor {
    pub(crate) name: &'static str,
    pub(crate) target: Option<f64>,
    pub(crate) side: Side,
}

/// A workload on one engine at one durability.
pub(crate) struct Line {
    pub(crate) engine: &'static str,
    pub(crate) workload: &'static str,
    pub(crate) name: &'static str,
    pub(crate) durability: Durability,
    pub(crate) floors: Vec<Floor>,
    pub(crate) ours: Side,
}

/// The engine against one of its floors.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) engine: &'static str,
    pub(crate) workload: &'static str,
    pub(crate) name: &'static str,
    pub(crate) durability: Durability,
    pub(crate) floor: &'static str,
    pub(crate) floor_rate: Spread,
    pub(crate) our_rate: Spread,
    /// The median of the rounds' ratios: what slows a whole round down cancels out.
    pub(crate) ratio: Spread,
    pub(crate) target: Option<f64>,
}

impl Outcome {
    /// Whether the target is reached; `None` if there is none.
    pub(crate) fn ok(&self) -> Option<bool> {
        self.target.map(|target| self.ratio.median >= target)
    }
}

/// Median and extremes of some rounds.
#[derive(Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Of at least one value.
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Self { median: f64::midpoint(low, high), min: sorted[0], max: sorted[sorted.len() - 1] }
    }
}

impl Line {
    pub(crate) fn matches(&self, wanted: &str) -> bool {
        self.workload.eq_ignore_ascii_case(wanted) || self.name.contains(wanted)
    }

    /// All sides take turns within a round, in the other direction every second round.
    pub(crate) fn measure(&self, plan: &Plan) -> Result<Vec<Outcome>> {
        let sides: Vec<&Side> = self.floors.iter().map(|f| &f.side).chain([&self.ours]).collect();
        let mut rates: Vec<Vec<f64>> = vec![Vec::new(); sides.len()];
        for round in 0..plan.rounds {
            let mut order: Vec<usize> = (0..sides.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for side in order {
                rates[side].push(self.run(sides[side], plan)?);
            }
        }
        let ours = rates.pop().expect("the engine's side is the last");
        let floors = self.floors.iter().zip(&rates);
        Ok(floors.map(|(floor, rates)| self.outcome(floor, rates, &ours)).collect())
    }

    fn run(&self, side: &Side, plan: &Plan) -> Result<f64> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
        let dir = plan.dir.join(std::process::id().to_string());
        fs::create_dir_all(&dir)?;
        let round = Round { plan, runtime: &runtime, dir: &dir, durability: self.durability };
        let rate = side(&round);
        drop(runtime);
        fs::remove_dir_all(&dir)?;
        rate
    }

    fn outcome(&self, floor: &Floor, rates: &[f64], ours: &[f64]) -> Outcome {
        Outcome {
            engine: self.engine,
            workload: self.workload,
            name: self.name,
            durability: self.durability,
            floor: floor.name,
            floor_rate: Spread::of(rates.iter().copied()),
            our_rate: Spread::of(ours.iter().copied()),
            ratio: Spread::of(ours.iter().zip(rates).map(|(ours, floor)| ours / floor)),
            target: floor.target,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rounds: usize) -> Plan {
        let dir = std::env::temp_dir().join("alkstore-bench-test");
        Plan {
            rounds,
            time: Duration::ZERO,
            jobs: 0,
            batched_jobs: 0,
            batches: 0,
            wakes: 0,
            events: 0,
            dir,
        }
    }

    #[test]
    fn a_ratio_is_the_median_of_the_rounds() {
        let rates = |values: [f64; 3]| {
            let next = std::cell::Cell::new(0);
            let side: Side = Box::new(move |_| Ok(values[next.replace(next.get() + 1)]));
            side
        };
        let line = Line {
            engine: "none",
            workload: "W0",
            name: "nothing",
            durability: Durability::Full,
            floors: vec![Floor {
                name: "raw",
                target: Some(0.8),
                side: rates([100.0, 10.0, 200.0]),
            }],
            ours: rates([70.0, 9.0, 180.0]),
        };
        let outcome = line.measure(&plan(3)).unwrap().remove(0);
        assert_eq!(outcome.ratio, Spread { median: 0.9, min: 0.7, max: 0.9 });
        assert_eq!(outcome.our_rate.median, 70.0);
        assert_eq!(outcome.ok(), Some(true));
    }

    #[test]
    fn medians_of_even_numbers_lie_between() {
        let spread = Spread::of([4.0, 1.0, 2.0, 8.0].into_iter());
        assert_eq!(spread, Spread { median: 3.0, min: 1.0, max: 8.0 });
    }
}
