//! Child processes do what they say, under any harness.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use alkstore_testkit::{Parent, TempDb, roles};

const SOON: Duration = Duration::from_secs(30);

fn echo(parent: Parent) {
    assert_eq!(parent.args(), ["one", "two words", ""]);
    writeln!(std::io::stdout(), "noise").expect("the parent reads");
    let line = parent.hear();
    parent.tell(&format!("heard {line}"));
}

fn fail(_: Parent) {
    panic!("on purpose");
}

fn stay(parent: Parent) {
    std::fs::write(&parent.args()[0], "was here").expect("a writable folder");
    parent.tell("written");
    let _ = parent.hear();
}

#[test]
fn a_child_talks_and_ends() {
    let roles = roles! { echo };
    let mut child = roles.spawn("echo", &[&"one", &"two words", &""]);
    child.tell("hello");
    assert_eq!(child.hear(SOON), "heard hello");
    child.finish(SOON);
}

#[test]
fn a_panic_in_a_child_is_a_failure() {
    let roles = roles! { echo, fail };
    let mut child = roles.spawn("fail", &[]);
    assert!(!child.wait(SOON).success());
    let shown = catch_unwind(AssertUnwindSafe(|| child.finish(SOON))).unwrap_err();
    assert!(shown.downcast_ref::<String>().unwrap().contains("on purpose"));
}

#[test]
fn a_child_is_killed_on_the_spot() {
    let roles = roles! { stay };
    let db = TempDb::new();
    let mut child = roles.spawn("stay", &[&db]);
    assert_eq!(child.hear(SOON), "written");
    child.kill();
    assert!(!child.wait(SOON).success());
    assert!(db.path().exists());
}

#[test]
fn waiting_for_a_child_has_an_end() {
    let roles = roles! { stay };
    let db = TempDb::new();
    let mut child = roles.spawn("stay", &[&db]);
    let waited = catch_unwind(AssertUnwindSafe(|| child.wait(Duration::from_millis(50))));
    assert!(waited.is_err());
}

#[tokio::test]
async fn async_tests_have_children_whose_roles_start_a_runtime() {
    fn runs(parent: Parent) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async { parent.tell("inside") });
    }
    let roles = roles! { runs };
    let mut child = roles.spawn("runs", &[]);
    assert_eq!(child.hear(SOON), "inside");
    child.finish(SOON);
}

mod inner {
    use super::*;

    #[test]
    fn tests_in_modules_have_children_too() {
        let check = || roles! { stay };
        let db = TempDb::new();
        let mut child = check().spawn("stay", &[&db]);
        assert_eq!(child.hear(SOON), "written");
    }
}
