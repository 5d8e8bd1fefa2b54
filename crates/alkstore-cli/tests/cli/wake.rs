//! Notifications and schedules: what happens in another process.

use serde_json::{Value, json};

use crate::program::Program;

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
    program.ok(&["schedule", "report", "@every 1s", "reports", r#"{"kind": "daily"}"#]);
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
    assert!(program.fails(&["unschedule", "report"], 1).contains("no schedule"));
}
