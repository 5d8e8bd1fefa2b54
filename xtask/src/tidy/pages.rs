//! The project's own pages are there, and no file is so long that nobody reads it.

use super::{File, Problem};

const PAGES: [&str; 9] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "docs/contract.md",
    "docs/deployment.md",
    "docs/operations.md",
];

pub(super) fn missing(files: &[File]) -> Vec<Problem> {
    let is_there = |page: &&str| files.iter().any(|file| file.path == *page);
    let missing = PAGES.iter().filter(|page| !is_there(page));
    missing.map(|page| Problem::new(page, 0, "is missing")).collect()
}

pub(super) fn check(file: &File) -> Vec<Problem> {
    let mut problems = Vec::new();
    let lines = file.text.lines().count();
    if let Some(limit) = limit(&file.path)
        && lines > limit
    {
        let message = format!("{lines} lines, more than {limit}: split or shorten it");
        problems.push(Problem::new(&file.path, 0, message));
    }
    if file.path == "CHANGELOG.md" && !file.text.lines().any(|line| line == "## [Unreleased]") {
        problems.push(Problem::new(&file.path, 0, "has no section \"## [Unreleased]\""));
    }
    problems
}

fn limit(path: &str) -> Option<usize> {
    match path {
        "README.md" => Some(150),
        "ARCHITECTURE.md" | "CONTRIBUTING.md" => Some(120),
        _ if path.ends_with(".rs") => Some(600),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::file;

    #[test]
    fn long_files_are_found() {
        for (path, limit) in [("README.md", 150), ("ARCHITECTURE.md", 120), ("a/src/b.rs", 600)] {
            assert_eq!(check(&file(path, &"line\n".repeat(limit))), [], "{path}");
            assert_eq!(check(&file(path, &"line\n".repeat(limit + 1))).len(), 1, "{path}");
        }
        assert_eq!(check(&file("docs/contract.md", &"line\n".repeat(1_000))), []);
    }

    #[test]
    fn missing_pages_are_found() {
        let files: Vec<_> = PAGES[1..].iter().map(|page| file(page, "")).collect();
        assert_eq!(missing(&files), [Problem::new("README.md", 0, "is missing")]);
    }

    #[test]
    fn the_changelog_has_a_place_for_the_next_change() {
        assert_eq!(check(&file("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n")), []);
        assert_eq!(check(&file("CHANGELOG.md", "# Changelog\n\n## [0.1.0]\n")).len(), 1);
    }
}
