//! `cargo xtask tidy`: the rules of ARCHITECTURE.md that can be checked by reading files.
//!
//! Each rule is a function from text to problems, and is tested on text that breaks it.

mod arrows;
mod engines;
mod manifests;
mod pages;
mod sql;
mod words;

use std::fmt;
use std::fs;
use std::path::Path;

use crate::Result;
use crate::workspace::Workspace;

/// A file of the workspace; the path is relative to it, with `/` on every system.
#[derive(Debug)]
struct File {
    path: String,
    text: String,
}

/// A rule that a file breaks.
#[derive(Debug, PartialEq)]
struct Problem {
    path: String,
    /// From 1; 0 if it is about the file as a whole.
    line: usize,
    message: String,
}

impl Problem {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

pub(crate) fn run(root: &Path) -> Result<()> {
    let mut files = Vec::new();
    read(root, "", &mut files)?;
    let mut problems = arrows::check(&Workspace::load(root)?);
    problems.extend(engines::check(&files));
    problems.extend(pages::missing(&files));
    for file in &files {
        problems.extend(words::check(file));
        problems.extend(sql::check(file));
        problems.extend(manifests::check(file));
        problems.extend(pages::check(file));
    }
    for problem in &problems {
        eprintln!("{problem}");
    }
    match problems.len() {
        0 => Ok(()),
        n => Err(format!("{n} problems").into()),
    }
}

/// Reads every text file but what is built and what git keeps for itself.
fn read(root: &Path, folder: &str, files: &mut Vec<File>) -> Result<()> {
    let mut entries = fs::read_dir(root.join(folder))?.collect::<std::io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() && name != ".git" && path != "target" {
            read(root, &path, files)?;
        } else if kind.is_file()
            && let Ok(text) = fs::read_to_string(entry.path())
        {
            files.push(File { path, text });
        }
    }
    Ok(())
}

#[cfg(test)]
fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_say_where() {
        assert_eq!(Problem::new("a/b.rs", 7, "bad").to_string(), "a/b.rs:7: bad");
        assert_eq!(Problem::new("a/b.rs", 0, "bad").to_string(), "a/b.rs: bad");
    }

    #[test]
    fn files_are_found_and_links_and_build_output_are_not() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut files = Vec::new();
        read(root, "", &mut files).unwrap();
        let has = |path: &str| files.iter().any(|file| file.path == path);
        assert!(has("Cargo.toml") && has("xtask/src/tidy/mod.rs") && has(".cargo/config.toml"));
        assert!(!files.iter().any(|f| f.path.starts_with("target/") || f.path.contains(".git/")));
    }
}
