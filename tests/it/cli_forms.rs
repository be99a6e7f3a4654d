//! Answers that are held against what is asked: forms, and tool calls answered by `resolve`. And what a watch tells of decisions.

use std::{process::Stdio, time::Duration};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::cli_harness::Broker;

/// An approval and an external call.
const CALLS: &str = r#"{
    "approvals": [{"tool_call_id": "call_1", "tool_name": "refund", "args": {"amount": 500}}],
    "calls": [{"tool_call_id": "call_2", "tool_name": "ship", "args": null}]
}"#;

const SCHEMA: &str = r#"{
    "type": "object", "required": ["nights"], "additionalProperties": false,
    "properties": {
        "nights": {"type": "integer", "minimum": 1, "maximum": 14, "description": "How long?"},
        "room": {"enum": ["single", "double"]}
    }
}"#;

#[tokio::test]
async fn a_form_tells_what_fits_and_takes_nothing_else() {
    let broker = Broker::start().await;
    let path = broker.path("schema.json");
    std::fs::write(&path, SCHEMA).expect("writable");
    let schema = format!("@{path}");
    let form = ["--name", "stay", "--form", &schema];
    let words = ["--message", "Your stay", "--payload", r#"{"n":1.0}"#];
    let mut wait = broker.wait(&[&form[..], &words].concat());
    let token = wait.token().await;

    let shown = broker.run(&["show", &token]).await.stdout;
    for told in [
        "message    Your stay\n",
        "  \"n\": 1.0\n",
        "nights  required, whole number, at least 1, at most 14: How long?",
        "room    optional, one of \"single\", \"double\"",
        "abeyance resolve TOKEN JSON",
    ] {
        assert!(shown.contains(told), "{told:?} is missing:\n{shown}");
    }
    assert!(!shown.contains("schema "), "all is told in words:\n{shown}");
    let shown = broker.json(&["show", "--json", &token]).await;
    assert_eq!(shown["form"]["message"], "Your stay");
    assert_eq!(shown["form"]["payload_json"], r#"{"n":1.0}"#);
    assert_eq!(shown["form"]["response_schema_json"], SCHEMA);

    let bad = r#"{"nights": 15, "rom": "single"}"#;
    let ran = broker.run(&["resolve", &token, bad]).await;
    assert_eq!(ran.code, 65, "{}", ran.stderr);
    for place in ["\n  nights: ", "\n  rom: "] {
        assert!(ran.stderr.contains(place), "{place:?}: {}", ran.stderr);
    }
    let ran = broker.run(&["resolve", &token, "--partial", "{}"]).await;
    assert_eq!(ran.code, 65, "{}", ran.stderr);

    let good = "{ \"nights\": 14 }";
    let resolve = ["resolve", &token, "--by", "carol", good];
    assert_eq!(broker.run(&resolve).await.stdout, "resolved\n");
    let again = broker.run(&["resolve", &token, good]).await.stdout;
    assert!(again.contains("recorded by carol at"), "{again}");
    let ran = wait.end().await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, good));
    let shown = broker.json(&["show", "--json", &token]).await;
    assert_eq!(shown["outcome"]["answered_by"], "carol");
    assert!(shown["outcome"]["results_json"].is_null());
}

#[tokio::test]
async fn a_schema_that_has_no_words_is_shown_and_a_bad_one_opens_nothing() {
    let broker = Broker::start().await;
    let schema = r#"{"not": {"type": "string"}}"#;
    let (token, _) = broker.open(&["--name", "n", "--form", schema]).await;
    let shown = broker.run(&["show", &token]).await.stdout;
    assert!(shown.contains("schema     {\n"), "{shown}");
    assert!(shown.contains("\"not\": {"), "{shown}");

    let bad = r#"{"type": "nonsense"}"#;
    let ran = broker.run(&["open", "--name", "n", "--form", bad]).await;
    assert_eq!(ran.code, 65, "{}", ran.stderr);
    assert!(ran.stderr.contains("--form: "), "{}", ran.stderr);
}

#[tokio::test]
async fn a_refused_answer_names_each_fault_and_a_mended_one_is_taken() {
    let broker = Broker::start().await;
    let (token, _) = broker.open(&["--name", "n", "--calls", CALLS]).await;
    let bad = r#"{"approvals": {"call_1": "yes", "call_9": true}, "calls": {"call_1": 1}}"#;
    let ran = broker.run(&["resolve", &token, bad]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (65, ""), "{}", ran.stderr);
    let lines: Vec<_> = ran.stderr.lines().collect();
    assert!(lines[0].contains("INVALID_ANSWER"), "{}", ran.stderr);
    for place in [
        "  approvals[\"call_1\"]: ",
        "  approvals[\"call_9\"]: ",
        "  calls[\"call_1\"]: ",
    ] {
        let found = lines.iter().filter(|line| line.starts_with(place)).count();
        assert_eq!(found, 1, "{place}:\n{}", ran.stderr);
    }

    let part = r#"{"approvals": {"call_1": true}}"#;
    let partial = ["resolve", &token, "--partial", part, "--by", "alice"];
    let first = broker.run(&partial).await.stdout;
    assert_eq!(first, "recorded; 1 of 2 decided\n");
    let again = broker.run(&partial).await.stdout;
    assert_eq!(again, "the same was recorded before; 1 of 2 decided\n");
    let rest = r#"{"calls": {"call_2": 5}}"#;
    let last = broker.run(&["resolve", "--json", &token, rest]).await;
    let last: Value = serde_json::from_str(&last.stdout).expect("JSON");
    assert_eq!(last["state"], "resolved");
    assert_eq!(last["progress"]["decided_calls"], 2);
}

#[tokio::test]
async fn a_watch_tells_each_decision() {
    let broker = Broker::start().await;
    let calls = r#"{"approvals": [
        {"tool_call_id": "a", "tool_name": "t", "args": {}}, {"tool_call_id": "b", "tool_name": "t", "args": {}}
    ]}"#;
    let (token, _) = broker.open(&["--name", "n", "--calls", calls]).await;
    let mut watch = broker
        .command(&["watch", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("piped")).lines();
    let mut next = async || {
        let line = tokio::time::timeout(Duration::from_secs(60), lines.next_line());
        let line = line.await.expect("in time").expect("readable");
        let wait: Value = serde_json::from_str(&line.expect("open")).expect("JSON");
        let decided = wait["progress"]["decided_calls"].as_u64();
        (wait["state"].as_str().expect("a state").to_owned(), decided)
    };
    assert_eq!(next().await, ("pending".to_owned(), Some(0)));
    assert_eq!(broker.run(&["approve", &token, "a"]).await.code, 0);
    assert_eq!(next().await, ("pending".to_owned(), Some(1)));
    assert_eq!(broker.run(&["approve", &token, "b"]).await.code, 0);
    assert_eq!(next().await, ("resolved".to_owned(), None));
}
