//! Jobs, from enqueue to ack, retry, dead and back.

use serde_json::{Value, json};

use crate::program::Program;

#[test]
fn a_job_goes_from_enqueue_to_ack() {
    let program = Program::new();
    let opts =
        ["--priority", "-3", "--max-attempts", "7", "--expires", "900", "--visibility", "60"];
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
    assert!(program.json(&["claim", "emails"]).is_empty(), "it is claimed");
    let table = program.ok(&["jobs", "emails", "--state", "processing"]);
    assert!(table.lines().next().unwrap().starts_with("ID  STATE"), "{table}");
    assert!(
        table.contains("processing") && table.contains("w-1") && table.contains("1/7"),
        "{table}"
    );

    assert_eq!(program.json(&["ack", "emails", &id.to_string()]), [json!({"acked": 1})]);
    assert!(program.json(&["jobs", "emails"]).is_empty());
    assert_eq!(program.ok(&["ack", "emails", &id.to_string()]), "0 acked\n");
}

#[test]
fn a_claim_can_end_its_jobs() {
    let program = Program::new();
    program.ok_with(&["enqueue", "q"], "1\n2\n3\n");
    assert_eq!(program.json(&["claim", "q", "-n", "2", "--ack"]).len(), 2);
    assert_eq!(program.json(&["queues"])[0]["pending"], 1);

    program.ok(&["claim", "q", "--retry", "--delay", "0", "--error", "smtp is down"]);
    let again = program.json(&["claim", "q", "--fail", "--error", "no such\naddress"]);
    assert_eq!(again[0]["attempts"], 2);
    let dead = program.json(&["dead", "q"]);
    assert_eq!(dead[0]["last_error"], "no such\naddress");
    assert!(program.ok(&["dead", "q"]).contains("no such\\naddress"), "one row, one line");

    assert_eq!(program.json(&["redrive", "q", "--all"]).len(), 1);
    assert!(program.json(&["dead", "q"]).is_empty());
    let jobs = program.json(&["jobs", "q"]);
    assert_eq!((&jobs[0]["payload"], &jobs[0]["attempts"]), (&json!(3), &json!(0)));

    program.ok(&["claim", "q", "--fail"]);
    let id = program.json(&["dead", "q"])[0]["id"].to_string();
    assert_eq!(program.json(&["discard", "q", &id]), [json!({"discarded": 1})]);
    assert_eq!(program.json(&["cancel", "q", &id]), [json!({"cancelled": 0})]);
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
    program.ok_with(&["enqueue", "outbox:webhooks"], "{\"order\": 7}\n\n{\"order\": 8}\n");
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
