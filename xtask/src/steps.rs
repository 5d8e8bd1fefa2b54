//! Steps of a command: a header, the work, the time it took.

use std::env;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::Result;

/// Does the work under a header and says how long it took.
pub(crate) fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    eprintln!("\n== {name}");
    let start = Instant::now();
    work().map_err(|error| format!("{name}: {error}"))?;
    eprintln!("== {name}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// The cargo that runs this, in the workspace's folder.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root);
    cargo
}

/// Runs a program to its end, which must be a good one.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("cannot run {program}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{program} ended with {status}").into()) }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_step_that_fails_is_named() {
        assert!(step("fine", || Ok(())).is_ok());
        let error = step("docs", || Err("broken link".into())).unwrap_err();
        assert_eq!(error.to_string(), "docs: broken link");
    }

    #[test]
    fn programs_must_exist_and_end_well() {
        let mut quiet = Command::new("cargo");
        quiet.stdout(Stdio::null()).stderr(Stdio::null()).arg("--version");
        assert!(run(&mut quiet).is_ok());
        assert!(run(quiet.arg("--no-such-option")).is_err());
        assert!(run(&mut Command::new("no-such-program")).is_err());
    }
}
