//! Words that have no place in this project.

use super::{File, Problem};

/// Whole words, whatever their case, and what to do about them.
const WORDS: [(&str, &str); 7] = [
    ("fixme", "fix it"),
    ("todo", "do it, or open an issue"),
    ("hack", "say what the code works around"),
    ("xxx", "say what is wrong"),
    ("poc", "say what was tried"),
    ("wave", "say what it is"),
    ("posture", "say what it does"),
];

/// Parts of text, as they are.
const PARTS: [(&str, &str); 6] = [
    ("ADR-", "link a page of docs/ from docs, explain in code"),
    ("OQ-", "open an issue"),
    ("/workspace", "no path of one machine"),
    ("/work/", "no path of one machine"),
    ("shared/design", "no path of one machine"),
    ("[allow(", "use expect, with a reason"),
];

/// The lists above are the only place that must hold them, and a lint is named `todo`.
const EXEMPT: [&str; 3] = ["xtask/src/tidy/words.rs", "Cargo.toml", "Cargo.lock"];

pub(super) fn check(file: &File) -> Vec<Problem> {
    let mut problems = Vec::new();
    if EXEMPT.contains(&&*file.path) || file.path.starts_with("LICENSE") {
        return problems;
    }
    for (number, line) in (1..).zip(file.text.lines()) {
        let words = line.split(|c: char| !c.is_alphanumeric());
        for word in words.map(str::to_lowercase) {
            if let Some((_, advice)) = WORDS.iter().find(|(banned, _)| *banned == word) {
                problems.push(Problem::new(&file.path, number, format!("\"{word}\": {advice}")));
            }
        }
        for (part, advice) in PARTS {
            if line.contains(part) {
                problems.push(Problem::new(&file.path, number, format!("\"{part}\": {advice}")));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::file;

    #[test]
    fn banned_words_are_found_whole_and_in_any_case() {
        let problems = check(&file("docs/a.md", "fine\n// TODO: later\nthe second Wave of it"));
        let found: Vec<_> = problems.iter().map(|p| (p.line, &p.message[..6])).collect();
        assert_eq!(found, [(2, "\"todo\""), (3, "\"wave\"")]);
        assert_eq!(check(&file("docs/a.md", "waved, hackney, epoch, todos")), []);
    }

    #[test]
    fn banned_parts_are_found_anywhere() {
        let problems = check(&file("src/a.rs", "see ADR-007\n#![allow(dead_code)]\n\"/work/x\""));
        assert_eq!(problems.iter().map(|p| p.line).collect::<Vec<_>>(), [1, 2, 3]);
    }
}
