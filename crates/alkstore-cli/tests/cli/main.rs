//! The program as its users see it: every test runs the binary on a store of its own.

mod demo;
mod program;

use serde_json::{Value, json};

use program::Program;

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
        assert!(
            help.contains("--url <URL>") && help.contains("--json"),
            "{help}"
        );
    }
}

#[test]
fn wrong_usage_is_told_with_exit_code_2() {
    let program = Program::new();
    for (args, told) in [
        (&["jobs", "q", "--url", ""][..], "give --url path"),
        (
            &["jobs", "q", "--url", "postgres://ada:secret@db/app"],
            "no postgres engine",
        ),
        (
            &["jobs", "q", "--url", "mysql://ada:secret@db/app"],
            "path of a sqlite file",
        ),
        (
            &["jobs", "q", "--state", "gone"],
            "pending, processing, dead",
        ),
        (&["claim", "q", "--ack", "--retry"], "cannot be used with"),
        (&["claim", "q", "--error", "late"], "required"),
        (&["claim", "outbox:webhooks"], "is an outbox"),
        (&["enqueue", "q", "1", "--delay", "soon"], "invalid value"),
        (
            &["enqueue", "outbox:webhooks", "1", "--visibility", "5"],
            "stamps of its own",
        ),
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
    for args in [
        &["jobs", "q"][..],
        &["tail", "s"],
        &["claim", "q"],
        &["listen", "c"],
        &["queues"],
    ] {
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
    assert!(program.ok(&["init"]).contains("is up to date"));
}

#[test]
fn bad_files_are_told_with_their_causes() {
    let program = Program::new();
    std::fs::write(
        program.path(),
        "this is no database, and long enough to tell".repeat(100),
    )
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
fn a_job_goes_from_enqueue_to_ack() {
    let program = Program::new();
    let opts = [
        "--priority",
        "-3",
        "--max-attempts",
        "7",
        "--expires",
        "900",
        "--visibility",
        "60",
    ];
    let enqueued = program.json(&[&["enqueue", "emails", r#"{"to": "ada"}"#][..], &opts].concat());
    let id = enqueued[0]["id"].as_i64().unwrap();
    assert_eq!(enqueued, [json!({"queue": "emails", "id": id})]);

    let jobs = program.json(&["jobs", "emails"]);
    let fields: Vec<&String> = jobs[0].as_object().unwrap().keys().collect();
    let mut expected = vec![
        "id",
        "queue",
        "state",
        "payload",
        "priority",
        "run_at",
        "attempts",
        "max_attempts",
        "worker_id",
        "claimed_at",
        "claim_expires_at",
        "created_at",
        "expires_at",
        "visibility_timeout_s",
        "backoff_base_s",
        "dead_letter_retention_s",
        "last_error",
        "died_at",
    ];
    expected.sort_unstable();
    assert_eq!(fields, expected, "the names are stable");
    assert_eq!(jobs[0]["state"], "pending");
    assert_eq!(jobs[0]["payload"], json!({"to": "ada"}));
    assert_eq!(jobs[0]["priority"], -3);
    assert_eq!(jobs[0]["max_attempts"], 7);
    assert_eq!(jobs[0]["visibility_timeout_s"], 60);
    let created = jobs[0]["created_at"].as_i64().unwrap();
    assert_eq!(jobs[0]["expires_at"], created + 900);

    let claimed = program.json(&["claim", "emails", "--worker", "w-1"]);
    assert_eq!(claimed[0]["worker_id"], "w-1");
    assert_eq!(claimed[0]["attempts"], 1);
    assert!(
        program.json(&["claim", "emails"]).is_empty(),
        "it is claimed"
    );
    let table = program.ok(&["jobs", "emails", "--state", "processing"]);
    assert!(
        table.lines().next().unwrap().starts_with("ID  STATE"),
        "{table}"
    );
    assert!(
        table.contains("processing") && table.contains("w-1") && table.contains("1/7"),
        "{table}"
    );

    assert_eq!(
        program.json(&["ack", "emails", &id.to_string()]),
        [json!({"acked": 1})]
    );
    assert!(program.json(&["jobs", "emails"]).is_empty());
    assert_eq!(program.ok(&["ack", "emails", &id.to_string()]), "0 acked\n");
}

#[test]
fn a_claim_can_end_its_jobs() {
    let program = Program::new();
    program.ok_with(&["enqueue", "q"], "1\n2\n3\n");
    assert_eq!(program.json(&["claim", "q", "-n", "2", "--ack"]).len(), 2);
    assert_eq!(program.json(&["queues"])[0]["pending"], 1);

    program.ok(&[
        "claim",
        "q",
        "--retry",
        "--delay",
        "0",
        "--error",
        "smtp is down",
    ]);
    let again = program.json(&["claim", "q", "--fail", "--error", "no such\naddress"]);
    assert_eq!(again[0]["attempts"], 2);
    let dead = program.json(&["dead", "q"]);
    assert_eq!(dead[0]["last_error"], "no such\naddress");
    assert!(
        program.ok(&["dead", "q"]).contains("no such\\naddress"),
        "one row, one line"
    );

    assert_eq!(program.json(&["redrive", "q", "--all"]).len(), 1);
    assert!(program.json(&["dead", "q"]).is_empty());
    let jobs = program.json(&["jobs", "q"]);
    assert_eq!(
        (&jobs[0]["payload"], &jobs[0]["attempts"]),
        (&json!(3), &json!(0))
    );

    program.ok(&["claim", "q", "--fail"]);
    let id = program.json(&["dead", "q"])[0]["id"].to_string();
    assert_eq!(
        program.json(&["discard", "q", &id]),
        [json!({"discarded": 1})]
    );
    assert_eq!(
        program.json(&["cancel", "q", &id]),
        [json!({"cancelled": 0})]
    );
}

#[test]
fn a_waiting_claim_takes_what_comes() {
    let program = Program::new();
    program.ok(&["init"]);
    assert!(program.json(&["claim", "q", "--wait", "0"]).is_empty());
    let mut claim = program.start(&["--json", "claim", "q", "--wait", "600"]);
    program.ok(&["enqueue", "q", r#""now""#]);
    let job: Value = serde_json::from_str(&claim.stdout_line()).unwrap();
    assert_eq!(job["payload"], "now");
    assert_eq!(claim.exit_code(), Some(0));
}

#[test]
fn jobs_come_in_pages() {
    let program = Program::new();
    let lines: String = (0..1_234).map(|n| format!("{n}\n")).collect();
    let enqueued = program.json_with(&["enqueue", "q", "--batch", "100"], &lines);
    assert_eq!(enqueued.len(), 1_234, "one line for each job");
    let jobs = program.json(&["jobs", "q", "--limit", "2000"]);
    assert!(
        jobs.iter()
            .map(|job| &job["payload"])
            .eq((0..1_234).map(Value::from).collect::<Vec<_>>().iter())
    );
    let first = program.json(&["jobs", "q", "--limit", "3"]);
    let after = first[2]["id"].to_string();
    let next = program.json(&["jobs", "q", "--limit", "3", "--after", &after]);
    assert_eq!(next[0]["payload"], 3);
}

#[test]
fn an_outbox_is_filled_and_seen_by_its_address() {
    let program = Program::new();
    program.ok_with(
        &["enqueue", "outbox:webhooks"],
        "{\"order\": 7}\n\n{\"order\": 8}\n",
    );
    let jobs = program.json(&["jobs", "outbox:webhooks"]);
    assert_eq!(jobs.len(), 2);
    assert_eq!(jobs[0]["queue"], "outbox:webhooks");
    assert_eq!(jobs[0]["max_attempts"], 5);
    assert_eq!(program.json(&["queues"])[0]["queue"], "outbox:webhooks");
}

#[test]
fn sweeping_buries_what_has_expired() {
    let program = Program::new();
    program.ok(&["enqueue", "q", "1", "--expires", "0"]);
    assert_eq!(program.json(&["sweep", "q"]), [json!({"swept": 1})]);
    assert_eq!(program.json(&["dead", "q"])[0]["last_error"], "expired");
}

#[test]
fn events_are_published_and_tailed() {
    let program = Program::new();
    program.ok(&["publish", "orders", r#"{"id": 1}"#, "--key", "ada"]);
    let published = program.json_with(
        &["publish", "orders", "--key-field", "who"],
        concat!(
            "{\"who\": \"bo\", \"id\": 2}\n",
            "{\"who\": 7, \"id\": 3}\r\n",
            "{\"id\": 4}",
        ),
    );
    assert_eq!(published.len(), 3);
    let events = program.json(&["tail", "orders"]);
    let keys: Vec<&Value> = events.iter().map(|event| &event["key"]).collect();
    assert_eq!(
        keys,
        [&json!("ada"), &json!("bo"), &json!("7"), &Value::Null]
    );
    let offset = |n: usize| events[n]["offset"].to_string();
    assert_eq!(
        published[0],
        json!({"stream": "orders", "offset": events[1]["offset"]})
    );

    let since = program.json(&["tail", "orders", "--since", &offset(1)]);
    assert_eq!(since, events[2..]);
    assert_eq!(program.json(&["tail", "orders", "-n", "2"]), events[..2]);
    let line = program.ok(&["tail", "orders", "-n", "1"]);
    assert!(
        line.starts_with(&offset(0)) && line.trim_end().ends_with(r#"ada  {"id":1}"#),
        "{line}"
    );

    let streams = program.json(&["streams"]);
    assert_eq!(
        (&streams[0]["stream"], &streams[0]["length"]),
        (&json!("orders"), &json!(4))
    );
}

#[test]
fn a_consumers_checkpoint_moves_only_when_asked_to() {
    let program = Program::new();
    program.ok_with(&["publish", "s"], "1\n2\n3\n");
    let read = |args: &[&str]| -> Vec<Value> {
        let args = [&["tail", "s", "--consumer", "c"][..], args].concat();
        program
            .json(&args)
            .iter()
            .map(|event| event["payload"].clone())
            .collect()
    };
    assert_eq!(read(&["-n", "2"]), [json!(1), json!(2)]);
    assert_eq!(read(&["-n", "2", "--save"]), [json!(1), json!(2)]);
    assert_eq!(read(&["-n", "1", "--follow"]), [json!(3)]);
    assert_eq!(read(&["-n", "1", "--follow", "--save"]), [json!(3)]);
    assert_eq!(read(&[]), [] as [Value; 0]);
    let consumers = program.json(&["streams", "s"]);
    assert_eq!(
        (&consumers[0]["consumer"], &consumers[0]["lag"]),
        (&json!("c"), &json!(0))
    );
}

#[test]
fn following_goes_on_with_what_comes_and_leaves_no_consumer() {
    let program = Program::new();
    program.ok_with(&["publish", "s"], "1\n2\n");
    let first = program.json(&["tail", "s"])[0]["offset"].to_string();
    let mut whole = program.start(&["--json", "tail", "s", "--follow"]);
    let mut rest = program.start(&["--json", "tail", "s", "--follow", "--since", &first]);
    let payload = |line: String| serde_json::from_str::<Value>(&line).unwrap()["payload"].clone();
    assert_eq!(payload(whole.stdout_line()), 1);
    assert_eq!(payload(whole.stdout_line()), 2);
    assert_eq!(payload(rest.stdout_line()), 2);
    program.ok(&["publish", "s", "3"]);
    for tail in [&mut whole, &mut rest] {
        assert_eq!(payload(tail.stdout_line()), 3);
        tail.interrupt();
        assert_eq!(tail.exit_code(), Some(0));
    }
    assert!(program.json(&["streams", "s"]).is_empty());
}

#[test]
fn a_bad_line_is_named_and_what_is_stored_is_told() {
    let program = Program::new();
    let stderr = program.fails_with(
        &["publish", "s", "--batch", "2"],
        "1\n2\n\n3\n4\n5\n{\"a\" 1}\n7\n",
        1,
    );
    assert!(
        stderr.contains("4 payloads, up to line 5, are stored"),
        "{stderr}"
    );
    assert!(
        stderr.contains("go on from line 6") && stderr.contains("line 7 cannot"),
        "{stderr}"
    );
    assert_eq!(program.json(&["tail", "s"]).len(), 4);

    for (input, told) in [
        ("nope\n", "not valid JSON"),
        ("1\n{\"k\": []}\n", "no field"),
    ] {
        let stderr = program.fails_with(&["publish", "t", "--key-field", "k"], input, 1);
        assert!(
            stderr.contains("nothing was stored") && stderr.contains(told),
            "{stderr}"
        );
    }
    let stderr = program.fails(&["enqueue", "q", "{'a': 1}"], 1);
    assert!(
        stderr.contains("cause: ") && stderr.contains("column 2"),
        "{stderr}"
    );
    assert!(program.json(&["queues"]).is_empty());
}

#[test]
fn lines_of_a_live_pipe_flow_without_waiting_for_a_full_batch() {
    let program = Program::new();
    program.ok(&["init"]);
    let mut tail = program.start(&["--json", "tail", "s", "--follow"]);
    let mut publish = program.start(&["publish", "s"]);
    for n in 1..=2 {
        publish.say(&format!("{n}\n"));
        let event: Value = serde_json::from_str(&tail.stdout_line()).unwrap();
        assert_eq!(event["payload"], n);
    }
    publish.end_input();
    assert_eq!(publish.exit_code(), Some(0));
}

#[test]
fn names_that_are_refused_are_shown_safely() {
    let program = Program::new();
    let stderr = program.fails(&["enqueue", "__alkstore_x\u{1b}[31m", "1"], 1);
    assert!(
        stderr.contains("reserved prefix") && !stderr.contains('\u{1b}'),
        "{stderr}"
    );
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

#[test]
fn a_notification_wakes_listeners() {
    let program = Program::new();
    program.ok(&["init"]);
    let mut listen = program.start(&["--json", "listen", "orders", "--count", "1"]);
    assert_eq!(listen.stderr_line(), "listening on orders");
    program.ok(&["notify", "others"]);
    program.ok(&["notify", "orders", r#"{"id": 1}"#]);
    let wake: Value = serde_json::from_str(&listen.stdout_line()).unwrap();
    assert_eq!(wake["channel"], "orders");
    assert!(wake["at"].as_i64().unwrap() > 1_700_000_000);
    assert_eq!(listen.exit_code(), Some(0));

    let stderr = program.fails(&["listen", "orders", "--count", "1", "--timeout", "0"], 1);
    assert!(stderr.contains("no more than 0 of 1 wakes"), "{stderr}");
    assert_eq!(program.ok(&["listen", "orders", "--timeout", "0"]), "");
    program.fails(&["notify", "orders", "{"], 1);

    let mut listen = program.start(&["listen", "orders"]);
    listen.stderr_line();
    listen.interrupt();
    assert_eq!(listen.exit_code(), Some(0));
}

#[test]
fn schedules_fire_while_they_are_run() {
    let program = Program::new();
    program.ok(&[
        "schedule",
        "report",
        "@every 1s",
        "reports",
        r#"{"kind": "daily"}"#,
    ]);
    let stderr = program.fails(&["schedule", "other", "daily", "reports"], 1);
    assert!(stderr.contains("@every 15m"), "{stderr}");
    let schedules = program.json(&["schedules"]);
    assert_eq!(
        (&schedules[0]["schedule"], &schedules[0]["spec"]),
        (&json!("report"), &json!("@every 1s"))
    );

    let mut runner = program.start(&["run-schedules"]);
    let jobs = program.json(&["claim", "reports", "--wait", "60"]);
    assert_eq!(jobs[0]["payload"], json!({"kind": "daily"}));
    let locks = program.json(&["locks"]);
    assert_eq!(locks[0]["lock"], "__alkstore_scheduler");
    let stderr = program.fails(&["run-schedules"], 1);
    assert!(stderr.contains("another runner leads"), "{stderr}");
    runner.interrupt();
    assert_eq!(runner.exit_code(), Some(0));
    assert!(program.json(&["locks"]).is_empty(), "the lead is given up");

    program.ok(&["unschedule", "report"]);
    assert!(
        program
            .fails(&["unschedule", "report"], 1)
            .contains("no schedule")
    );
}

#[test]
fn trimming_spares_what_a_consumer_has_not_read() {
    let program = Program::new();
    program.ok_with(&["publish", "s"], "1\n2\n3\n");
    program.ok(&["tail", "s", "--consumer", "slow", "-n", "1", "--save"]);
    let last = program.json(&["tail", "s"])[2]["offset"].to_string();
    let stderr = program.fails(&["trim", "s", &last], 1);
    assert!(
        stderr.contains("\"slow\"") && stderr.contains("--force"),
        "{stderr}"
    );
    assert_eq!(
        program.json(&["trim", "s", &last, "--force"]),
        [json!({"trimmed": 3})]
    );
    let consumers = program.json(&["streams", "s"]);
    assert_eq!(consumers[0]["trimmed_past"], true);
}
