//! Payloads from standard input.

use serde_json::Value;

use crate::program::Program;

#[test]
fn a_bad_line_is_named_and_what_is_stored_is_told() {
    let program = Program::new();
    let stderr =
        program.fails_with(&["publish", "s", "--batch", "2"], "1\n2\n\n3\n4\n5\n{\"a\" 1}\n7\n", 1);
    assert!(stderr.contains("4 payloads, up to line 5, are stored"), "{stderr}");
    assert!(stderr.contains("go on from line 6") && stderr.contains("line 7 cannot"), "{stderr}");
    assert_eq!(program.json(&["tail", "s"]).len(), 4);

    for (input, told) in [("nope\n", "not valid JSON"), ("1\n{\"k\": []}\n", "no field")] {
        let stderr = program.fails_with(&["publish", "t", "--key-field", "k"], input, 1);
        assert!(stderr.contains("nothing was stored") && stderr.contains(told), "{stderr}");
    }
    let stderr = program.fails(&["enqueue", "q", "{'a': 1}"], 1);
    assert!(stderr.contains("cause: ") && stderr.contains("column 2"), "{stderr}");
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
