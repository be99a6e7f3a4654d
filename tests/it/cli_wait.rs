//! `abeyance wait`: the answer and nothing else on stdout, an exit code for each end, and what cannot end it.

use rustix::process::Signal;

use crate::cli_harness::{BINARY, Broker, Waiting, file};

#[tokio::test]
async fn the_answer_goes_to_stdout_byte_for_byte_and_nothing_else_does() {
    let broker = Broker::start().await;
    let mut wait = broker.wait(&["--name", "n", "--question", "{\"q\": 1}"]);
    let token = wait.token().await;
    let answer = "{ \"n\": 9007199254740993,\n \"x\": 1.0, \"ü\": \"\\u00fc\" }\n";
    assert_eq!(broker.run(&["resolve", &token, answer]).await.code, 0);
    let ran = wait.end().await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, answer));
}

#[tokio::test]
async fn each_other_end_has_a_code_of_its_own_and_says_why() {
    let broker = Broker::start().await;

    let mut wait = broker.wait(&["--name", "n"]);
    let token = wait.token().await;
    let fail = [
        "fail",
        &token,
        "no budget",
        "--type",
        "Denied",
        "--details",
        "{\"left\":0}",
    ];
    assert_eq!(broker.run(&fail).await.code, 0);
    let ran = wait.end().await;
    assert_eq!((ran.code, ran.stdout.as_str()), (3, ""));
    assert!(
        ran.stderr.contains("failed (Denied): no budget"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("details: {\"left\":0}"),
        "{}",
        ran.stderr
    );

    let ran = broker
        .wait(&["--name", "n", "--timeout", "100ms"])
        .end()
        .await;
    assert_eq!((ran.code, ran.stdout.as_str()), (4, ""));
    let reason = "expired: No resolution arrived within 0:00:00.100000.";
    assert!(ran.stderr.contains(reason), "{}", ran.stderr);

    let mut wait = broker.wait(&["--name", "n"]);
    let token = wait.token().await;
    let cancelled = broker
        .run(&["cancel", &token, "--reason", "too late"])
        .await;
    assert_eq!(cancelled.stdout, "cancelled: too late\n");
    let ran = wait.end().await;
    assert_eq!((ran.code, ran.stdout.as_str()), (5, ""));
    assert!(ran.stderr.contains("cancelled: too late"), "{}", ran.stderr);
}

#[tokio::test]
async fn a_killed_broker_does_not_end_a_wait() {
    let mut broker = Broker::start().await;
    let mut wait = broker.wait(&["--name", "n", "--ask", "echo asked"]);
    wait.says("asked").await;
    let list = broker.json(&["list", "--json"]).await;
    let id = list["wait_id"].as_str().expect("an id").to_owned();
    broker.kill_and_restart().await;
    assert_eq!(broker.state(&id).await, "pending");
    broker.kill_and_restart().await;

    let mut second = broker.wait(&["--name", "m"]);
    let token = second.token().await;
    broker.kill_and_restart().await;
    assert_eq!(broker.run(&["resolve", &token, "[]"]).await.code, 0);
    let ran = second.end().await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "[]"));
}

#[tokio::test]
async fn what_an_ask_prints_is_for_people_and_the_wait_is_marked_asked() {
    let broker = Broker::start().await;
    let path = broker.path("token");
    let ask = format!("echo a receipt; echo on stderr >&2; echo $ABEYANCE_TOKEN > {path}");
    let mut wait = broker.wait(&["--name", "n", "--ask", &ask]);
    wait.says("a receipt").await;
    wait.says("on stderr").await;
    let token = file(&path).await;
    assert!(token.starts_with("abey_"));
    assert_eq!(broker.run(&["resolve", &token, "1"]).await.code, 0);
    let ran = wait.end().await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "1"));
    assert!(
        !ran.stderr.contains("abey_"),
        "the token was shown: {}",
        ran.stderr
    );
}

