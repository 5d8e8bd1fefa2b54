//! What can be wrong with a path, a file or the options: each is an error that says so, and
//! leaves everything as it was.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use alkstore::{QueueOpts, Store};
use alkstore_sqlite::{SqliteOpts, SqliteStore};
use alkstore_testkit::{Parent, TempDb, roles};
use serde_json::json;

use crate::{SOON, assert_sound, block_on, foreign, normal, number, open, said, soon};

/// The names in a folder, and what the files hold.
fn contents(folder: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let entries = fs::read_dir(folder).unwrap();
    let mut all: Vec<_> =
        entries.map(|entry| entry.unwrap().path()).map(|p| (p.clone(), fs::read(p).ok())).collect();
    all.sort();
    all
}

/// Checks that the path is refused with words that help, and that nothing has changed beside it.
fn assert_refused(path: &Path, opts: SqliteOpts, says: &[&str]) {
    // Only a folder of the test's own stays as it is.
    let shared = std::env::temp_dir();
    let own = |folder: &&Path| folder.is_dir() && folder.starts_with(&shared) && *folder != shared;
    let folder = path.parent().filter(own);
    let before = folder.map(contents);
    let error = SqliteStore::open(path, opts).expect_err("a refusal");
    for part in says {
        assert!(said(&error).contains(part), "{part:?} in {:?} for {path:?}", said(&error));
    }
    assert!(!error.is_transient(), "{error:?}");
    assert!(folder.map(contents) == before, "{:?}", folder.map(fs::read_dir));
}

#[test]
fn paths_that_are_no_file() {
    let db = TempDb::new();
    let missing = db.dir().join("no").join("such.db");
    assert_refused(&missing, normal(), &["does not exist", "create it first", "/no"]);
    assert_refused(db.dir(), normal(), &["is a directory", "the path of the database file"]);
    fs::write(db.dir().join("file"), "x").unwrap();
    let below = db.dir().join("file").join("test.db");
    assert_refused(&below, normal(), &["file", "does not exist"]);
    let socket = db.dir().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert_refused(&socket, normal(), &["is not a file"]);
    let device = SqliteStore::open("/dev/null", normal()).unwrap_err();
    assert!(said(&device).contains("is not a file"), "{device:?}");
    for memory in ["", ":memory:"] {
        assert_refused(Path::new(memory), normal(), &["MemStore"]);
    }
    assert_refused(Path::new("a\0b"), normal(), &["nul"]);
    let opts = SqliteOpts { create: false, ..normal() };
    assert_refused(db.path(), opts, &["does not exist", "SqliteOpts::create is false"]);
}

#[test]
fn options_that_make_no_sense() {
    let db = TempDb::new();
    let zero = SqliteOpts { poll_interval: Duration::ZERO, ..normal() };
    assert_refused(db.path(), zero, &["SqliteOpts::poll_interval must not be zero"]);
    let zero = SqliteOpts { max_readers: 0, ..normal() };
    assert_refused(db.path(), zero, &["SqliteOpts::max_readers must not be zero"]);
    open(&db);
}

