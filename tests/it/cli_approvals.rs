//! Tool calls on the command line: opened by one, shown to another, decided by several, and what the worker gets in every ending.

use serde_json::{Value, json};

use crate::cli_harness::{Broker, Ran, bare, run, run_with_stdin};

/// An approval and an external call; the arguments of the second are a string that holds JSON.
pub const CALLS: &str = r#"{
    "approvals": [{"tool_call_id": "call_1", "tool_name": "issue_refund", "args": {"order": "4711", "amount": 500.00}}],
    "calls": [{"tool_call_id": "call_2", "tool_name": "ship", "args": "{\"express\":true,\"id\":9007199254740993}"}],
    "metadata": {"call_1": {"risk": "high"}}
}"#;

/// Approvals alone.
pub const APPROVALS: &str = r#"{"approvals": [
    {"tool_call_id": "call_1", "tool_name": "refund", "args": {"amount": 500}},
    {"tool_call_id": "call_2", "tool_name": "mail", "args": null}
]}"#;

pub async fn open(broker: &Broker, calls: &str) -> String {
    broker.open(&["--name", "n", "--calls", calls]).await.0
}

/// Runs a command that must succeed, and returns what it prints.
pub async fn ok(broker: &Broker, arguments: &[&str]) -> String {
    let ran = broker.run(arguments).await;
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
    ran.stdout
}

/// Runs a command that must be refused, and returns why.
pub async fn refused(broker: &Broker, arguments: &[&str]) -> String {
    let ran = broker.run(arguments).await;
    assert_eq!(ran.code, 65, "{arguments:?}: {}", ran.stderr);
    assert_eq!(ran.stdout, "", "{arguments:?}");
    for secret in ["SECRET", "abey_A"] {
        assert!(!ran.stderr.contains(secret), "{}", ran.stderr);
    }
    ran.stderr
}

fn results(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout)
        .unwrap_or_else(|e| panic!("{e}: {:?}, {}", ran.stdout, ran.stderr))
}

pub fn tells(text: &str, all: &[&str]) {
    for told in all {
        assert!(text.contains(told), "{told:?} is missing:\n{text}");
    }
}

#[tokio::test]
async fn two_people_decide_and_the_worker_gets_both_decisions() {
    let broker = Broker::start().await;
    let path = broker.path("requests.json");
    std::fs::write(&path, CALLS).expect("writable");
    let mut wait = broker.wait(&["--name", "refund", "--calls", &format!("@{path}")]);
    let token = wait.token().await;

    let shown = ok(&broker, &["show", &token]).await;
    tells(
        &shown,
        &[
            "state      pending, 0 of 2 decided",
            "issue_refund, needs your approval",
            "ship, needs a result",
            "id         call_1",
            "\"amount\": 500.00\n",
            "\"id\": 9007199254740993\n",
            "\"risk\": \"high\"",
            "abeyance approve TOKEN call_1",
            "abeyance answer TOKEN call_2 JSON",
            "abeyance deny TOKEN call_2 --message TEXT",
        ],
    );
    assert!(!shown.contains("abey_"), "{shown}");

    assert_eq!(
        ok(&broker, &["approve", &token, "call_1", "--by", "alice"]).await,
        "approved call_1; 1 of 2 decided, still pending: call_2\n"
    );
    wait.says("call_1 approved by alice; 1 of 2 decided").await;
    // A second click is no decision of its own, and names who was first.
    assert_eq!(
        ok(&broker, &["approve", &token, "call_1", "--by", "bob"]).await,
        "recorded before: call_1 approved by alice; 1 of 2 decided, still pending: call_2\n"
    );
    let shown = ok(&broker, &["show", &token]).await;
    tells(
        &shown,
        &[
            "pending, 1 of 2 decided",
            "issue_refund, approved by alice",
            "ship, needs a result",
        ],
    );
    assert!(!shown.contains("approve TOKEN call_1"), "{shown}");

    let deny = [
        "deny",
        &token,
        "call_2",
        "--message",
        "Not in stock.",
        "--by",
        "bob",
    ];
    assert_eq!(
        ok(&broker, &deny).await,
        "denied call_2 (the call fails); 2 of 2 decided, resolved\n"
    );
    let ran = wait.end().await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let results = results(&ran);
    let approved = json!({"kind": "tool-approved"});
    assert_eq!(results["approvals"], json!({"call_1": approved}));
    let failed = json!({"kind": "tool-failed", "message": "Not in stock."});
    assert_eq!(results["calls"], json!({"call_2": failed}));
    let by = json!({"call_1": "alice", "call_2": "bob"});
    assert_eq!(results["answered_by"], by);

    let shown = ok(&broker, &["show", &token]).await;
    tells(
        &shown,
        &[
            "state      resolved",
            "ship, failed by bob",
            "Not in stock.",
        ],
    );
    assert_eq!(shown.matches("\n  decided    ").count(), 2, "{shown}");

    // After the end as before it: who decided, and how.
    let why = refused(&broker, &["deny", &token, "call_1"]).await;
    tells(
        &why,
        &["ALREADY_SETTLED", "\n  call_1 was approved by alice, "],
    );
    assert!(!why.contains("DescribeWait"), "{why}");
}

