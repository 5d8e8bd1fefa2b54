//! Every crate takes version, edition, licence and lints from the workspace.

use super::{File, Problem};

const INHERITED: [&str; 5] = [
    "version.workspace = true",
    "edition.workspace = true",
    "rust-version.workspace = true",
    "license.workspace = true",
    "[lints]\nworkspace = true",
];

pub(super) fn check(file: &File) -> Vec<Problem> {
    if !file.path.ends_with("/Cargo.toml") {
        return Vec::new();
    }
    let missing = INHERITED.iter().filter(|text| !file.text.contains(&format!("\n{text}")));
    let problem =
        |text: &&str| Problem::new(&file.path, 0, format!("lacks \"{}\"", text.replace('\n', " ")));
    missing.map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::file;

    #[test]
    fn what_is_not_inherited_is_found() {
        let whole = format!("[package]\n{}", INHERITED.join("\n"));
        assert_eq!(check(&file("crates/a/Cargo.toml", &whole)), []);
        for text in INHERITED {
            let problems =
                check(&file("crates/a/Cargo.toml", &whole.replace(&format!("\n{text}"), "")));
            assert_eq!(problems.len(), 1, "{text}");
        }
        assert_eq!(check(&file("Cargo.toml", "")), [], "the workspace's own");
    }
}
