//! Runs the cases: each on a runtime of its own, with a time limit, and deaf to no panic.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::{StoreFactory, Traits};

/// A case that takes longer fails.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// One promise of the contract, as a test.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Whether the promise concerns an engine at all.
    pub(crate) concerns: fn(&Traits) -> bool,
    pub(crate) run: fn(Arc<dyn StoreFactory>) -> CaseFuture,
}

/// Not `Send`: a case stays on its own thread; only what it spawns moves.
pub(crate) type CaseFuture = Pin<Box<dyn Future<Output = ()>>>;

/// Lists the cases of a file: `cases!("row": a, b; durable: c);`.
///
/// The functions are private, so one that is not listed is dead code and does not compile.
macro_rules! cases {
    ($row:literal: $($case:ident),* $(,)? $(; $needed:ident: $($limited:ident),+ $(,)?)* $(;)?) => {
        pub(crate) const CASES: &[$crate::harness::Case] = &[
            $($crate::harness::Case {
                name: concat!($row, "::", stringify!($case)),
                concerns: |_| true,
                run: |factory| Box::pin($case(factory)),
            },)*
            $($($crate::harness::Case {
                name: concat!($row, "::", stringify!($limited)),
                concerns: |traits| traits.$needed,
                run: |factory| Box::pin($limited(factory)),
            },)+)*
        ];
    };
}
pub(crate) use cases;

/// Runs the suite with the process's arguments, as a test binary does.
pub fn run(factory: impl StoreFactory) -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Cases wait more than they compute.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    arguments.test_threads.get_or_insert(4 * cores);
    remember_panics();
    let factory: Arc<dyn StoreFactory> = Arc::new(factory);
    let traits = factory.traits();
    let mut names = BTreeSet::new();
    let mut trials = Vec::new();
    for case in crate::CASES.iter().copied().flatten() {
        assert!(names.insert(case.name), "two cases are named {}", case.name);
        if (case.concerns)(&traits) {
            let factory = factory.clone();
            trials.push(Trial::test(case.name, move || run_case(case, factory)));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn run_case(case: &'static Case, factory: Arc<dyn StoreFactory>) -> Result<(), Failed> {
    let known = panics().len();
    let (done, outcome) = mpsc::channel();
    let body = move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name(case.name)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on((case.run)(factory));
        runtime.shutdown_timeout(TIME_LIMIT);
        done.send(()).unwrap();
    };
    std::thread::Builder::new().name(case.name.to_owned()).spawn(body)?;
    // A panic drops the sender, so only a case that still runs times out.
    let outcome = outcome.recv_timeout(TIME_LIMIT);
    let mut faults: Vec<String> = panics()[known..]
        .iter()
        .filter(|panic| panic.concerns(case.name))
        .map(|panic| panic.message.clone())
        .collect();
    if outcome == Err(RecvTimeoutError::Timeout) {
        faults.push(format!("{} still runs after {TIME_LIMIT:?}", case.name));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n").into()) }
}

/// A panic on any thread; a case's own threads carry its name.
struct Panic {
    thread: Option<String>,
    message: String,
}

impl Panic {
    /// A panic on a thread of no case, an engine's, say, is blamed on every case that runs.
    fn concerns(&self, case: &str) -> bool {
        let Some(thread) = &self.thread else {
            return true;
        };
        thread == case || !crate::CASES.iter().copied().flatten().any(|case| case.name == thread)
    }
}

static PANICS: Mutex<Vec<Panic>> = Mutex::new(Vec::new());

fn panics() -> MutexGuard<'static, Vec<Panic>> {
    PANICS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps every panic, those of tasks that nobody joins included.
fn remember_panics() {
    std::panic::set_hook(Box::new(|info| {
        let thread = std::thread::current().name().map(str::to_owned);
        panics().push(Panic { thread, message: info.to_string() });
    }));
}