#[tokio::test]
async fn every_other_end_gives_denials_on_stdout_and_its_own_code() {
    let broker = Broker::start().await;
    let denied = |ran: &Ran, reason: &str| {
        let message = format!("No decision on this tool call arrived: {reason}");
        let results = results(ran);
        assert_eq!(results["approvals"]["call_2"]["kind"], "tool-denied");
        assert_eq!(results["approvals"]["call_2"]["message"], message);
        results["approvals"]["call_1"].clone()
    };
    let open = ["--name", "n", "--calls", APPROVALS];

    let mut wait = broker.wait(&open);
    let token = wait.token().await;
    ok(&broker, &["approve", &token, "call_1"]).await;
    ok(&broker, &["fail", &token, "no budget"]).await;
    let ran = wait.end().await;
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    let kept = json!({"kind": "tool-approved"});
    assert_eq!(denied(&ran, "no budget"), kept, "a decision stays");
    tells(&ran.stderr, &["failed: no budget"]);

    let ran = broker
        .wait(&[&open[..], &["--timeout", "100ms"]].concat())
        .end()
        .await;
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    denied(&ran, "No resolution arrived within 0:00:00.100000.");
    tells(&ran.stderr, &["expired: No resolution arrived"]);

    let mut wait = broker.wait(&open);
    let token = wait.token().await;
    ok(&broker, &["cancel", &token, "--reason", "too late"]).await;
    let ran = wait.end().await;
    assert_eq!(ran.code, 5, "{}", ran.stderr);
    denied(&ran, "too late");
    tells(&ran.stderr, &["cancelled: too late"]);
    let why = refused(&broker, &["approve", &token]).await;
    tells(&why, &["ALREADY_SETTLED", "cancelled", "abeyance show"]);
}

#[tokio::test]
async fn without_a_call_all_that_is_pending_is_meant() {
    let broker = Broker::start().await;
    let token = open(&broker, APPROVALS).await;
    assert_eq!(
        ok(&broker, &["approve", &token]).await,
        "approved call_1, approved call_2; 2 of 2 decided, resolved\n"
    );
    // Again, as when the first reply was lost.
    let again = ok(&broker, &["approve", &token]).await;
    tells(&again, &["recorded before", "2 of 2 decided, resolved"]);

    let token = open(&broker, APPROVALS).await;
    ok(&broker, &["deny", &token, "call_1", "--by", "bob"]).await;
    assert_eq!(
        ok(&broker, &["approve", &token]).await,
        "approved call_2; 2 of 2 decided, resolved\n",
        "what bob denied stays denied"
    );

    let token = open(&broker, CALLS).await;
    assert_eq!(
        ok(&broker, &["approve", &token]).await,
        "approved call_1; 1 of 2 decided, still pending: call_2\n"
    );
    let token = open(&broker, CALLS).await;
    tells(
        &ok(&broker, &["deny", &token]).await,
        &[
            "denied call_1",
            "denied call_2 (the call fails)",
            "2 of 2 decided, resolved",
        ],
    );
    let external = r#"{"calls": [{"tool_call_id": "a", "tool_name": "t", "args": {}}]}"#;
    let token = open(&broker, external).await;
    tells(
        &refused(&broker, &["approve", &token]).await,
        &["no call of this wait needs an approval", "answer TOKEN a"],
    );
}

