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
            trials.push(Trial::test(case.name, move || run_case(case, factory, TIME_LIMIT)));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn run_case(
    case: &'static Case,
    factory: Arc<dyn StoreFactory>,
    limit: Duration,
) -> Result<(), Failed> {
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
        runtime.shutdown_timeout(limit);
        done.send(()).unwrap();
    };
    std::thread::Builder::new().name(case.name.to_owned()).spawn(body)?;
    // A panic drops the sender, so only a case that still runs times out.
    let outcome = outcome.recv_timeout(limit);
    let mut faults: Vec<String> = panics()[known..]
        .iter()
        .filter(|panic| panic.concerns(case.name))
        .map(|panic| panic.message.clone())
        .collect();
    match outcome {
        Err(RecvTimeoutError::Timeout) => {
            faults.push(format!("{} still runs after {limit:?}", case.name));
        }
        Err(RecvTimeoutError::Disconnected) if faults.is_empty() => {
            faults.push(format!("{} unwound without a panic of its own", case.name));
        }
        _ => {}
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;

    struct Nothing;

    #[alkstore::async_trait]
    impl StoreFactory for Nothing {
        fn traits(&self) -> Traits {
            Traits { durable: false, several_stores: false, clock: false, notify_limit: None }
        }

        async fn database(&self) -> Arc<dyn Database> {
            panic!("there is no engine")
        }
    }

    /// Runs a case for half a second and returns what it is blamed for.
    fn faults(run: fn(Arc<dyn StoreFactory>) -> CaseFuture) -> Option<String> {
        let case = Box::leak(Box::new(Case { name: "harness::case", concerns: |_| true, run }));
        let outcome = run_case(case, Arc::new(Nothing), Duration::from_millis(500));
        outcome.err().map(|failed| failed.message().unwrap_or_default().to_owned())
    }

    #[test]
    fn a_case_fails_by_any_panic_and_by_taking_too_long() {
        remember_panics();
        assert_eq!(faults(|_| Box::pin(async {})), None);
        let told = faults(|_| Box::pin(async { panic!("in the case") })).unwrap();
        assert!(told.contains("in the case") && told.contains("harness.rs"), "{told}");
        let told = faults(|_| {
            Box::pin(async {
                // Nobody asks how the task ended, only that it did.
                let task = tokio::spawn(async { panic!("in a task") });
                while !task.is_finished() {
                    tokio::task::yield_now().await;
                }
            })
        });
        assert!(told.unwrap().contains("in a task"));
        let told = faults(|factory| Box::pin(async move { drop(factory.database().await) }));
        assert!(told.unwrap().contains("there is no engine"));
        let told = faults(|_| Box::pin(std::future::pending())).unwrap();
        assert!(told.contains("harness::case still runs"), "{told}");
        let told = faults(|_| Box::pin(async { std::panic::resume_unwind(Box::new(())) }));
        assert!(told.unwrap().contains("unwound"));
        let told = faults(|_| {
            Box::pin(async {
                std::thread::spawn(|| panic!("on an engine's thread")).join().unwrap_err();
            })
        });
        assert!(told.unwrap().contains("on an engine's thread"));
    }
}
