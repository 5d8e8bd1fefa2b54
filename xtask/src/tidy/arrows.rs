//! Which crate may depend on which.

use super::Problem;
use crate::workspace::{Dependency, Package, Workspace};

/// A crate, the crates of ours that it may use, and those that only its tests may use.
const ARROWS: [(&str, &[&str], &[&str]); 9] = [
    ("alkstore", &[], &["alkstore-mem"]),
    ("alkstore-mem", &["alkstore"], &ENGINE_TESTS),
    ("alkstore-sqlite", &["alkstore"], &ENGINE_TESTS),
    ("alkstore-contract-suite", &["alkstore"], &SUITE_TESTS),
    ("alkstore-cli", &["alkstore", "alkstore-mem", "alkstore-sqlite"], &["alkstore-testkit"]),
    ("alkstore-testkit", &[], &[]),
    ("alkstore-bench", &["alkstore", "alkstore-mem", "alkstore-sqlite"], &[]),
    ("examples", &["alkstore", "alkstore-mem", "alkstore-sqlite"], &[]),
    ("xtask", &[], &[]),
];

const ENGINE_TESTS: [&str; 2] = ["alkstore-contract-suite", "alkstore-testkit"];
/// The model-based test joins engines.
const SUITE_TESTS: [&str; 3] = ["alkstore-mem", "alkstore-sqlite", "alkstore-testkit"];

/// What only engines may know.
const DRIVERS: [&str; 4] = ["rusqlite", "libsqlite3-sys", "tokio-postgres", "postgres"];
const FREE_OF_DRIVERS: [&str; 3] = ["alkstore", "alkstore-mem", "alkstore-contract-suite"];

pub(super) fn check(workspace: &Workspace) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in &workspace.packages {
        let Some(arrows) = ARROWS.iter().find(|(name, ..)| *name == package.name) else {
            let message = "is new: say in xtask/src/tidy/arrows.rs what it may depend on";
            problems.push(Problem::new(&package.name, 0, message));
            continue;
        };
        for dependency in &package.dependencies {
            if let Some(message) = wrong(workspace, package, *arrows, dependency) {
                problems.push(Problem::new(&package.name, 0, message));
            }
        }
    }
    problems
}

fn wrong(
    workspace: &Workspace,
    package: &Package,
    (_, allowed, in_tests): (&str, &[&str], &[&str]),
    dependency: &Dependency,
) -> Option<String> {
    let name = &*dependency.name;
    if DRIVERS.contains(&name) && FREE_OF_DRIVERS.contains(&&*package.name) {
        return Some(format!("may not know the driver {name}"));
    }
    let ours = workspace.packages.iter().any(|package| package.name == name);
    let fine = allowed.contains(&name) || dependency.dev && in_tests.contains(&name);
    (ours && !fine).then(|| format!("may not depend on {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(arrows: &[(&str, &str, bool)]) -> Workspace {
        let names = ARROWS.iter().map(|(name, ..)| *name).filter(|name| *name != "examples");
        let package = |name: &str| {
            let from = arrows.iter().filter(|(from, ..)| *from == name);
            let to = from.map(|&(_, to, dev)| Dependency { name: to.to_owned(), dev });
            Package { name: name.to_owned(), dependencies: to.collect(), examples: Vec::new() }
        };
        Workspace { packages: names.map(package).collect() }
    }

    #[test]
    fn arrows_point_one_way() {
        for fine in [
            ("alkstore", "alkstore-mem", true),
            ("alkstore", "serde", false),
            ("alkstore-sqlite", "rusqlite", false),
            ("alkstore-sqlite", "alkstore-testkit", true),
        ] {
            assert_eq!(check(&workspace(&[fine])), [], "{fine:?}");
        }
        for wrong in [
            ("alkstore", "alkstore-mem", false),
            ("alkstore-mem", "alkstore-sqlite", true),
            ("alkstore-sqlite", "alkstore-testkit", false),
            ("alkstore-contract-suite", "alkstore-sqlite", false),
            ("alkstore-bench", "alkstore-cli", false),
            ("alkstore", "rusqlite", true),
        ] {
            assert_eq!(check(&workspace(&[wrong])).len(), 1, "{wrong:?}");
        }
    }

    #[test]
    fn new_crates_need_a_rule() {
        let mut workspace = workspace(&[]);
        workspace.packages[0].name = "alkstore-new".to_owned();
        assert_eq!(check(&workspace).len(), 1);
    }
}
