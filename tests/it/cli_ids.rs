//! Ids of calls and tokens: what is shown and pasted means what it says, however an id looks, and a token comes back nowhere.

use serde_json::json;

use crate::{
    cli_approvals::{APPROVALS, CALLS, ok, open, refused, tells},
    cli_harness::{BINARY, Broker, Ran, run},
};

/// Runs the only command in a page that ends so, as a shell does that it is pasted into.
async fn paste(broker: &Broker, shown: &str, command: &str, token: &str, environment: bool) -> Ran {
    let lines = shown
        .lines()
        .filter_map(|line| line.find(command).map(|at| &line[at..]));
    let [line] = lines.collect::<Vec<_>>()[..] else {
        panic!("{command:?} is not there once:\n{shown}");
    };
    let line = line.replace("TOKEN", "\"$T\"").replace("TEXT", "text");
    let line = line.replacen("abeyance", BINARY, 1);
    let mut shell = tokio::process::Command::new("bash");
    // The locale must not matter.
    shell.args(["-c", &line]).env("LC_ALL", "C").env("T", token);
    shell.env("ABEYANCE_SERVER", broker.url());
    if environment {
        shell.env("ABEYANCE_TOKEN", token);
    }
    run(shell).await
}

#[tokio::test]
async fn a_pasted_command_decides_the_call_beside_which_it_stands() {
    let broker = Broker::start().await;
    let ids = [
        "\u{202e}x",
        "\\u{202e}x",
        "\"\\u{202e}x\"",
        "\u{200b}x",
        "x",
        "\u{e9}",
        "e\u{301}",
        "a",
        "a ",
        " a",
        "a b",
        "it's!",
        "-x",
        "-x y",
        "--by",
        "-\u{202e}",
        "$(id)`id`\\",
        "abey_1",
    ];
    let calls: Vec<_> = (ids.iter())
        .map(|id| json!({"tool_call_id": id, "tool_name": "t"}))
        .collect();
    let token = open(&broker, &json!({"approvals": calls}).to_string()).await;
    for (at, id) in ids.iter().enumerate() {
        // By the token as an argument, and by the environment.
        let environment = at % 2 == 1;
        let mut command = broker.command(&["show", "--full"]);
        match environment {
            true => command.env("ABEYANCE_TOKEN", &token),
            false => command.arg(&token),
        };
        let shown = run(command).await.stdout;
        let part = format!("call {} of {}:", at + 1, ids.len());
        let part = &shown[shown.find(&part).expect("a part")..];
        let part = part.split("\n\n").next().expect("a part");
        assert!(part.is_ascii(), "{part}");
        let ran = paste(&broker, part, "abeyance approve", &token, environment).await;
        assert_eq!(ran.code, 0, "{part}\n{}", ran.stderr);
        let shown = broker.json(&["show", "--json", &token]).await;
        let decided = shown["progress"]["decided"].as_array().expect("decisions");
        assert_eq!(decided.len(), at + 1);
        assert_eq!(decided[at]["tool_call_id"], *id, "{part}");
    }
}

#[tokio::test]
async fn an_id_that_begins_as_a_token_does_is_told_from_one() {
    let broker = Broker::start().await;
    let whole = format!("abey_{}", "A".repeat(44));
    let calls: Vec<_> = ["abey_1", "abey_2", &whole]
        .iter()
        .map(|id| json!({"tool_call_id": id, "tool_name": "t"}))
        .collect();
    let token = open(&broker, &json!({"approvals": calls}).to_string()).await;
    let path = broker.path("token");
    std::fs::write(&path, &token).expect("writable");

    let mut command = broker.command(&["approve", "abey_1"]);
    command.env("ABEYANCE_TOKEN", &token);
    let ran = run(command).await;
    assert!(ran.stdout.starts_with("approved abey_1;"), "{}", ran.stderr);
    let by_file = ok(&broker, &["approve", "--token-file", &path, "abey_2"]).await;
    assert!(by_file.starts_with("approved abey_2;"), "{by_file}");
    let ran = broker.run(&["deny", "--token-file", &path, &whole]).await;
    assert_eq!(ran.code, 64, "{}", ran.stderr);
    tells(&ran.stderr, &["the form of one", "before it"]);

    let mut command = broker.command(&["deny", &whole]);
    command.env("ABEYANCE_TOKEN", &token);
    let ran = run(command).await;
    assert_eq!(ran.code, 65, "{}", ran.stderr);
    tells(&ran.stderr, &["was taken for the token", "before it"]);

    let shown = ok(&broker, &["show", "--token-file", &path]).await;
    tells(&shown, &[&format!("abeyance approve TOKEN {whole}\n")]);
    let by_argument = ok(&broker, &["approve", &token, &whole]).await;
    tells(&by_argument, &["3 of 3 decided, resolved"]);
}

#[tokio::test]
async fn a_token_in_the_wrong_place_does_not_come_back() {
    let broker = Broker::start().await;
    let token = open(&broker, APPROVALS).await;
    let mut wait = broker.wait(&["--token", &token]);
    wait.says("expires").await;
    ok(&broker, &["approve", &token, "call_1", "--by", &token]).await;
    let after = wait.says("call_1 approved by ").await;
    assert!(after.starts_with("abey_…;"), "{after}");
    let why = broker.run(&["deny", &token, "call_1"]).await.stderr;
    tells(&why, &["was approved by abey_…"]);
    assert!(!why.contains(&token), "{why}");
    let bad = format!(r#"{{"approvals": {{"{token}": true}}}}"#);
    let why = broker.run(&["resolve", &token, &bad]).await.stderr;
    tells(
        &why,
        &["approvals[\"abey_…\"]", "`abeyance show TOKEN` lists"],
    );
    assert!(!why.contains(&token), "{why}");
    ok(&broker, &["fail", &token, "--reason", &token]).await;
    let ran = wait.end().await;
    assert_eq!(ran.code, 3);
    assert!(!ran.stderr.contains(&token), "{}", ran.stderr);
}

#[tokio::test]
async fn hints_name_the_token_as_it_was_given() {
    let broker = Broker::start().await;
    let token = open(&broker, CALLS).await;
    let path = broker.path("token");
    std::fs::write(&path, &token).expect("writable");
    let by_file = ["approve", "--token-file", &path, "call_2"];
    let told = format!("abeyance answer --token-file {path} call_2 JSON");
    tells(&refused(&broker, &by_file).await, &[&told]);
    let mut command = broker.command(&["approve", "call_2"]);
    command.env("ABEYANCE_TOKEN", &token);
    let why = run(command).await.stderr;
    tells(&why, &["hint: abeyance answer call_2 JSON, or "]);
    let (token, _) = broker.open(&["--name", "n", "--question", "1"]).await;
    std::fs::write(&path, &token).expect("writable");
    let told = format!("`abeyance resolve --token-file {path} JSON`");
    let by_file = ["approve", "--token-file", &path];
    tells(&refused(&broker, &by_file).await, &[&told]);
}
