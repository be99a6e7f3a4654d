//! Questions about tool calls and forms: what must not be taken, and that nothing is lost by it.

use std::{
    io::ErrorKind,
    net::TcpListener,
    time::{Duration, Instant},
};

use abeyance::proto::v1::{DeferredToolResults, WaitSpec, wait::State, wait_event::Event};
use tokio::task::JoinSet;
use tonic::Code;

use super::{say::*, stage::Stage};
use crate::{
    harness::TestServer,
    questions::ask::{approval, approved, asking, deferred, denied, external, form, typed, value},
};

const SECOND: Duration = Duration::from_secs(1);

const BOTH: &str = r#"{"approvals":{"a":true},"calls":{"e":{"status":"shipped"}}}"#;

async fn mixed(stage: &Stage) -> String {
    let question = deferred(vec![approval("a"), external("e")]);
    stage.open(asking(question)).await.token
}

#[tokio::test]
async fn c34_an_id_that_stands_there_twice_opens_nothing() {
    let stage = Stage::standing().await;
    let twice = [
        vec![approval("a"), approval("a")],
        vec![approval("a"), external("b"), external("a")],
    ];
    for calls in twice {
        let asked = WaitSpec {
            key: "k".to_owned(),
            ..asking(deferred(calls))
        };
        let refusal = refused(stage.try_open(asked).await);
        let refusal = refusal.assert(Code::InvalidArgument, "INVALID_FIELD");
        assert_eq!(refusal.names(), ["spec.question.deferred.calls"]);
        assert!(refusal.fields[0].1.contains("\"a\""), "{refusal:?}");
    }
    // Nothing stands under the key.
    let asked = WaitSpec {
        key: "k".to_owned(),
        ..asking(deferred(vec![approval("a")]))
    };
    assert!(!stage.open(asked).await.resumed);
}

#[tokio::test]
async fn c35_two_answers_swapped_are_refused_by_both_ids() {
    let stage = Stage::standing().await;
    let token = mixed(&stage).await;
    let swapped = r#"{"approvals":{"e":true},"calls":{"a":{"status":"shipped"}}}"#;
    let refusal = refused(stage.resolve(&token, swapped).await);
    let refusal = refusal.assert(Code::InvalidArgument, "INVALID_ANSWER");
    assert_eq!(refusal.names(), ["approvals[\"e\"]", "calls[\"a\"]"]);
    let swapped = DeferredToolResults {
        approvals: [("e".to_owned(), approved())].into(),
        calls: [("a".to_owned(), value("1"))].into(),
        ..DeferredToolResults::default()
    };
    let refusal = refused(stage.resolver().resolve(typed(&token, swapped)).await);
    assert_eq!(refusal.names(), ["approvals[\"e\"]", "calls[\"a\"]"]);
    stage.assert_pending(&token).await;
    stage.resolve(&token, BOTH).await.expect("is right");
}

#[tokio::test]
async fn c36_every_fault_is_told_and_the_wait_stays_open() {
    let stage = Stage::standing().await;
    let token = mixed(&stage).await;
    let faults: [(&str, &[&str]); 6] = [
        (r#"{"approvals":{"a":true}}"#, &["calls[\"e\"]"]),
        ("{}", &["approvals[\"a\"]", "calls[\"e\"]"]),
        (
            r#"{"calls":{"e":1,"x":1},"approvals":{"a":true}}"#,
            &["calls[\"x\"]"],
        ),
        (
            r#"{"answeredBy":{},"approvals":{"a":"yes"},"metadata":{"e":1,"y":{}},"answered_by":{"a":null},
                "calls":{"e":{"kind":"tool-failed"}}}"#,
            &[
                "answeredBy",
                "approvals[\"a\"]",
                "metadata[\"e\"]",
                "metadata[\"y\"]",
                "answered_by[\"a\"]",
                "calls[\"e\"].message",
            ],
        ),
        (
            r#"{"approvals":{"a":{"kind":"tool-approved","override_args":[],"overrideArgs":{}}},"calls":{"e":1}}"#,
            &[
                "approvals[\"a\"].override_args",
                "approvals[\"a\"].overrideArgs",
            ],
        ),
        ("[]", &["payload_json"]),
    ];
    for (answer, fields) in faults {
        let refusal = refused(stage.resolve(&token, answer).await);
        let refusal = refusal.assert(Code::InvalidArgument, "INVALID_ANSWER");
        assert_eq!(refusal.names(), fields, "{answer}");
        stage.assert_pending(&token).await;
    }
    // One that leaves something out must say so.
    let part = r#"{"approvals":{"a":true}}"#;
    let partial = abeyance::proto::v1::ResolveRequest {
        partial: true,
        ..resolve(&token, part)
    };
    let answered = stage.resolver().resolve(partial).await.expect("says so");
    assert_eq!(answered.into_inner().state(), State::Pending);
    let rest = r#"{"calls":{"e":null}}"#;
    let answered = stage.resolve(&token, rest).await.expect("decides the rest");
    assert_eq!(answered.state(), State::Resolved);
}

