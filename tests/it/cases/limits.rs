//! What callers may send, at each limit and just beyond it. What is refused is named and leaves nothing behind.

use std::sync::Arc;

use abeyance::proto::v1::{self, ResolveRequest, WaitSpec, outcome::Result as Ended};
use tonic::Code;

use super::{
    say::*,
    stage::{Setup, Stage, TestClock},
    stores::Front,
};

async fn counted() -> (Stage, Arc<Front>) {
    let setup = Setup::memory(TestClock::standing());
    let front = Front::new(setup.store.clone());
    (setup.wrap(|_| front.clone()).start().await, front)
}

/// Text of so many characters, two bytes each.
fn long(characters: usize) -> String {
    "é".repeat(characters)
}

/// JSON of exactly so many bytes.
fn json(bytes: usize) -> String {
    format!("\"{}\"", "x".repeat(bytes - 2))
}

const MIB: usize = 1 << 20;

/// A spec with a change.
fn with(change: impl FnOnce(&mut WaitSpec)) -> WaitSpec {
    let mut spec = spec("approve");
    change(&mut spec);
    spec
}

/// What a spec may hold: the field, the largest that is taken, the smallest that is not.
fn specs() -> Vec<(&'static str, WaitSpec, WaitSpec)> {
    let name = |n| with(|s| s.name = long(n));
    let key = |n| with(|s| s.key = long(n));
    let namespace = |text: &str| with(|s| s.namespace = text.to_owned());
    let label = |k: &str, n| with(|s| s.labels = [(k.to_owned(), long(n))].into());
    let count = |count: usize| {
        with(|s| s.labels = (0..count).map(|n| (n.to_string(), String::new())).collect())
    };
    let question = |n| with(|s| s.question = free(&json(n)));
    let (most, beyond) = ("a".repeat(64), "a".repeat(65));
    vec![
        ("spec.name", name(256), name(257)),
        ("spec.name", name(1), name(0)),
        ("spec.key", key(512), key(513)),
        ("spec.namespace", namespace(&most), namespace(&beyond)),
        ("spec.namespace", namespace("9-_.z"), namespace("-a")),
        ("spec.namespace", namespace(""), namespace("Team")),
        ("spec.labels", count(64), count(65)),
        ("spec.labels[\"a\"]", label("a", 256), label("a", 257)),
        ("spec.labels[\"\"]", label("a", 0), label("", 0)),
        ("spec.question.free_json", question(MIB), question(MIB + 1)),
    ]
}

#[tokio::test]
async fn a_spec_is_taken_up_to_each_limit_and_refused_beyond_it_by_name() {
    let (stage, front) = counted().await;
    for (field, taken, beyond) in specs() {
        let opened = stage.open(taken.clone()).await;
        let found = stage.describe(&opened.token).await;
        assert_eq!(
            (&found.name, &found.key, &found.labels),
            (&taken.name, &taken.key, &taken.labels)
        );
        assert_eq!(found.question, taken.question);
        let before = front.calls();
        for refusal in [
            refused(stage.try_open(beyond.clone()).await),
            refused(stage.wait(wait(beyond.clone())).await.map(|_| ())),
        ] {
            let refusal = refusal.assert(Code::InvalidArgument, "INVALID_FIELD");
            assert_eq!(refusal.names(), [field]);
        }
        assert_eq!(
            front.calls(),
            before,
            "{field} beyond its limit reached the store"
        );
    }
    let label = |n| WaitSpec {
        labels: [(long(n), String::new())].into(),
        ..spec("approve")
    };
    stage.open(label(63)).await;
    let refusal = refused(stage.try_open(label(64)).await);
    assert!(
        refusal.names()[0].starts_with("spec.labels["),
        "{refusal:?}"
    );
    assert!(refusal.fields[0].1.contains("64 characters"), "{refusal:?}");
}

/// An answer of so many bytes, under an id.
fn answer(token: &str, bytes: usize, request_id: &str) -> ResolveRequest {
    ResolveRequest {
        request_id: request_id.to_owned(),
        ..resolve(token, &json(bytes))
    }
}

/// A failure with a change.
fn failure(token: &str, change: fn(&mut v1::FailRequest)) -> v1::FailRequest {
    let mut request = fail(token, "no");
    change(&mut request);
    request
}

#[tokio::test]
async fn an_answer_beyond_a_limit_is_refused_by_name() {
    let (stage, front) = counted().await;
    let token = stage.open(spec("approve")).await.token;
    let before = front.calls();
    for (request, field) in [
        (answer(&token, MIB + 1, ""), "payload_json"),
        (answer(&token, 2, &long(129)), "request_id"),
        (answer(&token, 2, "a\nb"), "request_id"),
    ] {
        let refusal = refused(stage.resolver().resolve(request).await);
        assert_eq!(refusal.names(), [field]);
        refusal.assert(Code::InvalidArgument, "INVALID_FIELD");
    }
    for (request, field) in [
        (failure(&token, |f| f.reason = long(4097)), "reason"),
        (failure(&token, |f| f.error_type = long(257)), "error_type"),
        (
            failure(&token, |f| f.error_type = "a\u{7}".to_owned()),
            "error_type",
        ),
        (
            failure(&token, |f| f.details_json = json(MIB + 1)),
            "details_json",
        ),
        (failure(&token, |f| f.request_id = long(129)), "request_id"),
    ] {
        let refusal = refused(stage.resolver().fail(request).await);
        assert_eq!(refusal.names(), [field]);
    }
    let cancel = refused(stage.cancel(&token, &long(4097)).await);
    assert_eq!(cancel.names(), ["reason"]);
    assert_eq!(front.calls(), before, "a refused answer reached the store");
    stage.assert_pending(&token).await;
}

