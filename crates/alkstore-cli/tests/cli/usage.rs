//! Help, exit codes, and what is said when something is wrong.

use crate::program::Program;

#[test]
fn help_names_every_command_and_no_internal_one() {
    let help = Program::new().ok(&["--help"]);
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(
        commands,
        [
            "demo",
            "init",
            "enqueue",
            "claim",
            "ack",
            "cancel",
            "queues",
            "jobs",
            "dead",
            "redrive",
            "discard",
            "sweep",
            "publish",
            "tail",
            "streams",
            "trim",
            "notify",
            "listen",
            "locks",
            "schedule",
            "unschedule",
            "schedules",
            "run-schedules",
            "help",
        ]
    );
    for command in commands.iter().filter(|command| **command != "help") {
        let help = Program::new().ok(&[command, "--help"]);
        assert!(help.contains("--url <URL>") && help.contains("--json"), "{help}");
    }
}

#[test]
fn wrong_usage_is_told_with_exit_code_2() {
    let program = Program::new();
    for (args, told) in [
        (&["jobs", "q", "--url", ""][..], "give --url path"),
        (&["jobs", "q", "--url", "postgres://ada:secret@db/app"], "no postgres engine"),
        (&["jobs", "q", "--url", "mysql://ada:secret@db/app"], "path of a sqlite file"),
        (&["jobs", "q", "--state", "gone"], "pending, processing, dead"),
        (&["claim", "q", "--ack", "--retry"], "cannot be used with"),
        (&["claim", "q", "--error", "late"], "required"),
        (&["claim", "outbox:webhooks"], "is an outbox"),
        (&["enqueue", "q", "1", "--delay", "soon"], "invalid value"),
        (&["enqueue", "outbox:webhooks", "1", "--visibility", "5"], "stamps of its own"),
        (&["publish", "s", "--batch", "0"], "invalid value"),
        (&["redrive", "q"], "--all"),
        (&["demo", "--orders", "0"], "invalid value"),
        (&["fly"], "unrecognized subcommand"),
    ] {
        program.ok(&["init"]);
        let stderr = program.fails(args, 2);
        assert!(stderr.to_lowercase().contains(told), "{args:?}: {stderr}");
        assert!(!stderr.contains("secret"), "{args:?}: {stderr}");
    }
}

#[test]
fn only_commands_that_put_something_in_make_a_store() {
    let program = Program::new();
    for args in [&["jobs", "q"][..], &["tail", "s"], &["claim", "q"], &["listen", "c"], &["queues"]]
    {
        let stderr = program.fails(args, 1);
        assert!(stderr.contains("alkstore init --url"), "{stderr}");
        assert!(!program.path().exists(), "{args:?}");
    }
    program.ok(&["enqueue", "q", "1"]);
    assert!(program.path().exists());
}

#[test]
fn init_says_what_it_made() {
    let program = Program::new();
    let created = program.json(&["init"]);
    assert_eq!(created[0]["engine"], "sqlite");
    assert_eq!(created[0]["created"], true);
    assert_eq!(program.json(&["init"])[0]["created"], false);
    let told = program.ok(&["init"]);
    assert!(told.contains("is up to date") && told.contains("survive power loss"), "{told}");
}

#[test]
fn bad_files_are_told_with_their_causes() {
    let program = Program::new();
    std::fs::write(program.path(), "this is no database, and long enough to tell".repeat(100))
        .unwrap();
    let stderr = program.fails(&["init"], 1);
    let lines: Vec<&str> = stderr.lines().collect();
    assert!(lines[0].starts_with("error: cannot open "), "{stderr}");
    assert!(
        lines.len() > 1 && lines[1..].iter().all(|line| line.starts_with("  cause: ")),
        "{stderr}"
    );
    let mut unique = lines.clone();
    unique.dedup_by_key(|line| line.trim_start_matches("  cause: "));
    assert_eq!(unique, lines, "no cause is told twice");
}

#[test]
fn names_that_are_refused_are_shown_safely() {
    let program = Program::new();
    let stderr = program.fails(&["enqueue", "__alkstore_x\u{1b}[31m", "1"], 1);
    assert!(stderr.contains("reserved prefix") && !stderr.contains('\u{1b}'), "{stderr}");
    let stderr = program.fails(&["publish", "s", "1", "--key", " "], 1);
    assert!(stderr.contains("is not valid"), "{stderr}");
    program.ok(&["publish", "bell\u{7}", "\"\u{9b}\""]);
    for args in [&["streams"][..], &["tail", "bell\u{7}"]] {
        let shown = program.ok(args);
        assert!(!shown.contains(['\u{7}', '\u{9b}']), "{shown:?}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let program = Program::new();
    let lines: String = (0..50_000).map(|n| format!("{n}\n")).collect();
    program.ok_with(&["publish", "s"], &lines);
    let mut tail = program.start(&["tail", "s"]);
    tail.stdout_line();
    tail.close_stdout();
    assert_eq!(tail.end(), (String::new(), Some(0)));
}