#[test]
fn files_that_are_no_database() {
    let db = TempDb::new();
    let texts: [&[u8]; 3] = [
        &b"this is not a database, though long enough to be one. ".repeat(100),
        b"short",
        b"SQLite format 3\0 but nothing of the sort follows after the header's first words, which \
          is why it cannot be opened at all",
    ];
    for text in texts {
        fs::write(db.path(), text).unwrap();
        assert_refused(db.path(), normal(), &["cannot open", "test.db", "not a database"]);
    }
    // An empty file is an empty database.
    fs::write(db.path(), "").unwrap();
    open(&db);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_database_is_an_error_of_what_needs_the_damaged_part() {
    let db = TempDb::new();
    let store = open(&db);
    let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
    let jobs = vec![(json!("x".repeat(1_000)), Default::default()); 1_000];
    let ids = queue.enqueue_batch(jobs).await.unwrap();
    soon(store.close()).await;
    let mut bytes = fs::read(db.path()).unwrap();
    let middle = bytes.len() / 4..bytes.len() / 4 * 3;
    bytes[middle].fill(0xa5);
    fs::write(db.path(), bytes).unwrap();

    let store = open(&db);
    let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
    let mut failed = 0;
    for id in ids {
        match soon(queue.get_job(id)).await {
            Ok(job) => assert!(job.is_none_or(|job| job.payload.len() == 1_002)),
            Err(error) => {
                assert!(said(&error).contains("malformed") && !error.is_transient(), "{error:?}");
                failed += 1;
            }
        }
    }
    assert!(failed > 100, "{failed}");
    let claimed = soon(queue.claim_batch("me", 1_000)).await;
    assert!(claimed.is_err_and(|error| said(&error).contains("malformed")));
    // What lies elsewhere works.
    let stream = store.stream("events").await.unwrap();
    stream.publish(json!(1)).await.unwrap();
    assert_eq!(stream.read_since(0, 10).await.unwrap().len(), 1);
    soon(store.close()).await;
}

#[test]
fn a_database_of_a_newer_program() {
    for journal in ["delete", "wal"] {
        let db = TempDb::new();
        block_on(async { open(&db).close().await });
        let application = foreign(&db);
        application
            .execute_batch("INSERT INTO __alkstore_migration VALUES (900, 0); CREATE TABLE app (a)")
            .unwrap();
        application.pragma_update(None, "journal_mode", journal).unwrap();
        drop(application);
        let known =
            number(&db, "SELECT max(version) FROM __alkstore_migration WHERE version < 900");
        let known = format!("up to {known}");
        let says = ["version 900", &known, "upgrade the program"];
        assert_refused(db.path(), normal(), &says);
        assert_refused(db.path(), SqliteOpts { create: false, ..normal() }, &says);
    }
}

#[test]
fn a_failed_migration_leaves_no_half_of_it() {
    let db = TempDb::new();
    // A name that the migration wants is taken.
    foreign(&db).execute_batch("CREATE TABLE __alkstore_event (mine)").unwrap();
    let error = SqliteStore::open(&db, normal()).unwrap_err();
    assert!(said(&error).contains("__alkstore_event already exists"), "{error:?}");
    assert_eq!(number(&db, "SELECT count(*) FROM sqlite_schema"), 1);
    foreign(&db).execute_batch("DROP TABLE __alkstore_event").unwrap();
    open(&db);
}

/// Something from each mechanism, to see that a store works.
async fn assert_works(path: &Path) {
    let store = open(path);
    let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
    let mut wakes = store.listen("channel").await.unwrap();
    let id = queue.enqueue(json!(1), Default::default()).await.unwrap();
    store.notify("channel", json!(1)).await.unwrap();
    assert!(soon(wakes.recv()).await.is_some());
    soon(store.close()).await;
    let store = open(path);
    let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
    assert!(queue.get_job(id).await.unwrap().is_some());
    soon(store.close()).await;
}

const NAMES: &[&str] = &[
    "a?mode=memory",
    "a?vfs=none",
    "100%25.db",
    "a#b.db",
    "with spaces .db",
    " ",
    "größe-数据库-🦀.db",
    "file:a.db",
    "file:a.db?mode=ro",
    "file::memory:",
    "a'b\"c;DROP TABLE x;--.db",
    "-rf",
    "a.db-wal",
    "new\nline",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_path_is_a_path_whatever_characters_are_in_it() {
    let db = TempDb::new();
    for name in NAMES {
        let path = db.dir().join(name);
        assert_works(&path).await;
        assert!(fs::read(&path).unwrap().starts_with(b"SQLite format 3\0"), "{name}");
        assert_sound(&path);
    }
    let odd: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"not-\xff-unicode.db");
    assert_works(&db.dir().join(odd)).await;
    assert_eq!(fs::read_dir(db.dir()).unwrap().count(), NAMES.len() + 1);
}

#[test]
fn relative_paths_are_paths_too_and_stay_what_they_were() {
    fn relative(_: Parent) {
        let (here, there) = (TempDb::new(), TempDb::new());
        for name in NAMES.iter().chain(&["./dotted.db"]) {
            std::env::set_current_dir(here.dir()).unwrap();
            block_on(async {
                let store = open(name);
                // Connections that are opened later are on the same file.
                std::env::set_current_dir(there.dir()).unwrap();
                let mut wakes = store.listen("channel").await.unwrap();
                store.notify("channel", json!(1)).await.unwrap();
                assert!(soon(wakes.recv()).await.is_some());
                soon(store.close()).await;
            });
            assert_eq!(fs::read_dir(there.dir()).unwrap().count(), 0, "{name}");
        }
        for name in NAMES {
            let text = fs::read(here.dir().join(name)).unwrap();
            assert!(text.starts_with(b"SQLite format 3\0"), "{name}");
        }
    }
    let roles = roles! { relative };
    roles.spawn("relative", &[]).finish(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_is_its_target() {
    let db = TempDb::new();
    let link = db.dir().join("link.db");
    symlink(db.path(), &link).unwrap();
    // The target is not there yet.
    let (by_link, by_name) = (open(&link), open(&db));
    let mut wakes = by_link.listen("channel").await.unwrap();
    let queue = by_link.queue("jobs", QueueOpts::default()).await.unwrap();
    let id = queue.enqueue(json!(1), Default::default()).await.unwrap();
    let queue = by_name.queue("jobs", QueueOpts::default()).await.unwrap();
    assert!(queue.get_job(id).await.unwrap().is_some());
    by_name.notify("channel", json!(1)).await.unwrap();
    assert!(soon(wakes.recv()).await.is_some());
    soon(by_name.close()).await;
    by_link.notify("channel", json!(1)).await.unwrap();
    soon(by_link.close()).await;
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_dir(db.dir()).unwrap().count(), 2);
    assert_sound(&db);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_an_application_is_adopted_as_it_is() {
    let db = TempDb::new();
    let application = foreign(&db);
    application
        .execute_batch(
            "PRAGMA page_size = 8192; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA encoding = 'UTF-16';
             PRAGMA journal_mode = DELETE; PRAGMA user_version = 42;
             PRAGMA application_id = 252006;
             CREATE TABLE customer (name TEXT UNIQUE, born ANY);
             CREATE INDEX by_birth ON customer (born);
             CREATE VIEW young AS SELECT name FROM customer WHERE born > 2000;
             CREATE TRIGGER no_end BEFORE DELETE ON customer
             BEGIN SELECT RAISE(ABORT, 'never'); END;
             INSERT INTO customer VALUES ('Zoë', 2001), ('Ada', x'00ff'), ('Bob', NULL);",
        )
        .unwrap();
    let everything = "
        SELECT group_concat(quote(name) || quote(born), '|' ORDER BY name)
            || (SELECT group_concat(name || sql, '|' ORDER BY name) FROM sqlite_schema
                WHERE sql NOT LIKE '%__alkstore_%')
        FROM customer";
    let look = || {
        let connection = foreign(&db);
        let pragmas = ["user_version", "application_id", "page_size", "auto_vacuum"];
        let pragmas = pragmas.map(|name| number(&db, &format!("PRAGMA {name}")));
        let text: String = connection.query_row(everything, [], |row| row.get(0)).unwrap();
        (pragmas, text)
    };
    let before = look();
    assert_works(db.path()).await;
    assert_eq!(look(), before);
    assert_sound(&db);
    // The application's own connection, open all along, goes on.
    application.execute("INSERT INTO customer VALUES ('Eve', 1)", []).unwrap();
    assert_eq!(number(&db, "SELECT count(*) FROM customer"), 4);
}

#[test]
fn a_reader_in_the_old_mode_is_waited_for() {
    let db = TempDb::new();
    let application = foreign(&db);
    application.execute_batch("CREATE TABLE a (a); BEGIN; SELECT * FROM a").unwrap();
    let opts = SqliteOpts { busy_timeout: Duration::from_millis(100), ..normal() };
    let error = SqliteStore::open(&db, opts.clone()).unwrap_err();
    assert!(error.is_transient() && said(&error).contains("locked"), "{error:?}");
    assert_eq!(number(&db, "SELECT count(*) FROM sqlite_schema"), 1);

    let path = db.path().to_owned();
    let opening = SqliteOpts { busy_timeout: SOON, ..opts };
    let opening = std::thread::spawn(move || SqliteStore::open(path, opening).map(drop));
    application.execute_batch("COMMIT").unwrap();
    opening.join().unwrap().unwrap();
}

/// Root may write anywhere, so what needs rights runs as nobody.
const NOBODY: u32 = 65_534;
const UNPRIVILEGED: &str = "ALKSTORE_TEST_UNPRIVILEGED";

#[test]
fn without_the_right_to_write_there_is_an_error_and_no_stray_file() {
    if let Some(folder) = std::env::var_os(UNPRIVILEGED) {
        return without_rights(Path::new(&folder));
    }
    let db = TempDb::new();
    block_on(async {
        let store = open(&db);
        let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
        queue.enqueue(json!(1), Default::default()).await.unwrap();
        store.close().await;
    });
    fs::copy(db.path(), db.dir().join("writable.db")).unwrap();
    let exe = db.dir().join("exe");
    fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
    for (path, mode) in [
        (db.path(), 0o444),
        (&db.dir().join("writable.db"), 0o666),
        (&exe, 0o555),
        (db.dir(), 0o555),
    ] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let before = contents(db.dir());
    let mut command = std::process::Command::new(&exe);
    command
        .args(["--exact", "open::without_the_right_to_write_there_is_an_error_and_no_stray_file"])
        .arg("--nocapture")
        .env(UNPRIVILEGED, db.dir())
        .current_dir("/");
    if fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0) {
        std::os::unix::process::CommandExt::uid(&mut command, NOBODY);
        std::os::unix::process::CommandExt::gid(&mut command, NOBODY);
    }
    let output = command.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && shown.contains("1 passed"), "{output:?}");
    assert!(contents(db.dir()) == before);
    fs::set_permissions(db.dir(), fs::Permissions::from_mode(0o755)).unwrap();
}

/// The file that is there, the folder and one file in it are read-only.
fn without_rights(folder: &Path) {
    let new = SqliteStore::open(folder.join("new.db"), normal()).unwrap_err();
    assert!(said(&new).contains("unable to open database file"), "{new:?}");
    for name in ["test.db", "writable.db"] {
        let refused = SqliteStore::open(folder.join(name), normal()).expect_err(name);
        let says = said(&refused);
        assert!(says.contains("readonly") || says.contains("unable to open"), "{says}");
        assert!(says.contains(name), "{says}");
    }
}

#[test]
fn too_many_readers_are_an_error_that_leaves_no_thread() {
    fn greedy(parent: Parent) {
        let path = &parent.args()[0];
        let threads = || fs::read_dir("/proc/self/task").unwrap().count();
        block_on(async {
            let store = open(path);
            soon(store.close()).await;
        });
        // All but a few of the descriptors that this process may have.
        let mut taken: Vec<_> = std::iter::from_fn(|| fs::File::open("/dev/null").ok()).collect();
        taken.truncate(taken.len() - 40);
        let before = threads();
        let opts = SqliteOpts { max_readers: 100, ..normal() };
        let error = SqliteStore::open(path, opts).expect_err("fewer descriptors");
        assert!(said(&error).contains("unable to open database file"), "{error:?}");
        let deadline = std::time::Instant::now() + SOON;
        while threads() > before {
            assert!(std::time::Instant::now() < deadline, "{} of {before} threads", threads());
            std::thread::yield_now();
        }
        open(path);
    }
    let roles = roles! { greedy };
    let db = TempDb::new();
    roles.spawn("greedy", &[&db]).finish(SOON);
}
