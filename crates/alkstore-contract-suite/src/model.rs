//! Random sequences of operations on two engines side by side: every answer must be the same.
//!
//! A step names what it acts on by its place ("the third newest job"), so that it means the same
//! on both sides and in a shortened sequence. A failure prints the shortest sequence found, and its
//! seed goes to `proptest-regressions/` in the package under test, from where it is run first.
//! `PROPTEST_RNG_SEED` repeats a whole run.

mod draw;
mod lock;
mod notify;
mod ops;
mod outbox;
mod queue;
mod schedule;
mod seen;
mod side;
mod step;
mod stream;
mod trial;
mod tx;

use std::cell::Cell;
use std::fmt::Write as _;
use std::sync::Arc;
use std::thread;

use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestError, TestRunner};

use self::draw::Pace;
use self::step::{Step, steps};
use self::trial::{Pair, Verdict};
use crate::StoreFactory;

/// Steps that a sequence has at most; half as many on average.
const STEPS: usize = 100;

/// Sequences that share a pair of databases: opening takes longer than many a sequence.
const SHARED: u32 = 25;

/// A sequence in which a second ended amid a step is run again, up to so many times.
const ATTEMPTS: u32 = 100;

/// Runs random sequences on a reference, the memory engine, and on a candidate.
///
/// One in fifty sequences lets claims, locks and delays run out; those wait side by side.
///
/// # Panics
/// If an answer differs, with the sequence that led to it.
pub fn run(reference: impl StoreFactory, candidate: impl StoreFactory, sequences: u32) {
    let engines: [Arc<dyn StoreFactory>; 2] = [Arc::new(reference), Arc::new(candidate)];
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get().min(4));
    let cores = u32::try_from(cores).unwrap_or(1);
    let still = Plan { pace: Pace::Still, regressions: "proptest-regressions/model.txt" };
    still.run(&engines, cores, sequences.div_ceil(cores));
    let lapsing =
        Plan { pace: Pace::Lapsing, regressions: "proptest-regressions/model-lapsing.txt" };
    lapsing.run(&engines, 8 * cores, sequences.div_ceil(50).div_ceil(8 * cores));
}

/// What kind of sequences to run.
#[derive(Clone, Copy)]
struct Plan {
    pace: Pace,
    regressions: &'static str,
}

impl Plan {
    fn run(self, engines: &[Arc<dyn StoreFactory>; 2], threads: u32, sequences: u32) {
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| self.run_thread(engines, sequences));
            }
        });
    }

    fn run_thread(self, engines: &[Arc<dyn StoreFactory>; 2], sequences: u32) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let config = Config {
            cases: sequences,
            failure_persistence: Some(Box::new(FileFailurePersistence::Direct(self.regressions))),
            ..Config::default()
        };
        let pair = Cell::new(None);
        let sequences = proptest::collection::vec(steps(self.pace), 1..=STEPS);
        let outcome = TestRunner::new(config).run(&sequences, |steps| {
            let (agreed, used) = runtime.block_on(self.judge(engines, pair.take(), &steps));
            pair.set(used);
            agreed.map_err(TestCaseError::fail)
        });
        match outcome {
            Ok(()) => {}
            Err(TestError::Fail(reason, steps)) => panic!("{reason}\n{}", listed(&steps)),
            Err(TestError::Abort(reason)) => panic!("no sequence could be drawn: {reason}"),
        }
    }

    /// Runs a sequence until no second ends amid a step. The pair is given back if it is still good.
    async fn judge(
        self,
        engines: &[Arc<dyn StoreFactory>; 2],
        mut pair: Option<Pair>,
        steps: &[Step],
    ) -> (Result<(), String>, Option<Pair>) {
        for _ in 0..ATTEMPTS {
            let mut fresh = match pair.take().filter(|pair| pair.used < SHARED) {
                Some(pair) => pair,
                None => Pair::open(engines).await,
            };
            match fresh.trial(self.pace, steps).await {
                Ok(()) => return (Ok(()), Some(fresh)),
                Err(Verdict::Unfit) => fresh.close().await,
                Err(Verdict::Differs(how)) => {
                    fresh.close().await;
                    return (Err(how), None);
                }
            }
        }
        (Err(format!("a second ended amid a step {ATTEMPTS} times: the machine is busy")), None)
    }
}

fn listed(steps: &[Step]) -> String {
    let mut text = String::from("The sequence:");
    for (number, step) in steps.iter().enumerate() {
        let _ = write!(text, "\n{number:>4}: {step:?}");
    }
    text
}
