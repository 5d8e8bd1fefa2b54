//! The same rows everywhere: files in every engine, statements in folders, headings in the contract.

use super::{File, Problem};

pub(super) const ENGINES: [&str; 2] = ["alkstore-mem", "alkstore-sqlite"];

/// The subjects of the project: a file of this name wherever the subject is dealt with.
const ROWS: [&str; 10] =
    ["store", "tx", "notify", "stream", "queue", "job", "outbox", "lock", "schedule", "ops"];

/// What an engine may have besides; its machinery goes nowhere else.
const MACHINERY: [&str; 11] = [
    "lib",
    "opts",
    "error",
    "conn",
    "wake",
    "write",
    "migrate",
    "functions",
    "text",
    "rows",
    "sql",
];

/// The text of record, with a heading for each row.
const CONTRACT: &str = "docs/contract.md";

/// The one folder of statements that is not a row.
const MIGRATIONS: &str = "migrations";

pub(super) fn check(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for name in ["alkstore"].iter().chain(&ENGINES) {
        let modules = modules(files, name);
        for row in ROWS.iter().filter(|row| !modules.contains(*row)) {
            problems.push(Problem::new(name, 0, format!("has no src/{row}.rs")));
        }
    }
    let promised = |row: &&&str| {
        let heading = format!("## {row}");
        let page = files.iter().find(|file| file.path == CONTRACT);
        page.is_some_and(|page| page.text.lines().any(|line| line == heading))
    };
    for row in ROWS.iter().filter(|row| !promised(row)) {
        problems.push(Problem::new(CONTRACT, 0, format!("has no heading \"## {row}\"")));
    }
    for engine in ENGINES {
        let known = |module: &&str| ROWS.contains(module) || MACHINERY.contains(module);
        for module in modules(files, engine).into_iter().filter(|module| !known(module)) {
            let message = format!("src/{module} is in no other engine: move it into a row or conn");
            problems.push(Problem::new(engine, 0, message));
        }
        problems.extend(statements(files, engine));
    }
    problems
}

/// The first parts of the paths below a crate's `src`, without `.rs`.
fn modules<'a>(files: &'a [File], name: &str) -> Vec<&'a str> {
    let src = format!("crates/{name}/src/");
    let inside = files.iter().filter_map(|file| file.path.strip_prefix(&src));
    let tops = inside.filter_map(|path| path.split('/').next());
    let mut modules: Vec<_> = tops.map(|top| top.strip_suffix(".rs").unwrap_or(top)).collect();
    modules.dedup();
    modules
}

/// Each statement lies with its row and is listed in `sql.rs`.
fn statements(files: &[File], engine: &str) -> Vec<Problem> {
    let list = format!("crates/{engine}/src/sql.rs");
    let list = files.iter().find(|file| file.path == list).map_or("", |file| &*file.text);
    let mut problems = Vec::new();
    for file in files {
        let inside = file.path.strip_prefix(&format!("crates/{engine}/sql/"));
        let Some((folder, name)) = inside.and_then(|path| path.split_once('/')) else {
            continue;
        };
        if !ROWS.contains(&folder) && folder != MIGRATIONS {
            problems.push(Problem::new(&file.path, 0, "belongs into the folder of a row"));
        }
        let listed = format!("{folder}/{}\"", name.trim_end_matches(".sql"));
        if !list.contains(&listed) && !list.contains(&format!("{folder}/{name}\"")) {
            problems.push(Problem::new(&file.path, 0, "is not in src/sql.rs: nothing runs it"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::file;

    fn complete() -> Vec<File> {
        let crates = ["alkstore"].iter().chain(&ENGINES);
        let paths = crates.flat_map(|name| ROWS.map(|row| format!("crates/{name}/src/{row}.rs")));
        let contract = ROWS.map(|row| format!("## {row}\n")).concat();
        paths.map(|path| file(&path, "")).chain([file(CONTRACT, &contract)]).collect()
    }

    fn messages(files: &[File]) -> Vec<String> {
        check(files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_row_has_its_file_everywhere() {
        assert_eq!(messages(&complete()), [""; 0]);
        let mut files = complete();
        files.retain(|file| file.path != "crates/alkstore-mem/src/lock.rs");
        assert_eq!(messages(&files), ["alkstore-mem: has no src/lock.rs"]);
        files.push(file("crates/alkstore-mem/src/lock/mod.rs", ""));
        assert_eq!(messages(&files), [""; 0], "a folder will do");
    }

    #[test]
    fn every_row_is_a_heading_of_the_contract() {
        let mut files = complete();
        let contract = files.last_mut().unwrap();
        contract.text = contract.text.replace("## lock\n", "### lock\n");
        assert_eq!(messages(&files), ["docs/contract.md: has no heading \"## lock\""]);
    }

    #[test]
    fn engines_keep_their_machinery_in_known_places() {
        let mut files = complete();
        files.push(file("crates/alkstore-sqlite/src/conn/writer.rs", ""));
        files.push(file("crates/alkstore/src/anything.rs", ""));
        assert_eq!(messages(&files), [""; 0]);
        files.push(file("crates/alkstore-sqlite/src/vacuum.rs", ""));
        assert_eq!(check(&files).len(), 1);
    }

    #[test]
    fn statements_are_listed_and_lie_with_their_row() {
        let list = "CLAIM = \"queue/claim\"; include_str!(\"../sql/migrations/0001_a.sql\")";
        let mut files = complete();
        files.push(file("crates/alkstore-sqlite/src/sql.rs", list));
        files.push(file("crates/alkstore-sqlite/sql/queue/claim.sql", ""));
        files.push(file("crates/alkstore-sqlite/sql/migrations/0001_a.sql", ""));
        assert_eq!(messages(&files), [""; 0]);
        files.push(file("crates/alkstore-sqlite/sql/queue/claim_all.sql", ""));
        assert_eq!(check(&files).len(), 1);
        files.push(file("crates/alkstore-sqlite/sql/misc/claim.sql", ""));
        assert_eq!(check(&files).len(), 3, "neither listed nor with a row");
    }
}
