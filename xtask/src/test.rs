//! `cargo xtask test`: every check, those first that fail fastest.

use std::path::Path;

use crate::steps::{cargo, run, step};
use crate::workspace::Workspace;
use crate::{Result, tidy};

/// The factor by which `--all` lengthens random, kill and soak tests, unless it is set already.
const ROUNDS: (&str, &str) = ("ALKSTORE_TEST_ROUNDS", "4");

pub(crate) fn run_all(root: &Path, all: bool) -> Result<()> {
    let workspace = Workspace::load(root)?;
    step("format", || run(cargo(root).args(["fmt", "--all", "--check"])))?;
    step("tidy", || tidy::run(root))?;
    step("lints", || {
        let clippy = ["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"];
        run(cargo(root).args(clippy))
    })?;
    step("docs", || {
        let doc = ["doc", "--workspace", "--no-deps", "--lib"];
        run(cargo(root).args(doc).env("RUSTDOCFLAGS", "--deny warnings"))
    })?;
    for (package, example) in workspace.examples() {
        step(&format!("example {example}"), || {
            run(cargo(root).args(["run", "--quiet", "--package", package, "--example", example]))
        })?;
    }
    if all {
        step("demo", || run(cargo(root).args(["run", "--release", "--", "demo"])))?;
    }
    step("tests", || {
        let mut tests = cargo(root);
        if all && std::env::var_os(ROUNDS.0).is_none() {
            tests.env(ROUNDS.0, ROUNDS.1);
        }
        run(tests.args(["test", "--workspace"]))
    })
}