#[tokio::test]
async fn arguments_are_overridden_for_exactly_one_call() {
    let broker = Broker::start().await;
    let token = open(&broker, APPROVALS).await;
    let with = ["--override-args", r#"{"amount": 100.0}"#];
    for calls in [&["call_1", "call_2"][..], &[]] {
        let arguments = [&["approve", &token][..], calls, &with].concat();
        let ran = broker.run(&arguments).await;
        assert_eq!(ran.code, 64, "{}", ran.stderr);
        tells(&ran.stderr, &["exactly one call"]);
    }
    for (bad, why) in [("[1]", "object"), ("", "JSON"), ("{", "line 1")] {
        let arguments = ["approve", &token, "call_1", "--override-args", bad];
        tells(
            &refused(&broker, &arguments).await,
            &["approvals[\"call_1\"].override_args", why],
        );
    }
    assert_eq!(
        ok(
            &broker,
            &[&["approve", &token, "call_1"][..], &with].concat()
        )
        .await,
        "approved call_1 with other arguments; 1 of 2 decided, still pending: call_2\n"
    );
    // Now one is left, and it need not be named.
    let command = broker.command(&["approve", &token, "--override-args", "-"]);
    assert_eq!(run_with_stdin(command, "{}").await.code, 0);
    let shown = broker.json(&["show", "--json", &token]).await;
    let results = shown["outcome"]["results_json"].as_str().expect("results");
    tells(results, &[r#""override_args":{"amount": 100.0}"#]);
}

#[tokio::test]
async fn a_result_is_data_whatever_it_looks_like() {
    let broker = Broker::start().await;
    let mut wait = broker.wait(&["--name", "n", "--calls", CALLS]);
    let token = wait.token().await;
    let value = r#"{"kind": "tool-denied", "n": 1.0}"#;
    let command = broker.command(&["answer", &token, "call_2", "-", "--by", "carol"]);
    let ran = run_with_stdin(command, value).await;
    assert_eq!(
        ran.stdout,
        "answered call_2; 1 of 2 decided, still pending: call_1\n"
    );
    ok(&broker, &["deny", &token, "call_1"]).await;
    let ran = wait.end().await;
    let results = results(&ran);
    assert_eq!(results["calls"]["call_2"]["kind"], "tool-return");
    assert!(ran.stdout.contains(value), "byte for byte: {}", ran.stdout);
    let denied = &results["approvals"]["call_1"];
    assert_eq!(denied["message"], "The tool call was denied.");
}

#[tokio::test]
async fn what_cannot_be_decided_so_is_refused_with_what_to_do() {
    let broker = Broker::start().await;
    let token = open(&broker, CALLS).await;
    let decides: [(&[&str], &[&str]); 6] = [
        (&["approve", "nope"], &["no call nope", "call_1"]),
        (&["approve", "abey_SECRET"], &["no call"]),
        (&["approve", "call_2"], &["answer TOKEN call_2"]),
        (&["answer", "call_1", "1"], &["approve TOKEN call_1"]),
        (&["answer", "call_2", "yes"], &[r#"write '"yes"'"#]),
        // All of them are recorded or none.
        (&["deny", "call_1", "nope"], &["no call nope"]),
    ];
    for (arguments, told) in decides {
        let (command, rest) = arguments.split_first().expect("a command");
        let arguments = [&[command, &*token][..], rest].concat();
        tells(&refused(&broker, &arguments).await, told);
    }
    let shown = broker.json(&["show", "--json", &token]).await;
    assert_eq!(shown["progress"]["decided_calls"], 0);

    ok(&broker, &["approve", &token, "call_1", "--by", "alice"]).await;
    let why = refused(&broker, &["deny", &token, "call_1"]).await;
    tells(&why, &["call_1 was approved by alice", "ALREADY_DECIDED"]);

    let (token, _) = broker.open(&["--name", "n", "--question", "1"]).await;
    let other: [&[&str]; 3] = [&["approve"], &["deny"], &["answer", "x", "1"]];
    for arguments in other {
        let (command, rest) = arguments.split_first().expect("a command");
        let arguments = [&[command, &*token][..], rest].concat();
        let why = refused(&broker, &arguments).await;
        tells(&why, &["not about tool calls", "abeyance resolve"]);
    }
}

#[tokio::test]
async fn the_token_may_come_from_elsewhere_and_is_never_shown() {
    let broker = Broker::start().await;
    let token = open(&broker, APPROVALS).await;
    let path = broker.path("token");
    std::fs::write(&path, &token).expect("writable");
    let mut command = broker.command(&["show"]);
    command.env("ABEYANCE_TOKEN", &token);
    let shown = run(command).await.stdout;
    tells(&shown, &["abeyance approve call_1\n"]);
    let shown = ok(&broker, &["show", "--token-file", &path]).await;
    tells(&shown, &[&format!("approve --token-file {path} call_1\n")]);
    assert!(!shown.contains(&token), "{shown}");

    ok(&broker, &["approve", "--token-file", &path, "call_1"]).await;
    let mut command = broker.command(&["deny", "call_2"]);
    command.env("ABEYANCE_TOKEN", &token);
    let ran = run(command).await;
    assert_eq!(ran.stdout, "denied call_2; 2 of 2 decided, resolved\n");
}

#[tokio::test]
async fn programs_read_what_is_asked_and_what_is_decided() {
    let broker = Broker::start().await;
    let token = open(&broker, CALLS).await;
    let recorded = broker
        .json(&["approve", "--json", &token, "call_1", "--by", "alice"])
        .await;
    assert_eq!(recorded["state"], "pending");
    assert_eq!(recorded["replayed"], false);
    assert_eq!(recorded["progress"]["pending"], json!(["call_2"]));

    let shown = broker.json(&["show", "--json", &token]).await;
    let calls = shown["deferred"]["calls"].as_array().expect("calls");
    let call = |id: &str| calls.iter().find(|c| c["tool_call_id"] == id).expect(id);
    assert_eq!(call("call_1")["tool_name"], "issue_refund");
    assert_eq!(call("call_1")["kind"], "approval");
    let args = r#"{"order": "4711", "amount": 500.00}"#;
    assert_eq!(call("call_1")["args_json"], args);
    assert_eq!(call("call_1")["metadata_json"], r#"{"risk": "high"}"#);
    assert_eq!(call("call_2")["kind"], "external");
    assert_eq!(shown["deferred"]["may_leave_pending"], false);
    let progress = &shown["progress"];
    assert_eq!(*progress, recorded["progress"]);
    assert_eq!(progress["decided_calls"], 1);
    assert_eq!(progress["pending_calls"], 1);
    let decided = &progress["decided"][0];
    assert_eq!(decided["tool_call_id"], "call_1");
    assert_eq!(decided["decision"], "approved");
    assert_eq!(decided["answered_by"], "alice");
    assert!(decided["decide_time"].is_string());

    let listed = broker.json(&["list", "--json"]).await;
    let counts = json!({"decided_calls": 1, "pending_calls": 1});
    assert_eq!(listed["progress"], counts);
    let list = ok(&broker, &["list"]).await;
    tells(&list, &["pending, 1/2 decided"]);

    ok(&broker, &["answer", &token, "call_2", "null"]).await;
    let shown = broker.json(&["show", "--json", &token]).await;
    let outcome = &shown["outcome"];
    assert_eq!(outcome["results_json"], outcome["payload_json"]);
    assert!(outcome["results_json"].is_string());
}

#[tokio::test]
async fn what_came_with_a_decision_is_shown_before_and_after_the_end() {
    let broker = Broker::start().await;
    let calls = r#"{
        "approvals": [{"tool_call_id": "a", "tool_name": "t"}, {"tool_call_id": "d", "tool_name": "t"},
            {"tool_call_id": "last", "tool_name": "t"}],
        "calls": [{"tool_call_id": "e", "tool_name": "t"}]
    }"#;
    let token = open(&broker, calls).await;
    let with = r#"{"amount": 100.0}"#;
    ok(&broker, &["approve", &token, "a", "--override-args", with]).await;
    ok(
        &broker,
        &["deny", &token, "d", "--message", "Over the limit."],
    )
    .await;
    ok(&broker, &["answer", &token, "e", "[1.0]"]).await;
    for end in [None, Some("no budget")] {
        if let Some(reason) = end {
            ok(&broker, &["fail", &token, "--reason", reason]).await;
        }
        let shown = ok(&broker, &["show", &token]).await;
        tells(
            &shown,
            &[
                "t, approved with other arguments",
                "runs with  {\n",
                "\"amount\": 100.0",
                "message    Over the limit.",
                "result     [\n",
            ],
        );
        assert_eq!(shown.matches("\n  decided    ").count(), 3, "{shown}");
        let shown = broker.json(&["show", "--json", &token]).await;
        let decided = shown["progress"]["decided"].as_array().expect("decisions");
        let sent = |id: &str, field: &str| {
            let decision = decided.iter().find(|d| d["tool_call_id"] == id).expect(id);
            decision[field].clone()
        };
        assert_eq!(sent("a", "override_args_json"), with);
        assert_eq!(sent("d", "message"), "Over the limit.");
        assert_eq!(sent("e", "return_value_json"), "[1.0]");
        assert!(sent("a", "message").is_null());
    }
    let shown = ok(&broker, &["show", &token]).await;
    tells(&shown, &["t, denied, since nobody decided it"]);
}

#[tokio::test]
async fn a_wait_about_no_calls_says_how_it_is_ended() {
    let broker = Broker::start().await;
    let token = open(&broker, r#"{"approvals": []}"#).await;
    let resolve = "abeyance resolve TOKEN '{}'";
    let shown = ok(&broker, &["show", &token]).await;
    tells(&shown, &["asks about no tool calls", resolve]);
    let commands: [&[&str]; 3] = [
        &["approve", &token],
        &["deny", &token, "x"],
        &["answer", &token, "x", "1"],
    ];
    for arguments in commands {
        let why = refused(&broker, arguments).await;
        tells(&why, &["asks about no tool calls", resolve]);
    }
    assert_eq!(ok(&broker, &["resolve", &token, "{}"]).await, "resolved\n");
    let why = refused(&broker, &["approve", &token]).await;
    tells(&why, &["asks about no tool calls", "has ended"]);
}

#[tokio::test]
async fn a_question_that_is_still_to_come_is_waited_for() {
    let broker = Broker::start().await;
    let client = abeyance::client::Settings::new()
        .connect(&broker.url())
        .expect("an address");
    let later = abeyance::client::OpenOptions::new().question_later();
    let wait = client.wait("n", later).await.expect("open");
    let token = wait.token().expose();
    for arguments in [&["approve", token][..], &["deny", token, "call_1"]] {
        let why = refused(&broker, arguments).await;
        tells(&why, &["has not said yet", "again in a moment"]);
        assert!(!why.contains("resolve"), "{why}");
    }
}

#[tokio::test]
async fn a_wrong_command_line_exits_64() {
    for arguments in [
        &["open", "--name", "n", "--calls", "{}", "--question", "1"][..],
        &["open", "--name", "n", "--calls", "{}", "--form", "true"],
        &["wait", "--name", "n", "--form", "true", "--question", "1"],
        &["open", "--name", "n", "--may-leave-pending"],
        &["open", "--name", "n", "--message", "m"],
        &["open", "--name", "n", "--form", "-", "--payload", "-"],
        &["wait", "--calls", "{}"],
        &["approve"],
        &["approve", "call_1"],
        &["deny", "--token-file", "-", "--override-args", "{}"],
        &["approve", "--token-file", "-", "--override-args", "-"],
        &["answer", "abey_SECRET", "call_1"],
        &["answer", "abey_SECRET", "call_1", "1", "2"],
        &["fail", "abey_SECRET", "once", "--reason", "twice"],
    ] {
        let ran = run(bare(arguments)).await;
        assert_eq!(ran.code, 64, "{arguments:?}: {}", ran.stderr);
        assert!(!ran.stderr.contains("SECRET"), "{}", ran.stderr);
    }
}
