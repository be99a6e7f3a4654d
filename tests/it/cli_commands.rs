//! The other commands: what they print, and what they exit with.

use std::{process::Stdio, time::Duration};

use tokio::io::{AsyncBufReadExt, BufReader};

use crate::cli_harness::{Broker, bare, run, run_with_stdin};

#[tokio::test]
async fn a_wrong_command_line_exits_64_and_shows_no_argument_that_may_be_a_token() {
    for arguments in [
        &[][..],
        &["nope"],
        &["open"],
        &["open", "--name", "n", "--timeout", "soon"],
        &["open", "--name", "n", "--label", "novalue"],
        &["wait"],
        &["wait", "--timeout", "1s"],
        &["wait", "--name", "n", "--token", "abey_SECRET"],
        &["resolve", "abey_SECRET"],
        &["resolve", "1"],
        &["resolve", "aby_SECRET", "1"],
        &["resolve", "abey_SECRET", "1", "2"],
        &["resolve", "--token-file", "-", "-"],
        &["fail", "abey_SECRET"],
        &["cancel"],
        &["show", "SECRET"],
        &["list", "--state", "lost"],
        &["list", "--server", "https://127.0.0.1:1"],
        &["list", "--server", "127.0.0.1"],
        &["serve", "--listen", "nowhere"],
    ] {
        let ran = run(bare(arguments)).await;
        assert_eq!(ran.code, 64, "{arguments:?}: {}", ran.stderr);
        assert_eq!(ran.stdout, "", "{arguments:?}");
        assert!(!ran.stderr.is_empty(), "{arguments:?}");
        if arguments.len() != 4 {
            assert!(
                !ran.stderr.contains("SECRET"),
                "{arguments:?}: {}",
                ran.stderr
            );
        }
    }
    for arguments in [&["--help"][..], &["wait", "--help"], &["--version"]] {
        let ran = run(bare(arguments)).await;
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{arguments:?}");
        assert!(ran.stdout.contains("abeyance"), "{arguments:?}");
    }
}

#[tokio::test]
async fn a_broker_is_named_as_it_names_itself() {
    let broker = Broker::start().await;
    let url = broker.url();
    let address = url.strip_prefix("http://").expect("a URL");
    let ran = run(bare(&["list", "--server", address])).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

#[tokio::test]
async fn a_broker_that_cannot_be_reached_exits_69() {
    // Bound and not listened on by anybody who accepts: connections are refused once it is gone.
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address").port()
    };
    let server = format!("http://127.0.0.1:{port}");
    for arguments in [
        &["open", "--name", "n"][..],
        &["wait", "--name", "n"],
        &["resolve", "abey_x", "1"],
        &["fail", "abey_x", "r"],
        &["heartbeat", "abey_x"],
        &["cancel", "abey_x"],
        &["show", "abey_x"],
        &["list"],
        &["watch"],
    ] {
        let mut command = bare(arguments);
        command.args(["--server", &server, "--connect-timeout", "100ms"]);
        let ran = run(command).await;
        assert_eq!(ran.code, 69, "{arguments:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(&server),
            "{arguments:?}: {}",
            ran.stderr
        );
        assert!(ran.stderr.contains("abeyance serve"), "{arguments:?}");
        assert_eq!(ran.stdout, "");
    }
}

#[tokio::test]
async fn a_token_comes_from_the_argument_the_file_stdin_or_the_environment() {
    let broker = Broker::start().await;
    let (token, id) = broker.open(&["--name", "n"]).await;
    let path = broker.path("token");
    std::fs::write(&path, format!("{token}\n")).expect("writable");
    let replayed = |stdout: &str| {
        let settled: serde_json::Value = serde_json::from_str(stdout).expect("JSON");
        assert_eq!(settled["wait_id"], id.as_str());
        settled["replayed"].as_bool().expect("a flag")
    };

    let ran = broker.run(&["resolve", "--json", &token, "[1]"]).await;
    assert!(!replayed(&ran.stdout));
    let answer = broker.path("answer");
    std::fs::write(&answer, "[1]").expect("writable");
    let at_answer = format!("@{answer}");
    let ran = broker
        .run(&["resolve", "--json", "--token-file", &path, &at_answer])
        .await;
    assert!(replayed(&ran.stdout), "{}", ran.stderr);

    let command = broker.command(&["resolve", "--json", "--token-file", "-", "[1]"]);
    assert!(replayed(&run_with_stdin(command, &token).await.stdout));
    let command = broker.command(&["resolve", "--json", &token, "-"]);
    assert!(replayed(&run_with_stdin(command, "[1]").await.stdout));
    let mut command = broker.command(&["resolve", "--json", "[1]"]);
    command.env("ABEYANCE_TOKEN", &token);
    assert!(replayed(&run(command).await.stdout));

    // The argument counts before the environment.
    let mut command = broker.command(&["resolve", "--json", &token, "[1]"]);
    command.env("ABEYANCE_TOKEN", "abey_another");
    assert!(replayed(&run(command).await.stdout));
    let ran = broker
        .run(&["show", "--token-file", "/nowhere/at/all"])
        .await;
    assert_eq!(ran.code, 66, "{}", ran.stderr);
}

