//! Events, checkpoints, and following a stream.

use serde_json::{Value, json};

use crate::program::Program;

#[test]
fn events_are_published_and_tailed() {
    let program = Program::new();
    program.ok(&["publish", "orders", r#"{"id": 1}"#, "--key", "ada"]);
    let published = program.json_with(
        &["publish", "orders", "--key-field", "who"],
        concat!("{\"who\": \"bo\", \"id\": 2}\n", "{\"who\": 7, \"id\": 3}\r\n", "{\"id\": 4}",),
    );
    assert_eq!(published.len(), 3);
    let events = program.json(&["tail", "orders"]);
    let keys: Vec<&Value> = events.iter().map(|event| &event["key"]).collect();
    assert_eq!(keys, [&json!("ada"), &json!("bo"), &json!("7"), &Value::Null]);
    let offset = |n: usize| events[n]["offset"].to_string();
    assert_eq!(published[0], json!({"stream": "orders", "offset": events[1]["offset"]}));

    let since = program.json(&["tail", "orders", "--since", &offset(1)]);
    assert_eq!(since, events[2..]);
    assert_eq!(program.json(&["tail", "orders", "-n", "2"]), events[..2]);
    let line = program.ok(&["tail", "orders", "-n", "1"]);
    assert!(
        line.starts_with(&offset(0)) && line.trim_end().ends_with(r#"ada  {"id": 1}"#),
        "{line}"
    );

    let streams = program.json(&["streams"]);
    assert_eq!((&streams[0]["stream"], &streams[0]["length"]), (&json!("orders"), &json!(4)));
}

#[test]
fn a_consumers_checkpoint_moves_only_when_asked_to() {
    let program = Program::new();
    program.ok_with(&["publish", "s"], "1\n2\n3\n");
    let read = |args: &[&str]| -> Vec<Value> {
        let args = [&["tail", "s", "--consumer", "c"][..], args].concat();
        program.json(&args).iter().map(|event| event["payload"].clone()).collect()
    };
    assert_eq!(read(&["-n", "2"]), [json!(1), json!(2)]);
    assert_eq!(read(&["-n", "2", "--save"]), [json!(1), json!(2)]);
    assert_eq!(read(&["-n", "1", "--follow"]), [json!(3)]);
    assert_eq!(read(&["-n", "1", "--follow", "--save"]), [json!(3)]);
    assert_eq!(read(&[]), [] as [Value; 0]);
    let consumers = program.json(&["streams", "s"]);
    assert_eq!((&consumers[0]["consumer"], &consumers[0]["lag"]), (&json!("c"), &json!(0)));
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
fn trimming_spares_what_a_consumer_has_not_read() {
    let program = Program::new();
    program.ok_with(&["publish", "s"], "1\n2\n3\n");
    program.ok(&["tail", "s", "--consumer", "slow", "-n", "1", "--save"]);
    let last = program.json(&["tail", "s"])[2]["offset"].to_string();
    let stderr = program.fails(&["trim", "s", &last], 1);
    assert!(stderr.contains("\"slow\"") && stderr.contains("--force"), "{stderr}");
    assert_eq!(program.json(&["trim", "s", &last, "--force"]), [json!({"trimmed": 3})]);
    let consumers = program.json(&["streams", "s"]);
    assert_eq!(consumers[0]["trimmed_past"], true);
}

/// Key order, spaces and digits that a value would not keep.
#[test]
fn payloads_are_kept_byte_for_byte() {
    let program = Program::new();
    let text = r#"{"b":  12345678901234567890123456789, "a": 1.50, "a": "\u00fc"}"#;
    program.ok(&["publish", "raw", text]);
    program.ok_with(&["publish", "raw"], &format!("{text}\n"));
    program.ok(&["enqueue", "raw", text]);
    program.ok(&["enqueue", "outbox:raw", text]);
    for command in [&["tail", "raw"][..], &["jobs", "raw"], &["jobs", "outbox:raw"]] {
        let shown = program.ok(&[command, &["--json"]].concat());
        assert!(
            shown.lines().count() > 0 && shown.lines().all(|line| line.contains(text)),
            "{shown}"
        );
    }
}
