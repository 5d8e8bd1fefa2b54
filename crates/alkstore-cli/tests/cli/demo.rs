//! The demo: it ends with a clean audit, and its audit finds what is not right.

use rusqlite::Connection;
use serde_json::Value;

use crate::program::{Program, eventually};

/// Runs a small demo and returns its report.
fn play(program: &Program, args: &[&str]) -> Value {
    let report = program.json(&[&["demo"][..], args].concat());
    assert_eq!(report.len(), 1);
    let report = report.into_iter().next().unwrap();
    assert_eq!(report["clean"], true, "{report}");
    report
}

fn found(report: &Value, check: &str) -> i64 {
    let checks = report["checks"].as_array().unwrap();
    let check = checks.iter().find(|line| line["check"] == check);
    check.unwrap_or_else(|| panic!("{report}"))["found"].as_i64().unwrap()
}

/// The checks that do not hold.
fn faults(program: &Program, run: &Value) -> Vec<String> {
    let (report, code) = program.json_any(&["demo-audit", &run.to_string()]);
    let checks = report[0]["checks"].as_array().unwrap();
    let faulty = checks.iter().filter(|check| check["ok"] == false);
    let faults: Vec<String> =
        faulty.map(|check| check["check"].as_str().unwrap().to_owned()).collect();
    assert_eq!(code, Some(i32::from(!faults.is_empty())));
    assert_eq!(report[0]["clean"], faults.is_empty());
    faults
}

#[test]
fn a_run_ends_with_a_clean_audit_and_so_does_the_next_on_the_same_store() {
    let program = Program::new();
    let first = play(&program, &["--orders", "60"]);
    assert_eq!(found(&first, "orders committed"), 54);
    assert_eq!(found(&first, "orders rolled back"), 6);
    assert!(found(&first, "jobs that the killed worker held") > 0);
    let second = play(&program, &["--orders", "1", "--workers", "1", "--durability", "full"]);
    assert_ne!(first["run"], second["run"]);
    assert_eq!(faults(&program, &first["run"]), [] as [&str; 0]);
    assert!(program.json(&["schedules"]).is_empty());
}

