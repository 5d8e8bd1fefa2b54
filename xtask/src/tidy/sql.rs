//! SQL is in `sql/` and nowhere else in an engine.

use super::{File, Problem};

const KEYWORDS: [&str; 20] = [
    "ALTER",
    "ANALYZE",
    "ATTACH",
    "BEGIN",
    "COMMIT",
    "CREATE",
    "DELETE",
    "DROP",
    "EXPLAIN",
    "INSERT",
    "LISTEN",
    "NOTIFY",
    "PRAGMA",
    "RELEASE",
    "ROLLBACK",
    "SAVEPOINT",
    "SELECT",
    "UPDATE",
    "VACUUM",
    "WITH",
];

pub(super) fn check(file: &File) -> Vec<Problem> {
    let is_engine = super::engines::ENGINES.iter().any(|engine| {
        file.path.starts_with(&format!("crates/{engine}/src/")) && file.path.ends_with(".rs")
    });
    if !is_engine
        || file.path.ends_with("/src/sql.rs")
        || file.path.contains("/src/sql/")
        || file.path.ends_with("/tests.rs")
    {
        return Vec::new();
    }
    // What tests say in SQL is their own affair; their module is the last in a file.
    let code = file.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let sql = literals(code).into_iter().filter(|(_, literal)| is_sql(literal));
    let message = "SQL outside sql/: move it into a file, and list it in src/sql.rs";
    sql.map(|(line, _)| Problem::new(&file.path, line, message)).collect()
}

fn is_sql(literal: &str) -> bool {
    let first = literal.split_whitespace().next().unwrap_or_default();
    KEYWORDS.contains(&first.trim_end_matches(';'))
}

/// The string literals of Rust code, each with its line. Comments hold none.
fn literals(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(c) = code[at..].chars().next() {
        let rest = &code[at..];
        at += if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") {
            rest[1..].find('\'').map_or(rest.len(), |end| end + 2)
        } else if let Some(end) = raw_fence(rest) {
            let open = end.len() + 1;
            let close = rest[open..].find(&format!("\"{}", &end[1..])).unwrap_or(rest.len() - open);
            found.push((line(code, at), &rest[open..open + close]));
            open + close + end.len()
        } else if c == '"' {
            let close = closing_quote(&rest[1..]);
            found.push((line(code, at), &rest[1..=close]));
            close + 2
        } else {
            c.len_utf8()
        };
        at = at.min(code.len());
    }
    found
}

/// The `r##` of a raw string that starts here.
fn raw_fence(rest: &str) -> Option<&str> {
    let hashes = rest.strip_prefix('r')?;
    let fence = hashes.trim_start_matches('#');
    fence.starts_with('"').then(|| &rest[..rest.len() - fence.len()])
}

/// Where an ordinary string ends that starts here.
fn closing_quote(rest: &str) -> usize {
    let mut escaped = false;
    let end = rest.find(|c| {
        let closes = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        closes
    });
    end.unwrap_or(rest.len().saturating_sub(1))
}

fn line(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::file;

    const PATH: &str = "crates/alkstore-sqlite/src/queue.rs";

    #[test]
    fn literals_are_told_from_comments_and_characters() {
        let code = r####"// "no"
let a = "it's \"one\""; /* "no" */ let b = '"'; let c = r#"two "quoted""#;
let d: &'static str = "three"; let r = 'x'; let e = b"four"; let f = '\"'; let g = "";
let open = "five"####;
        let found = literals(code);
        let texts: Vec<_> = found.iter().map(|(_, text)| *text).collect();
        assert_eq!(texts[..4], ["it's \\\"one\\\"", "two \"quoted\"", "three", "four"]);
        assert_eq!(texts[4], "");
        assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 2, 3, 3, 3, 4]);
    }

    #[test]
    fn statements_in_code_are_found() {
        let code = "fn a() {\n    run(\"SELECT 1\");\n    run(r\"\n  DELETE FROM x\");\n}";
        let lines: Vec<_> = check(&file(PATH, code)).iter().map(|p| p.line).collect();
        assert_eq!(lines, [2, 3]);
        assert_eq!(check(&file(PATH, "run(\"COMMIT;\")")).len(), 1);
    }

    #[test]
    fn prose_tests_and_the_list_of_statements_may_say_it() {
        assert_eq!(check(&file(PATH, "fault(\"Select a queue\"); // run(\"SELECT 1\")")), []);
        let code = "run(\"SELECT 1\")";
        assert_eq!(check(&file("crates/alkstore-sqlite/src/sql.rs", code)), []);
        assert_eq!(check(&file("crates/alkstore-sqlite/tests/plans.rs", code)), []);
        assert_eq!(check(&file("crates/alkstore-cli/src/main.rs", code)), []);
        let code = format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{code}\n}}");
        assert_eq!(check(&file(PATH, &code)), []);
    }
}