#[tokio::test]
async fn a_command_that_answers_itself_is_an_answer_in_place() {
    let broker = Broker::start().await;
    let ask = format!("{BINARY} resolve '\"yes\"' && echo had the last word");
    let ran = broker.wait(&["--name", "n", "--ask", &ask]).end().await;
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (0, "\"yes\""),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("resolved"), "{}", ran.stderr);
}

#[tokio::test]
async fn an_outcome_ends_the_ask_with_everything_it_started() {
    let broker = Broker::start().await;
    let (token, child) = (broker.path("token"), broker.path("child"));
    // A shell that does not mind SIGTERM, and a child of it.
    let ask = format!(
        "trap '' TERM; echo $ABEYANCE_TOKEN > {token}; sleep 1000 & echo $! > {child}; wait; sleep 1000"
    );
    let wait = broker.wait(&["--name", "n", "--ask", &ask]);
    let (token, child) = (file(&token).await, file(&child).await);
    assert_eq!(broker.run(&["resolve", &token, "1"]).await.code, 0);
    let ran = wait.end().await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "1"));
    // Killed, and perhaps not collected yet by whoever collects orphans.
    let state = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
    let gone = state.is_empty() || state.contains(") Z ");
    assert!(gone, "a child of the ask lives on: {state}");
}

#[tokio::test]
async fn a_failed_ask_cancels_a_wait_without_a_key() {
    let broker = Broker::start().await;
    let path = broker.path("id");
    let ask = format!("echo $ABEYANCE_WAIT_ID > {path}; exit 7");
    let ran = broker.wait(&["--name", "n", "--ask", &ask]).end().await;
    assert_eq!((ran.code, ran.stdout.as_str()), (70, ""));
    assert!(ran.stderr.contains("exit status: 7"), "{}", ran.stderr);
    assert_eq!(broker.state(&file(&path).await).await, "cancelled");
}

#[tokio::test]
async fn a_failed_ask_leaves_a_wait_with_a_key_to_be_asked_again() {
    let broker = Broker::start().await;
    let path = broker.path("token");
    let keyed = ["--name", "n", "--key", "k", "--ask"];
    let ran = broker.wait(&[&keyed[..], &["exit 1"]].concat()).end().await;
    assert_eq!(ran.code, 70);
    assert!(
        ran.stderr.contains("stays open and not asked"),
        "{}",
        ran.stderr
    );

    let ask = format!("echo $ABEYANCE_TOKEN > {path}");
    let wait = broker.wait(&[&keyed[..], &[&ask]].concat());
    let token = file(&path).await;
    assert_eq!(broker.run(&["resolve", &token, "1"]).await.code, 0);
    assert_eq!(wait.end().await.stdout, "1");
}

#[tokio::test]
async fn c42_ctrl_c_leaves_a_wait_with_a_key_and_nobody_is_asked_again() {
    let broker = Broker::start().await;
    let keyed = ["--name", "n", "--key", "it's mine"];
    let mut wait = broker.wait(&keyed);
    let token = wait.token().await;
    wait.says("expires").await;
    // The token is out; the mark follows it.
    while broker.json(&["show", "--json", &token]).await["ask_time"].is_null() {}
    wait.signal(Signal::INT);
    let ran = wait.end().await;
    assert_eq!((ran.code, ran.stdout.as_str()), (130, ""));
    let again = format!(
        "abeyance wait --server {} --key 'it'\\''s mine'",
        broker.url()
    );
    assert!(ran.stderr.contains(&again), "{}", ran.stderr);
    assert_eq!(broker.state(&token).await, "pending");

    let again = broker.wait(&[&keyed[..], &["--ask", "echo asked twice"]].concat());
    assert_eq!(broker.run(&["resolve", &token, "1"]).await.code, 0);
    let ran = again.end().await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "1"));
    assert!(!ran.stderr.contains("asked twice"), "{}", ran.stderr);

    // And the outcome is there for whoever comes by key alone.
    let ran = broker.wait(&["--key", "it's mine"]).end().await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "1"));
}

