//! The command line of alkstore.
//!
//! Parses, runs one command and turns its result into an exit code: 0 done, 1 failed, 2 wrong
//! usage.
#![forbid(unsafe_code)]

mod business;
mod cmd;
mod connect;
mod input;
mod interrupt;
mod json_text;
mod output;
mod report;
mod view;

use std::process::ExitCode;

use clap::Parser;

use crate::cmd::Command;
use crate::output::Output;

/// Where help lists what every command takes.
const EVERYWHERE: &str = "Options of every command";

/// One reactive store: queues, streams, notifications, locks, outbox and schedules.
#[derive(Parser)]
#[command(name = "alkstore", version, max_term_width = 100)]
struct Cli {
    /// The store: a path to a SQLite file, or sqlite:PATH.
    #[arg(long, env = "ALKSTORE_URL", hide_env_values = true, global = true, help_heading = EVERYWHERE)]
    url: Option<String>,

    /// Print one JSON object per line.
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    json: bool,

    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return report::failure(&error.into()),
    };
    let mut out = Output::to_stdout(cli.json);
    let outcome = runtime.block_on(cli.command.run(cli.url.as_deref(), &mut out));
    let code = match outcome.and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report::failure(&error),
    };
    // A thread that still waits for standard input must not keep the process alive.
    runtime.shutdown_background();
    code
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
