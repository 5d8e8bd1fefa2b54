//! The child processes of a run: started, heard, killed, and always reaped.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use crate::connect::{Durability, Location};

use super::order::Pipeline;
use super::process::{READY, Role};

/// How long a process may take to open the store, and to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(20);

/// A line that a process said.
pub(super) struct Said {
    pub(super) name: String,
    pub(super) line: String,
}

struct Child {
    name: String,
    role: Role,
    process: tokio::process::Child,
    /// Closing it asks the process to end.
    input: Option<ChildStdin>,
    errors: JoinHandle<String>,
}

impl Child {
    /// What happened to it, with what it said last as the cause.
    async fn fault(&mut self, what: String) -> anyhow::Error {
        let what = format!("{} {what}", self.name);
        match (&mut self.errors).await {
            Ok(text) if !text.trim().is_empty() => anyhow!("{}", text.trim()).context(what),
            _ => anyhow!(what),
        }
    }
}

/// Every child process of the run. Dropping it kills them.
pub(super) struct Children {
    pipeline: Pipeline,
    url: String,
    durability: Durability,
    children: Vec<Child>,
    said: mpsc::UnboundedReceiver<Said>,
    say: mpsc::UnboundedSender<Said>,
}

impl Children {
    pub(super) fn new(pipeline: Pipeline, location: &Location, durability: Durability) -> Self {
        let (say, said) = mpsc::unbounded_channel();
        let url = location.to_string();
        Self { pipeline, url, durability, children: Vec::new(), said, say }
    }

    /// Starts a process.
    pub(super) fn start(&mut self, role: Role, name: &str) -> Result<()> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(program);
        command
            .arg("demo-process")
            .args([&word(role)?, name, &word(self.durability)?])
            .arg(self.pipeline.run.to_string())
            .arg(self.pipeline.orders.to_string())
            // In the environment, not among the arguments, which every user of the machine sees.
            .env("ALKSTORE_URL", &self.url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        // Ctrl-C goes to the terminal's group: only the parent shall get it.
        #[cfg(unix)]
        command.process_group(0);
        let mut process = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let missing = || anyhow!("{name} has no pipes");
        let input = process.stdin.take().ok_or_else(missing)?;
        let output = process.stdout.take().ok_or_else(missing)?;
        let mut errors = process.stderr.take().ok_or_else(missing)?;
        let (say, speaker) = (self.say.clone(), name.to_owned());
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let _ = say.send(Said { name: speaker.clone(), line });
            }
        });
        let errors = tokio::spawn(async move {
            let mut text = String::new();
            let _ = errors.read_to_string(&mut text).await;
            text
        });
        self.children.push(Child {
            name: name.to_owned(),
            role,
            process,
            input: Some(input),
            errors,
        });
        Ok(())
    }

    /// What a process says next. Cancel-safe.
    pub(super) async fn heard(&mut self) -> Said {
        match self.said.recv().await {
            Some(said) => said,
            // The receiver's owner has a sender too, so the channel stays open.
            None => std::future::pending().await,
        }
    }

    /// Waits until every process has opened the store.
    pub(super) async fn ready(&mut self) -> Result<()> {
        let mut waiting = self.children.len();
        let deadline = Instant::now() + PATIENCE;
        while waiting > 0 {
            tokio::select! {
                said = self.heard() => waiting -= usize::from(said.line == READY),
                () = sleep(Duration::from_millis(100)) => self.check().await?,
            }
            if Instant::now() > deadline {
                bail!("{waiting} processes did not open the store in time");
            }
        }
        Ok(())
    }

    /// Fails if a process ended without being asked to.
    pub(super) async fn check(&mut self) -> Result<()> {
        for child in &mut self.children {
            if let Some(status) = child.process.try_wait()? {
                return Err(child.fault(format!("ended unasked, with {status}")).await);
            }
        }
        Ok(())
    }

    /// The name of a process in this role.
    pub(super) fn any(&self, role: Role) -> Option<String> {
        self.children.iter().find(|child| child.role == role).map(|child| child.name.clone())
    }

    /// Kills a process as the system would: it learns nothing of it.
    pub(super) async fn kill(&mut self, name: &str) -> Result<()> {
        let Some(at) = self.children.iter().position(|child| child.name == name) else {
            bail!("there is no process {name}");
        };
        let mut child = self.children.swap_remove(at);
        child.process.kill().await.with_context(|| format!("cannot kill {name}"))
    }

    /// Asks every process to end, waits for it, and kills what is left.
    pub(super) async fn stop(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let mut outcome = Ok(());
        for child in &mut self.children {
            child.input = None;
        }
        for mut child in self.children.drain(..) {
            let ended = match timeout_at(deadline, child.process.wait()).await {
                Ok(Ok(status)) if status.success() => Ok(()),
                Ok(Ok(status)) => Err(child.fault(format!("ended with {status}")).await),
                Ok(Err(error)) => Err(error.into()),
                Err(_) => {
                    child.process.kill().await?;
                    Err(child.fault("did not end in time and was killed".to_owned()).await)
                }
            };
            outcome = outcome.and(ended);
        }
        outcome
    }
}

/// A value as the command line takes it.
fn word(value: impl ValueEnum) -> Result<String> {
    let word = value.to_possible_value().context("every value has a name")?;
    Ok(word.get_name().to_owned())
}
