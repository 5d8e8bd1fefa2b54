//! The commands of this workspace, run as `cargo xtask`.

#![forbid(unsafe_code)]

mod steps;
mod test;
mod tidy;
mod workspace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use crate::steps::{cargo, run};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
enum Command {
    /// Passes every check: format, lints, tidy, docs, tests, examples
    Test {
        /// Adds what takes longer
        #[arg(long)]
        all: bool,
    },
    /// Checks the rules that compilers do not know: layout, dependencies, words, sizes
    Tidy,
    /// Measures the engines against their floors
    #[command(disable_help_flag = true)]
    Bench {
        /// Arguments of the benchmark, such as --quick or --help
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Test { all } => test::run_all(&root(), all),
        Command::Tidy => tidy::run(&root()),
        Command::Bench { args } => bench(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench(args: &[String]) -> Result<()> {
    let bench = ["run", "--release", "--package", "alkstore-bench", "--"];
    run(cargo(&root()).args(bench).args(args))
}

/// The workspace's folder, wherever the command was called.
fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().expect("xtask is a folder of the workspace").to_owned()
}
