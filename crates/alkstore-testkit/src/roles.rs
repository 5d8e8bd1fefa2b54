//! A test that is its own child program: [`roles!`](crate::roles).

use std::any::type_name_of_val;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, Write};
use std::process;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use crate::Child;

pub(crate) const ROLE_VAR: &str = "ALKSTORE_TEST_ROLE";
pub(crate) const ARGS_VAR: &str = "ALKSTORE_TEST_ARGS";
/// Marks the lines that a child tells its parent among all else that it prints.
pub(crate) const TOLD: &str = "\u{1}told ";
pub(crate) const STARTED: &str = "started";

/// A function that runs in a child process. A panic makes the child fail.
pub type Role = fn(Parent);

/// The roles of one test; made by [`roles!`](crate::roles).
#[derive(Debug)]
pub struct Roles {
    test: String,
    names: Vec<&'static str>,
}

/// Declares the roles that child processes of this test play; first line of the test.
///
/// [`Roles::spawn`] starts the test binary again for this one test. There, this macro runs the
/// role (on a thread of its own, outside any async runtime) and ends the process; the rest of
/// the test is never reached. Works with the standard harness, under `cargo test` and nextest,
/// in `#[test]` and `#[tokio::test]` functions alike.
///
/// ```no_run
/// use std::time::Duration;
/// use alkstore_testkit::{Parent, TempDb, roles};
///
/// fn writer(parent: Parent) {
///     let path = &parent.args()[0];
///     // begin a transaction on `path`, write, then:
///     parent.tell("inside");
///     parent.hear(); // until killed
/// }
///
/// # fn main() { // in a test file: #[test] fn killed_inside_a_transaction() {
/// let roles = roles! { writer };
/// let db = TempDb::new();
/// let mut child = roles.spawn("writer", &[&db]);
/// assert_eq!(child.hear(Duration::from_secs(30)), "inside");
/// child.kill();
/// // open the database: nothing of the transaction is there
/// # }
/// ```
#[macro_export]
macro_rules! roles {
    ($($role:ident),+ $(,)?) => {{
        fn here() {}
        $crate::Roles::declare(&here, &[$((stringify!($role), $role as $crate::Role)),+])
    }};
}

impl Roles {
    /// Runs the role if this process is a child, and ends it. Called by [`roles!`](crate::roles).
    #[doc(hidden)]
    pub fn declare(here: &impl Fn(), roles: &[(&'static str, Role)]) -> Self {
        if let Some(wanted) = env::var_os(ROLE_VAR) {
            let role = roles.iter().find(|(name, _)| wanted == *name);
            let &(name, role) = role.unwrap_or_else(|| panic!("no role {}", wanted.display()));
            let parent = Parent::connect();
            let done = thread::Builder::new().name(name.to_owned()).spawn(move || role(parent));
            let ended = done.map(thread::JoinHandle::join);
            process::exit(if matches!(ended, Ok(Ok(()))) { 0 } else { 101 });
        }
        let names = roles.iter().map(|(name, _)| *name).collect();
        Self { test: test_name(type_name_of_val(here)), names }
    }

    /// Starts a child process that plays the role with these arguments.
    ///
    /// Returns once the role runs. Arguments are UTF-8 without line breaks: names, paths, numbers.
    ///
    /// # Panics
    /// If no such role was declared or the child does not come up within 30 s.
    #[must_use]
    pub fn spawn(&self, role: &str, args: &[&dyn AsRef<OsStr>]) -> Child {
        assert!(self.names.contains(&role), "no role {role}, only {:?}", self.names);
        let mut joined = OsString::new();
        for arg in args {
            joined.push("\n");
            joined.push(arg.as_ref());
        }
        Child::spawn(&self.test, role, &joined)
    }
}

/// The harness's name of the test around `here`: its path without crate and inner items.
fn test_name(here: &str) -> String {
    let parts = here.split("::").skip(1);
    let parts: Vec<&str> = parts.filter(|part| *part != "here" && *part != "{{closure}}").collect();
    parts.join("::")
}

/// A child's side: its arguments and the line to its parent.
///
/// The child process ends when its parent does.
#[derive(Debug)]
pub struct Parent {
    args: Vec<String>,
    heard: Receiver<String>,
}

impl Parent {
    fn connect() -> Self {
        let args = env::var(ARGS_VAR).expect("Roles::spawn sets it, from UTF-8 arguments");
        let args = args.split('\n').skip(1).map(str::to_owned).collect();
        let (sender, heard) = mpsc::channel();
        thread::spawn(move || {
            for line in io::stdin().lock().lines().map_while(Result::ok) {
                // The role may have dropped its receiver; the end of input still matters.
                let _ = sender.send(line);
            }
            process::exit(102);
        });
        let parent = Self { args, heard };
        parent.tell(STARTED);
        parent
    }

    /// The arguments given to [`Roles::spawn`].
    #[must_use]
    pub fn args(&self) -> &[String] {
        &self.args
    }

    /// Sends a line to the parent, for [`Child::hear`].
    pub fn tell(&self, line: &str) {
        let mut out = io::stdout().lock();
        // The harness may have left its own line unfinished, hence the first line break.
        let told = writeln!(out, "\n{TOLD}{line}").and_then(|()| out.flush());
        told.expect("the parent reads until this process ends");
    }

    /// Waits for the next line of [`Child::tell`]; the process ends if the parent does.
    #[must_use = "a role that only wants to wait may use `let _ =`"]
    pub fn hear(&self) -> String {
        self.heard.recv().unwrap_or_else(|_| process::exit(102))
    }

    /// Whether the parent sent a line within this time.
    #[must_use]
    pub fn heard_within(&self, time: Duration) -> bool {
        self.heard.recv_timeout(time).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::test_name;

    #[test]
    fn a_test_knows_its_name() {
        assert_eq!(test_name("processes::four_writers::here"), "four_writers");
        assert_eq!(test_name("a::inner::case::{{closure}}::here"), "inner::case");
    }
}