#[tokio::test]
async fn an_answer_at_every_limit_is_taken() {
    let stage = Stage::standing().await;
    let token = stage.open(spec("approve")).await.token;
    let largest = answer(&token, MIB, &long(128));
    stage.resolver().resolve(largest).await.expect("resolves");
    assert_eq!(payload(&stage.outcome(&token).await).len(), MIB);
    let token = stage.open(spec("approve")).await.token;
    let largest = v1::FailRequest {
        error_type: long(256),
        details_json: json(MIB),
        request_id: long(128),
        ..fail(&token, &long(4096))
    };
    stage.resolver().fail(largest).await.expect("fails");
    let token = stage.open(spec("approve")).await.token;
    stage.cancel(&token, &long(4096)).await.expect("cancels");
}

#[tokio::test]
async fn a_message_far_too_large_is_refused_before_it_is_read() {
    let (stage, front) = counted().await;
    let token = stage.open(spec("approve")).await.token;
    let before = front.calls();
    let refusal = refused(stage.resolve(&token, &json(3 * MIB)).await);
    assert!(refusal.message.contains("too large"), "{refusal:?}");
    refusal.assert(Code::InvalidArgument, "MALFORMED_REQUEST");
    assert_eq!(front.calls(), before);
    // The connection goes on.
    stage.resolve(&token, "1").await.expect("resolves");
}

#[tokio::test]
async fn control_characters_are_refused_in_names_and_welcome_in_reasons() {
    let (stage, front) = counted().await;
    for control in ["\0", "\n", "\t", "\u{1b}", "\u{7f}", "\u{85}"] {
        let bad = format!("a{control}b");
        let refusal = refused(
            stage
                .try_open_as(
                    WaitSpec {
                        key: bad.clone(),
                        labels: [(bad.clone(), String::new()), ("b".to_owned(), bad.clone())]
                            .into(),
                        namespace: bad.clone(),
                        ..spec(&bad)
                    },
                    &bad,
                )
                .await,
        );
        let refusal = refusal.assert(Code::InvalidArgument, "INVALID_FIELD");
        let names = refusal.names();
        for field in [
            "spec.name",
            "spec.key",
            "spec.namespace",
            "spec.labels[\"b\"]",
            "request_id",
        ] {
            assert!(names.contains(&field), "{control:?}: {names:?}");
        }
        // Not in the text that a log or a terminal shows, either.
        let told = format!("{}{:?}", refusal.message, names);
        assert!(!told.contains(control), "{control:?}: {told:?}");
    }
    assert_eq!(front.calls(), 0);
}

/// Text that stores, terminals and parsers stumble over.
const TEXTS: [&str; 5] = [
    "Zürich 東京 😀",
    "e\u{301} \u{202e}rtl\u{202c}",
    "'; DROP TABLE waits; --",
    " ",
    "%s{}\\\"</a>",
];

#[tokio::test]
async fn any_text_names_a_wait_and_finds_it() {
    for stage in [Stage::standing().await, Stage::sqlite().await] {
        for text in TEXTS {
            let asked = WaitSpec {
                key: text.to_owned(),
                labels: labels([(text, text)]),
                ..spec(text)
            };
            let opened = stage.open(asked.clone()).await;
            assert!(stage.open(asked.clone()).await.resumed);
            let found = stage.describe(&opened.token).await;
            let kept = (&*found.name, &*found.key, found.labels);
            assert_eq!(kept, (text, text, asked.labels));
            let filter = v1::WaitFilter {
                name: text.to_owned(),
                labels: labels([(text, text)]),
                ..Default::default()
            };
            let request = v1::ListWaitsRequest {
                filter: Some(filter),
                ..Default::default()
            };
            let listed = stage.inbox().list_waits(request).await.expect("lists");
            assert_eq!(listed.into_inner().waits.len(), 1);
        }
    }
}

#[tokio::test]
async fn any_text_is_a_reason_and_comes_back_as_it_was_sent() {
    for stage in [Stage::standing().await, Stage::sqlite().await] {
        for text in TEXTS {
            let token = stage.open(spec("approve")).await.token;
            let reason = format!("{text}\0\r\n\u{1b}[31m{text}");
            let failure = v1::FailRequest {
                error_type: text.to_owned(),
                ..fail(&token, &reason)
            };
            stage.resolver().fail(failure).await.expect("fails");
            match stage.outcome(&token).await.result {
                Some(Ended::Failed(failed)) => {
                    assert_eq!((&*failed.reason, &*failed.error_type), (&*reason, text));
                }
                other => panic!("not failed: {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn all_faults_of_a_request_are_told_together() {
    let stage = Stage::standing().await;
    let refusal = refused(
        stage
            .try_open_as(
                WaitSpec {
                    name: String::new(),
                    key: long(513),
                    namespace: "A".to_owned(),
                    expiry: timeout(400 * DAY),
                    heartbeat_timeout: Some(duration(400 * DAY)),
                    labels: [(String::new(), long(257))].into(),
                    question: free("{"),
                    question_later: true,
                },
                &long(129),
            )
            .await,
    );
    let expected = [
        "spec.name",
        "spec.key",
        "spec.namespace",
        "spec.timeout",
        "spec.heartbeat_timeout",
        "spec.labels[\"\"]",
        "spec.labels[\"\"]",
        "request_id",
        "spec.question_later",
        "spec.question.free_json",
    ];
    assert_eq!(refusal.names(), expected);
    assert!(
        refusal.message.ends_with("and 9 more"),
        "{}",
        refusal.message
    );
    let missing = v1::OpenWaitRequest::default();
    assert_eq!(
        refused(stage.worker().open_wait(missing).await).names(),
        ["spec"]
    );
}