#[test]
fn without_a_url_it_leaves_nothing_behind() {
    let program = Program::new();
    let folder = tempfile::tempdir().unwrap();
    let table = program.ok_without_url(folder.path(), &["demo", "--orders", "20"]);
    assert!(table.contains("orders committed") && !table.contains("FAULT"), "{table}");
    assert!(table.contains("wake latency"), "{table}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn orders_may_come_from_a_file() {
    let program = Program::new();
    let file = program.path().with_extension("csv");
    std::fs::write(&file, "customer,amount_cents\nAda,100\nBo,250\n\"O'Neill, \"\"x\"\"\",7\n")
        .unwrap();
    let file = file.to_str().unwrap();
    let report = play(&program, &["--input", file]);
    assert_eq!(found(&report, "orders committed"), 3);
    let db = Connection::open(program.path()).unwrap();
    let sum: i64 =
        db.query_row("SELECT sum(amount_cents) FROM demo_total", [], |row| row.get(0)).unwrap();
    assert_eq!(sum, 357);

    std::fs::write(file, "customer,amount_cents\nAda,100\nBo,two\n").unwrap();
    let stderr = program.fails(&["demo", "--input", file], 1);
    assert!(stderr.contains("line 3 is no order"), "{stderr}");
    let stderr = program.fails(&["demo", "--input", "no-such.csv"], 1);
    assert!(stderr.contains("cannot read no-such.csv"), "{stderr}");
}

#[test]
fn an_interrupt_stops_every_process() {
    let program = Program::new();
    let mut demo = program.start(&["demo", "--orders", "1000000"]);
    let first = demo.stderr_line();
    let run = first.split_whitespace().nth(1).unwrap().to_owned();
    // The housekeeper registers the schedule, so from then on all processes have started.
    eventually(|| !program.json(&["schedules"]).is_empty());
    assert!(!processes_of(&run).is_empty());
    demo.interrupt();
    let (stderr, code) = demo.end();
    assert_eq!(code, Some(1));
    assert!(stderr.contains("interrupted"), "{stderr}");
    assert_eq!(processes_of(&run), [] as [u32; 0]);
    assert!(program.json(&["schedules"]).is_empty());
}

#[test]
fn processes_end_when_the_demo_is_killed() {
    let program = Program::new();
    let mut demo = program.start(&["demo", "--orders", "1000000"]);
    let run = demo.stderr_line().split_whitespace().nth(1).unwrap().to_owned();
    eventually(|| !program.json(&["schedules"]).is_empty());
    drop(demo);
    eventually(|| processes_of(&run).is_empty());
}

/// The processes of a run, as the system lists them.
fn processes_of(run: &str) -> Vec<u32> {
    let listed = std::process::Command::new("ps").args(["-eo", "pid=,args="]).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let ours = |line: &&str| line.contains(" demo-process ") && line.contains(run);
    listed
        .lines()
        .filter(ours)
        .filter_map(|line| line.split_whitespace().next()?.parse().ok())
        .collect()
}

const GHOSTS: &str = "ghosts: an effect without its order";
const LOST: &str = "lost: an order without an effect";
const TOTALS: &str = "customers with wrong totals";

/// What is done to the tables, and the checks that must fail then.
const DOCTORED: &[(&str, &[&str])] = &[
    ("DELETE FROM demo_email WHERE seq = 3", &["emails sent", LOST]),
    (
        "INSERT INTO demo_email SELECT run, 10, worker, attempts, sends, started_us, sent_us
         FROM demo_email WHERE seq = 9",
        &["emails sent", GHOSTS],
    ),
    ("UPDATE demo_email SET seq = 10 WHERE seq = 3", &[GHOSTS, LOST]),
    ("DELETE FROM demo_webhook WHERE seq = 3", &["webhooks delivered", LOST]),
    ("UPDATE demo_webhook SET seq = 10 WHERE seq = 3", &[GHOSTS, LOST]),
    ("UPDATE demo_total SET amount_cents = amount_cents + 1", &[TOTALS]),
    ("UPDATE demo_total SET orders = orders + 1", &[TOTALS]),
    ("DELETE FROM demo_total", &[TOTALS]),
    ("INSERT INTO demo_total SELECT run, 'nobody', 1, 1 FROM demo_run", &[TOTALS]),
    ("DELETE FROM demo_report", &["scheduled sweeps"]),
    ("DELETE FROM demo_held", &["jobs that the killed worker held"]),
    ("UPDATE demo_email SET attempts = 1", &["of those, claimed again and done"]),
    ("UPDATE demo_webhook SET attempts = 1", &["refused webhooks, delivered later"]),
    (
        "DELETE FROM demo_order WHERE seq = 3",
        &[
            "orders committed",
            "events published",
            "emails sent",
            "webhooks delivered",
            GHOSTS,
            TOTALS,
        ],
    ),
    (
        "INSERT INTO demo_order SELECT run, 10, customer, 1 FROM demo_order WHERE seq = 3",
        &[
            "orders committed",
            "orders rolled back",
            "events published",
            "emails sent",
            "webhooks delivered",
            LOST,
            TOTALS,
        ],
    ),
    ("UPDATE demo_order SET amount_cents = 0 WHERE seq = 3", &[GHOSTS, TOTALS]),
];

#[test]
fn the_audit_finds_what_is_wrong() {
    let program = Program::new();
    let run = play(&program, &["--orders", "60"])["run"].clone();
    for (sql, expected) in DOCTORED {
        let copy = program.copy();
        let db = Connection::open(copy.path()).unwrap();
        assert!(db.execute(sql, []).unwrap() > 0, "{sql}");
        drop(db);
        assert_eq!(faults(&copy, &run), *expected, "{sql}");
    }

    let events = format!("demo-{run}-orders");
    let copy = program.copy();
    let event = copy.json(&["tail", &events, "-n", "1"]);
    copy.ok(&["publish", &events, &event[0]["payload"].to_string()]);
    let behind = "events behind the totals' checkpoint";
    assert_eq!(faults(&copy, &run), ["events published", GHOSTS, behind]);

    let copy = program.copy();
    copy.ok(&["trim", &events, &event[0]["offset"].to_string()]);
    assert_eq!(faults(&copy, &run), ["events published", LOST]);

    for address in [format!("demo-{run}-emails"), format!("outbox:demo-{run}-webhooks")] {
        let copy = program.copy();
        copy.ok(&["enqueue", &address, "1"]);
        assert_eq!(faults(&copy, &run), ["jobs left over, waiting, claimed or dead"]);
    }
    assert!(program.fails(&["demo-audit", "1"], 1).contains("no run 1"));
    assert_eq!(faults(&program, &run), [] as [&str; 0], "the original is untouched");
}

#[test]
fn what_is_no_order_stops_nobody_and_is_found() {
    let program = Program::new();
    let mut demo = program.start(&["--json", "demo", "--orders", "300"]);
    let run = demo.stderr_line().split_whitespace().nth(1).unwrap().to_owned();
    program.ok(&["enqueue", &format!("demo-{run}-emails"), "\"no order\""]);
    program.ok(&["publish", &format!("demo-{run}-orders"), "\"no order\""]);
    let (stderr, code) = demo.end();
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("3 checks fail"), "{stderr}");
    let left = "jobs left over, waiting, claimed or dead";
    assert_eq!(faults(&program, &run.parse().unwrap()), ["events published", GHOSTS, left]);
}