#[tokio::test]
async fn a_wait_that_was_asked_before_says_so_and_how_it_is_answered() {
    let broker = Broker::start().await;
    let asked: [(&[&str], &str); 3] = [
        (&[], "answer   abeyance resolve --server URL TOKEN JSON"),
        (
            &[
                "--calls",
                r#"{"approvals": [{"tool_call_id": "a", "tool_name": "t"}]}"#,
            ],
            "decide   abeyance show --server URL TOKEN, then abeyance approve, deny or answer",
        ),
        (
            &["--form", "true"],
            "answer   abeyance resolve --server URL TOKEN JSON; first abeyance show --server URL TOKEN",
        ),
    ];
    for (at, (question, hint)) in asked.into_iter().enumerate() {
        let key = format!("key-{at}");
        let open = [&["--name", "n", "--key", &key][..], question].concat();
        let hint = hint.replace("URL", &broker.url());
        let mut first = broker.wait(&open);
        let token = first.token().await;
        first.says(&hint).await;
        while broker.json(&["show", "--json", &token]).await["ask_time"].is_null() {}

        let mut again = broker.wait(&open);
        assert_eq!(again.token().await, token);
        let id = again.says("wait id ").await;
        again.says("expires ").await;
        let told = again.says("asked ").await;
        assert!(told.starts_with("already, "), "{told}");
        assert!(told.ends_with("; attached again"), "{told}");
        again.says(&hint).await;

        let path = broker.path("token");
        std::fs::write(&path, &token).expect("writable");
        let others: [&[&str]; 3] = [
            &[&open[..], &["--ask", "true"]].concat(),
            &["--key", &key],
            &["--token-file", &path],
        ];
        for arguments in others {
            let mut wait = broker.wait(arguments);
            assert_eq!(wait.says("wait id ").await, id);
            wait.says("asked    already, ").await;
            wait.signal(Signal::TERM);
            let ran = wait.end().await;
            assert_eq!(ran.code, 143);
            assert!(!ran.stderr.contains("abey_"), "{}", ran.stderr);
        }
    }
}

#[tokio::test]
async fn ctrl_c_cancels_a_wait_without_a_key() {
    let broker = Broker::start().await;
    let mut wait = broker.wait(&["--name", "n"]);
    let token = wait.token().await;
    wait.signal(Signal::INT);
    let ran = wait.end().await;
    assert_eq!((ran.code, ran.stdout.as_str()), (5, ""), "{}", ran.stderr);
    assert_eq!(broker.state(&token).await, "cancelled");
}

#[tokio::test]
async fn sigterm_ends_the_ask_and_leaves_a_wait_with_a_key_not_asked() {
    let broker = Broker::start().await;
    let path = broker.path("token");
    let ask = format!("echo $ABEYANCE_TOKEN > {path}; sleep 1000");
    let wait = broker.wait(&["--name", "n", "--key", "k", "--ask", &ask]);
    let token = file(&path).await;
    wait.signal(Signal::TERM);
    assert_eq!(wait.end().await.code, 143);
    let shown = broker.json(&["show", "--json", &token]).await;
    assert_eq!(shown["state"], "pending");
    assert!(shown["ask_time"].is_null(), "{shown}");
}

#[tokio::test]
async fn somebody_elses_wait_is_attached_to_by_token_and_never_cancelled() {
    let broker = Broker::start().await;
    let (token, _) = broker.open(&["--name", "n"]).await;
    let path = broker.path("token");
    std::fs::write(&path, format!("{token}\n")).expect("writable");

    let by_flag = broker.wait(&["--token", &token]);
    let by_file = broker.wait(&["--token-file", &path]);
    let mut command = broker.command(&["wait"]);
    command.env("ABEYANCE_TOKEN", &token);
    let by_environment = Waiting::start(command);
    // It may be interrupted before it is attached: either way the wait goes on.
    by_flag.listens().await;
    by_flag.signal(Signal::INT);
    let ran = by_flag.end().await;
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    assert_eq!(broker.state(&token).await, "pending");

    assert_eq!(broker.run(&["resolve", &token, "1"]).await.code, 0);
    for wait in [by_file, by_environment] {
        let ran = wait.end().await;
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "1"));
        assert!(!ran.stderr.contains("abey_"), "{}", ran.stderr);
    }
}