#[tokio::test]
async fn what_the_broker_refuses_exits_65_and_says_why() {
    let broker = Broker::start().await;
    let (token, _) = broker.open(&["--name", "n"]).await;

    let ran = broker.run(&["resolve", &token, "yes"]).await;
    assert_eq!(ran.code, 65);
    assert!(ran.stderr.contains("the answer: "), "{}", ran.stderr);
    assert!(ran.stderr.contains(r#"write '"yes"'"#), "{}", ran.stderr);
    let ran = broker.run(&["resolve", &token, "{\"a\":}"]).await;
    assert_eq!(ran.code, 65);
    assert!(ran.stderr.contains("line 1"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("hint"), "{}", ran.stderr);

    // Nothing of that was an answer.
    assert_eq!(
        broker.run(&["resolve", &token, "-5"]).await.stdout,
        "resolved\n"
    );
    let ran = broker.run(&["resolve", &token, "6"]).await;
    assert_eq!(ran.code, 65);
    assert!(ran.stderr.contains("ALREADY_SETTLED"), "{}", ran.stderr);
    let ran = broker.run(&["heartbeat", &token]).await;
    assert_eq!(ran.code, 65);

    let ran = broker.run(&["show", "abey_never-given-out"]).await;
    assert_eq!(ran.code, 65);
    assert!(ran.stderr.contains("TOKEN_UNKNOWN"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("never-given"), "{}", ran.stderr);
}

#[tokio::test]
async fn what_is_wrong_with_an_open_is_told_by_its_flag() {
    let broker = Broker::start().await;
    let calls = r#"{"approvals": [{"tool_call_id": "a"}]}"#;
    let form = r#"{"type": "nonsense"}"#;
    let cases: [(&[&str], &str); 6] = [
        (&["--calls", calls], "--calls: approvals[0].tool_name"),
        (&["--calls", "[]"], "--calls: must be"),
        (&["--form", form], "--form"),
        (&["--form", "true", "--payload", "{"], "--payload: "),
        (&["--question", "ship it?"], r#"write '"ship it?"'"#),
        (
            &["--form", "true", "--payload", "ship it?"],
            r#"write '"ship it?"'"#,
        ),
    ];
    for (arguments, told) in cases {
        for command in ["open", "wait"] {
            let arguments = [&[command, "--name", "n"][..], arguments].concat();
            let ran = broker.run(&arguments).await;
            assert_eq!((ran.code, ran.stdout.as_str()), (65, ""), "{}", ran.stderr);
            assert!(ran.stderr.contains(told), "{told}:\n{}", ran.stderr);
            for field in ["_json", "spec."] {
                assert!(!ran.stderr.contains(field), "{}", ran.stderr);
            }
        }
    }
}

#[tokio::test]
async fn open_prints_the_token_and_marks_the_wait_asked() {
    let broker = Broker::start().await;
    let open = [
        "open",
        "--json",
        "--name",
        "n",
        "--key",
        "k",
        "--timeout",
        "2d",
    ];
    let first = broker.json(&open).await;
    assert_eq!(
        (&first["resumed"], &first["asked"]),
        (&false.into(), &false.into())
    );
    assert_eq!(first["timeout_seconds"], 172_800.0);
    let again = broker.json(&open).await;
    assert_eq!(
        (&again["resumed"], &again["asked"]),
        (&true.into(), &true.into())
    );
    assert_eq!(first["token"], again["token"]);

    let token = first["token"].as_str().expect("a token");
    assert_eq!(broker.run(&["resolve", token, "null"]).await.code, 0);
    let settled = broker.json(&open).await;
    assert_eq!(settled["outcome"]["payload_json"], "null");
    let text = broker
        .run(&["open", "--name", "n", "--key", "k"])
        .await
        .stdout;
    assert!(
        text.contains(token) && text.contains("state    resolved"),
        "{text}"
    );
    let conflict = broker.run(&["open", "--name", "other", "--key", "k"]).await;
    assert_eq!(conflict.code, 65);
    assert!(
        conflict.stderr.contains("KEY_CONFLICT"),
        "{}",
        conflict.stderr
    );
}

#[tokio::test]
async fn lists_and_shows_tell_everything_but_the_token() {
    let broker = Broker::start().await;
    let mut tokens = Vec::new();
    for n in 0..3 {
        let (name, label) = (format!("name-{n}"), format!("n={n}"));
        let (token, _) = broker
            .open(&[
                "--name",
                &name,
                "--label",
                &label,
                "--label",
                "all=yes",
                "--question",
                "{\"q\":1}",
            ])
            .await;
        tokens.push(token);
    }
    assert_eq!(
        broker.run(&["fail", &tokens[0], "no"]).await.stdout,
        "failed\n"
    );

    let list = broker.run(&["list"]).await;
    let lines: Vec<_> = list.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{}", list.stdout);
    assert!(lines[0].starts_with("WAIT ID"), "{}", lines[0]);
    assert!(
        lines[1].contains("name-2") && lines[3].contains("name-0"),
        "newest first"
    );
    assert!(lines[3].contains("failed"), "{}", lines[3]);
    let column = lines[0].find("STATE").expect("a column");
    assert!(lines[1..].iter().all(|l| l[column - 1..].starts_with(' ')));

    let pending = broker.run(&["list", "--json", "--state", "pending"]).await;
    assert_eq!(pending.stdout.lines().count(), 2);
    let one = broker
        .json(&["list", "--json", "--label", "n=1", "--name", "name-1"])
        .await;
    assert_eq!(one["labels"]["all"], "yes");
    let short = broker.run(&["list", "--limit", "1"]).await;
    assert_eq!(short.stdout.lines().count(), 2);
    assert!(short.stderr.contains("more than 1"), "{}", short.stderr);
    let none = broker.run(&["list", "--name", "nobody"]).await;
    assert_eq!((none.code, none.stdout.as_str()), (0, ""));

    let show = broker.run(&["show", &tokens[0]]).await.stdout;
    for told in ["name-0", "failed: no", "{\"q\":1}", "n=0", "ended"] {
        assert!(show.contains(told), "{told} is missing:\n{show}");
    }
    let id = one["wait_id"].as_str().expect("an id");
    assert_eq!(
        broker.json(&["show", "--json", id]).await["question_json"],
        "{\"q\":1}"
    );
    for text in [&list.stdout, &pending.stdout, &show] {
        assert!(!text.contains("abey_"), "a token was shown: {text}");
    }
}

#[tokio::test]
async fn a_heartbeat_says_until_when_it_holds() {
    let broker = Broker::start().await;
    let (token, _) = broker
        .open(&["--name", "n", "--heartbeat-timeout", "1h"])
        .await;
    let text = broker.run(&["heartbeat", &token]).await.stdout;
    assert!(
        text.starts_with("alive until ") && text.contains("in 59m"),
        "{text}"
    );
    let (token, _) = broker.open(&["--name", "n"]).await;
    let alive = broker.json(&["heartbeat", "--json", &token]).await;
    assert!(alive["heartbeat_expire_time"].is_null());
}

#[tokio::test]
async fn a_watch_tells_what_is_pending_and_then_each_change_even_over_a_restart() {
    let mut broker = Broker::start().await;
    let (first, first_id) = broker.open(&["--name", "first"]).await;
    let mut watch = broker
        .command(&["watch", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("piped")).lines();
    let mut said = BufReader::new(watch.stderr.take().expect("piped")).lines();
    let mut next = async || {
        let line = tokio::time::timeout(Duration::from_secs(60), lines.next_line());
        let line = line
            .await
            .expect("in time")
            .expect("readable")
            .expect("open");
        let wait: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let text = |field: &str| wait[field].as_str().expect(field).to_owned();
        (text("wait_id"), text("state"))
    };
    assert_eq!(next().await, (first_id.clone(), "pending".to_owned()));
    let said = said.next_line().await.expect("readable");
    assert_eq!(said.as_deref(), Some("synced, 1 now; changes follow"));

    broker.kill_and_restart().await;
    assert_eq!(broker.run(&["resolve", &first, "1"]).await.code, 0);
    assert_eq!(next().await, (first_id, "resolved".to_owned()));

    let (second, second_id) = broker.open(&["--name", "second"]).await;
    assert_eq!(next().await, (second_id.clone(), "pending".to_owned()));
    assert_eq!(broker.run(&["cancel", &second]).await.code, 0);
    // Opened and asked may be told as one or as two.
    let mut told = next().await;
    while told.1 == "pending" {
        assert_eq!(told.0, second_id);
        told = next().await;
    }
    assert_eq!(told, (second_id, "cancelled".to_owned()));
}

#[tokio::test]
async fn a_reader_that_leaves_is_no_failure_of_a_list() {
    let broker = Broker::start().await;
    broker.open(&["--name", "n"]).await;
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = broker.command(&["list"]);
    let output = command.stdout(writer).stderr(Stdio::piped()).output();
    let output = output.await.expect("it runs");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