#[tokio::test]
async fn c39_no_end_but_an_approval_approves() {
    let stage = Stage::standing().await;
    let open = async || {
        let asked = WaitSpec {
            expiry: timeout(SECOND),
            ..asking(deferred(vec![approval("a")]))
        };
        stage.open(asked).await.token
    };
    let (expiring, failing, refusing) = (open().await, open().await, open().await);
    let cancelled = open().await;
    stage.fail(&failing, "gone").await.expect("fails");
    stage.cancel(&cancelled, "not needed").await.expect("ends");
    let no = DeferredToolResults {
        approvals: [("a".to_owned(), denied("No."))].into(),
        ..DeferredToolResults::default()
    };
    let answered = stage.resolver().resolve(typed(&refusing, no)).await;
    answered.expect("denies");
    stage.clock.advance(2 * SECOND);
    let wanted = [
        (
            &expiring,
            State::Expired,
            "No decision on this tool call arrived: No resolution arrived within 0:00:01.",
        ),
        (
            &failing,
            State::Failed,
            "No decision on this tool call arrived: gone",
        ),
        (
            &cancelled,
            State::Cancelled,
            "No decision on this tool call arrived: not needed",
        ),
        (&refusing, State::Resolved, "No."),
    ];
    for (token, state, message) in wanted {
        let outcome = stage.outcome(token).await;
        assert_eq!(outcome.state(), state);
        let results = outcome.results.expect("results");
        assert_eq!(
            results.approvals,
            [("a".to_owned(), denied(message))].into()
        );
        let json: serde_json::Value = serde_json::from_str(&outcome.results_json).expect("JSON");
        let told = serde_json::json!({"kind": "tool-denied", "message": message});
        assert_eq!(json["approvals"], serde_json::json!({ "a": told }));
    }
}

#[tokio::test]
async fn c43_an_answer_for_one_wait_decides_no_other_by_accident() {
    let stage = Stage::standing().await;
    let a = stage.open(asking(deferred(vec![approval("call_1")])));
    let a = a.await.token;
    let b = stage.open(asking(deferred(vec![approval("call_2")])));
    let b = b.await.token;
    let answer = r#"{"approvals":{"call_1":true}}"#;
    stage.resolve(&a, answer).await.expect("decides");
    let before = stage.describe(&a).await;
    assert!(stage.resolve(&a, answer).await.expect("again").replayed);
    assert_eq!(stage.describe(&a).await, before);
    let refusal = refused(stage.resolve(&b, answer).await);
    let refusal = refusal.assert(Code::InvalidArgument, "INVALID_ANSWER");
    assert_eq!(
        refusal.names(),
        ["approvals[\"call_1\"]", "approvals[\"call_2\"]"]
    );
    stage.assert_pending(&b).await;
}

#[tokio::test]
async fn c63_one_key_twice_is_no_answer() {
    let stage = Stage::standing().await;
    let token = mixed(&stage).await;
    for answer in [
        r#"{"approvals":{"a":false,"a":true},"calls":{"e":1}}"#,
        r#"{"approvals":{"a":false},"approvals":{"a":true},"calls":{"e":1}}"#,
        r#"{"approvals":{"a":false,"\u0061":true},"calls":{"e":1}}"#,
        r#"{"approvals":{"a":true},"calls":{"e":{"x":{"y":1,"\u0079":2}}}}"#,
        r#"{"approvals":{"a":{"kind":"tool-denied","kind":"tool-approved"}},"calls":{"e":1}}"#,
    ] {
        refused(stage.resolve(&token, answer).await).assert(Code::InvalidArgument, "INVALID_JSON");
        stage.assert_pending(&token).await;
    }
    stage.resolve(&token, BOTH).await.expect("is right");
}

