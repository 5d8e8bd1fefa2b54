//! The parent's side of a child process.

use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{self, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::roles::{ARGS_VAR, ROLE_VAR, STARTED, TOLD};

const START: Duration = Duration::from_secs(30);

/// A child process that plays a role; killed and reaped on drop.
#[derive(Debug)]
pub struct Child {
    process: process::Child,
    /// Closed by drop, or by this process's end, which ends the child.
    stdin: ChildStdin,
    lines: Receiver<String>,
    printed: Vec<String>,
}

impl Child {
    pub(crate) fn spawn(test: &str, role: &str, args: &OsStr) -> Self {
        let exe = env::current_exe().expect("the running test binary has a path");
        let mut process = Command::new(exe)
            .args(["--exact", test, "--nocapture", "--include-ignored", "--test-threads=1"])
            .env(ROLE_VAR, role)
            .env(ARGS_VAR, args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start a child process: {error}"));
        let stdin = process.stdin.take().expect("piped");
        let (sender, lines) = mpsc::channel();
        forward(process.stdout.take().expect("piped"), sender.clone());
        forward(process.stderr.take().expect("piped"), sender);
        let mut child = Self { process, stdin, lines, printed: Vec::new() };
        // A harness that finds no test of that name ends well: only this line proves a start.
        assert_eq!(child.hear(START), STARTED);
        child
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends a line to the child, for [`Parent::hear`](crate::Parent::hear).
    ///
    /// # Panics
    /// If the child has ended.
    pub fn tell(&mut self, line: &str) {
        let told = writeln!(self.stdin, "{line}").and_then(|()| self.stdin.flush());
        told.unwrap_or_else(|error| panic!("the child has ended ({error}): {}", self.output()));
    }

    /// Waits for the next line of [`Parent::tell`](crate::Parent::tell).
    ///
    /// # Panics
    /// If none comes in time, or the child ends first; what it printed is shown.
    pub fn hear(&mut self, timeout: Duration) -> String {
        match self.next_told(Instant::now() + timeout) {
            Ok(told) => told,
            Err(RecvTimeoutError::Timeout) => {
                panic!("nothing told within {timeout:?}: {}", self.output())
            }
            Err(RecvTimeoutError::Disconnected) => panic!("the child has ended: {}", self.output()),
        }
    }

    /// Waits for the child to end by itself.
    ///
    /// # Panics
    /// If it does not end in time.
    pub fn wait(&mut self, timeout: Duration) -> ExitStatus {
        let deadline = Instant::now() + timeout;
        loop {
            match self.next_told(deadline) {
                Ok(told) => self.printed.push(told),
                Err(RecvTimeoutError::Timeout) => {
                    panic!("still running after {timeout:?}: {}", self.output())
                }
                // Its output closes as it exits.
                Err(RecvTimeoutError::Disconnected) => return self.reap(),
            }
        }
    }

    /// Waits for the child to end well.
    ///
    /// # Panics
    /// If it fails or does not end in time; what it printed is shown.
    pub fn finish(&mut self, timeout: Duration) {
        let status = self.wait(timeout);
        assert!(status.success(), "the child failed ({status}): {}", self.output());
    }

    /// Kills the child (SIGKILL on Unix) and returns once it is gone.
    pub fn kill(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        self.reap();
    }

    fn reap(&mut self) -> ExitStatus {
        self.process.wait().expect("this process has not waited for it elsewhere")
    }

    fn next_told(&mut self, deadline: Instant) -> Result<String, RecvTimeoutError> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left)?;
            match line.strip_prefix(TOLD) {
                Some(told) => return Ok(told.to_owned()),
                None => self.printed.push(line),
            }
        }
    }

    fn output(&self) -> String {
        self.printed.join("\n")
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads all output on a thread of its own, which ends with the child's output: a child must
/// never wait for a parent that does not listen.
fn forward(output: impl Read + Send + 'static, lines: Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // The parent may have dropped the child.
            let _ = lines.send(line);
        }
    });
}
