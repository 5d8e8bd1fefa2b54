//! Runs the binary on a store in a folder of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take before a test fails.
const DEADLINE: Duration = Duration::from_secs(60);

/// Returns once the condition holds; fails the test if it does not in time.
pub(crate) fn eventually(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "it did not come true in time");
    }
}

/// The binary and a store that is not made yet.
pub(crate) struct Program {
    _folder: TempDir,
    path: PathBuf,
}

impl Program {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        Self { _folder: folder, path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_alkstore"));
        command.env("ALKSTORE_URL", &self.path).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &[&str], input: &str) -> Output {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_owned());
        // A command that refuses its input early leaves the rest unread.
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()).is_ok());
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        output
    }

    /// What a command that succeeds prints.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        self.ok_with(args, "")
    }

    pub(crate) fn ok_with(&self, args: &[&str], input: &str) -> String {
        let output = self.run(args, input);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {} {stderr}", output.status);
        String::from_utf8(output.stdout).unwrap()
    }

    /// The lines of a command that succeeds, each parsed.
    pub(crate) fn json(&self, args: &[&str]) -> Vec<Value> {
        self.json_with(args, "")
    }

    pub(crate) fn json_with(&self, args: &[&str], input: &str) -> Vec<Value> {
        let stdout = self.ok_with(&[&["--json"][..], args].concat(), input);
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The parsed lines of a command that may fail, and its exit code.
    pub(crate) fn json_any(&self, args: &[&str]) -> (Vec<Value>, Option<i32>) {
        let output = self.run(&[&["--json"][..], args].concat(), "");
        let stdout = String::from_utf8(output.stdout).unwrap();
        let lines = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (lines, output.status.code())
    }

    /// What a command prints that is given no store, and this folder for temporary files.
    pub(crate) fn ok_without_url(&self, temporary: &Path, args: &[&str]) -> String {
        let mut command = self.command(args);
        let output = command.env_remove("ALKSTORE_URL").env("TMPDIR", temporary).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The same on a copy of the store, which must be closed.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::new();
        std::fs::copy(&self.path, &copy.path).unwrap();
        copy
    }

    /// What a command that fails with this code says on standard error.
    pub(crate) fn fails(&self, args: &[&str], code: i32) -> String {
        self.fails_with(args, "", code)
    }

    pub(crate) fn fails_with(&self, args: &[&str], input: &str, code: i32) -> String {
        let output = self.run(args, input);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
        stderr
    }

    /// Starts a command that goes on while the test does.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = Some(lines(child.stdout.take().unwrap()));
        let stderr = lines(child.stderr.take().unwrap());
        Running { child, stdin, stdout, stderr }
    }
}

/// A running command; killed when it goes out of scope.
pub(crate) struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<Receiver<String>>,
    stderr: Receiver<String>,
}

impl Running {
    pub(crate) fn stdout_line(&mut self) -> String {
        let stdout = self.stdout.as_ref().unwrap();
        stdout.recv_timeout(DEADLINE).expect("a line on standard output in time")
    }

    pub(crate) fn stderr_line(&mut self) -> String {
        self.stderr.recv_timeout(DEADLINE).expect("a line on standard error in time")
    }

    /// Closes the reading end of standard output.
    pub(crate) fn close_stdout(&mut self) {
        self.stdout = None;
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn end_input(&mut self) {
        self.stdin = None;
    }

    /// Sends what Ctrl-C sends.
    pub(crate) fn interrupt(&mut self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    }

    /// What it still says on standard error until it ends, and its exit code.
    pub(crate) fn end(&mut self) -> (String, Option<i32>) {
        let mut rest = String::new();
        loop {
            match self.stderr.recv_timeout(DEADLINE) {
                Ok(line) => rest.push_str(&format!("{line}\n")),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it did not end in time: {rest}"),
            }
        }
        (rest, self.child.wait().unwrap().code())
    }

    /// The exit code, once it has ended; `None` if a signal ended it.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.end().1
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Passes lines on until the receiver is gone, then closes the pipe.
fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