#[tokio::test]
async fn c66_schemas_have_an_end_or_are_refused() {
    let stage = Stage::standing().await;
    let nested = |levels: usize| {
        let (open, close) = (r#"{"items":"#.repeat(levels), "}".repeat(levels));
        format!("{open}{{}}{close}")
    };
    let loops = [
        r##"{"$ref":""}"##,
        r##"{"$ref":"#"}"##,
        r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}"##,
        r##"{"$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}},"$ref":"#/$defs/a"}"##,
    ];
    for schema in loops {
        let refusal = refused(stage.try_open(asking(form(schema))).await);
        let refusal = refusal.assert(Code::InvalidArgument, "INVALID_FIELD");
        let at = refusal.names()[0];
        assert!(
            at.starts_with("spec.question.form.response_schema_json"),
            "{refusal:?}"
        );
    }
    let refusal = refused(stage.try_open(asking(form(&nested(5_000)))).await);
    refusal.assert(Code::InvalidArgument, "INVALID_JSON");
    let token = stage.open(asking(form(&nested(120)))).await.token;
    stage.resolve(&token, "[[[[]]]]").await.expect("fits");
    // A tree may be as deep as JSON is.
    let tree = r##"{"type":"array","items":{"$ref":"#"}}"##;
    let token = stage.open(asking(form(tree))).await.token;
    let deep = format!("{}1{}", "[".repeat(127), "]".repeat(127));
    let refusal = refused(stage.resolve(&token, &deep).await);
    refusal.assert(Code::InvalidArgument, "INVALID_ANSWER");
    let refusal = refused(stage.resolve(&token, &"[".repeat(100_000)).await);
    refusal.assert(Code::InvalidArgument, "INVALID_JSON");
    stage.assert_pending(&token).await;
    let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
    stage.resolve(&token, &deep).await.expect("fits");
}

#[tokio::test]
async fn c67_a_schema_is_never_fetched() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("does not block");
    let at = format!("http://{}", listener.local_addr().expect("an address"));
    let stage = Stage::standing().await;
    for schema in [
        format!(r#"{{"$ref":"{at}/a.json"}}"#),
        format!(r#"{{"$id":"{at}/","properties":{{"x":{{"$ref":"a.json"}}}}}}"#),
        format!(r#"{{"$schema":"{at}/draft"}}"#),
        format!(r#"{{"properties":{{"x":{{"$schema":"{at}/draft","$ref":"{at}/a.json#/x"}}}}}}"#),
        r#"{"$ref":"file:///etc/hostname"}"#.to_owned(),
        r#"{"$id":"file:///etc/","items":{"$ref":"hostname"}}"#.to_owned(),
    ] {
        let refusal = refused(stage.try_open(asking(form(&schema))).await);
        let refusal = refusal.assert(Code::InvalidArgument, "INVALID_FIELD");
        let at = refusal.names()[0];
        assert!(
            at.starts_with("spec.question.form.response_schema_json"),
            "{schema}: {refusal:?}"
        );
    }
    let nobody = listener.accept().map(|_| ()).map_err(|e| e.kind());
    assert_eq!(nobody, Err(ErrorKind::WouldBlock));
}

/// Fifty answers at once that a matcher which goes back would take for ever over, and the signs of life of another wait beside them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c68_a_pattern_takes_its_time_and_nobody_elses() {
    const ALIVE: Duration = Duration::from_secs(1);
    let server = TestServer::start_with(crate::harness::Kind::Memory, |config| {
        config.grpc.alive_interval = ALIVE;
    })
    .await;
    let calls = server.calls().await;
    for pattern in [
        r"^((a|a)+)\\1b$",
        "(?=a)b",
        "(?<!a)b",
        "(a{1,1000}){1,1000}",
    ] {
        let schema = format!(r#"{{"type":"string","pattern":"{pattern}"}}"#);
        let refusal = refused(calls.open(asking(form(&schema))).await);
        refusal.assert(Code::InvalidArgument, "INVALID_FIELD");
    }
    let mut other = calls
        .wait(crate::harness::spec("other"))
        .await
        .expect("waits");
    let schema = r#"{"type":"string","pattern":"^(a+)+$"}"#;
    let mut answers = JoinSet::new();
    for n in 0..50 {
        let token = calls.token(asking(form(schema))).await;
        let calls = calls.clone();
        let letters = [60, 1_000, 100_000, 1_000_000][n % 4];
        answers.spawn(async move {
            let bad = format!("\"{}b\"", "a".repeat(letters));
            loop {
                let refusal = refused(calls.resolve(&token, &bad).await);
                // Too many at once is no verdict.
                if !refusal.is(Code::ResourceExhausted, "OVERLOADED") {
                    refusal.assert(Code::InvalidArgument, "INVALID_ANSWER");
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            assert_eq!(calls.state(&token).await, State::Pending);
            let good = format!("\"{}\"", "a".repeat(1_000));
            calls.resolve(&token, &good).await.expect("fits");
        });
    }
    let begun = Instant::now();
    let mut heard = begun;
    while !answers.is_empty() {
        tokio::select! {
            answer = answers.join_next() => answer.expect("one is left").expect("is judged"),
            event = other.event() => {
                assert!(matches!(event, Ok(Some(Event::Alive(_)))), "{event:?}");
                let late = heard.elapsed();
                assert!(late < 2 * ALIVE, "the next sign of life came after {late:?}");
                heard = Instant::now();
            }
        }
    }
}
