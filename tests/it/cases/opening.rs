//! Opening and opening again: by key, by `request_id`, and with another name or question.

use std::sync::Arc;

use abeyance::proto::v1::{self, TimeoutSource, WaitSpec, attach_request::Target, wait::State};
use tonic::Code;

use super::{say::*, stage::Stage};

/// The same with a change.
fn with(spec: &WaitSpec, change: impl FnOnce(&mut WaitSpec)) -> WaitSpec {
    let mut spec = spec.clone();
    change(&mut spec);
    spec
}

#[tokio::test]
async fn c42_a_key_gives_the_same_wait_before_and_after_the_decision() {
    let stage = Stage::sqlite().await;
    let asked = WaitSpec {
        question: free(r#"{"refund":50,"to":"Ann"}"#),
        labels: labels([("team", "pay")]),
        ..keyed("approve", "order-1")
    };
    let first = stage.open(asked.clone()).await;
    assert!(!first.resumed && !first.asked);

    // Timeout and labels of a re-open are ignored, and the same JSON value is the same question.
    let otherwise = WaitSpec {
        expiry: timeout(DAY),
        heartbeat_timeout: Some(duration(SECOND)),
        labels: labels([("team", "other")]),
        question: free(r#"{ "to":"\u0041nn", "refund":50 }"#),
        ..asked.clone()
    };
    stage.mark_asked(&first.token).await.expect("marks");
    let again = stage.try_open(otherwise.clone()).await.expect("opens");
    assert_eq!(again.outcome, None);
    let again = again.opened.expect("opened");
    let expected = v1::Opened {
        resumed: true,
        asked: true,
        ..first.clone()
    };
    assert_eq!(again, expected);
    let wait_record = stage.describe(&first.token).await;
    assert_eq!(wait_record.labels, labels([("team", "pay")]));
    assert_eq!(wait_record.heartbeat_timeout, None);

    stage.resolve(&first.token, "7").await.expect("resolves");
    let outcome = stage.outcome(&first.token).await;
    let after = stage.try_open(otherwise.clone()).await.expect("opens");
    assert_eq!(after.outcome.as_ref(), Some(&outcome));
    assert_eq!(after.opened.expect("opened"), expected);
    // A stream gives the recorded outcome at once.
    let mut events = stage.wait(wait(otherwise)).await.expect("waits");
    assert!(events.opened().await.resumed);
    assert_eq!(events.outcome().await, outcome);
}

#[tokio::test]
async fn c42_another_name_or_question_under_a_key_is_a_conflict() {
    let stage = Stage::standing().await;
    let asked = WaitSpec {
        question: free("[1]"),
        ..keyed("approve", "k")
    };
    let first = stage.open(asked.clone()).await;
    let others = [
        ("name", with(&asked, |s| s.name = "deny".to_owned())),
        ("question", with(&asked, |s| s.question = free("[2]"))),
        ("question", with(&asked, |s| s.question = free("[1.0]"))),
        ("question", with(&asked, |s| s.question = None)),
        (
            "question",
            with(&asked, |s| {
                s.question = None;
                s.question_later = true;
            }),
        ),
    ];
    for settled in [false, true] {
        for (field, other) in &others {
            let conflict = refused(stage.try_open(other.clone()).await);
            let conflict = conflict.assert(Code::AlreadyExists, "KEY_CONFLICT");
            assert_eq!(conflict.metadata["wait_id"], first.wait_id, "{settled}");
            assert_eq!(conflict.metadata["field"], *field);
            refused(stage.wait(wait(other.clone())).await.map(|_| ()))
                .assert(Code::AlreadyExists, "KEY_CONFLICT");
        }
        if !settled {
            stage.assert_pending(&first.token).await;
            stage.resolve(&first.token, "1").await.expect("resolves");
        }
    }
    // Another namespace knows nothing of it.
    let elsewhere = WaitSpec {
        namespace: "other".to_owned(),
        question: None,
        ..asked
    };
    let elsewhere = stage.open(elsewhere).await;
    assert!(!elsewhere.resumed);
    assert_ne!(elsewhere.token, first.token);
}

#[tokio::test]
async fn c42_a_question_set_later_is_not_the_question_of_the_open() {
    let stage = Stage::standing().await;
    let later = WaitSpec {
        question_later: true,
        ..keyed("approve", "k")
    };
    let first = stage.open(later.clone()).await;
    assert!(first.question_pending);
    let request = v1::SetQuestionRequest {
        token: first.token.clone(),
        question: free("[1]"),
    };
    stage.worker().set_question(request).await.expect("sets");
    let again = stage.open(later.clone()).await;
    assert_eq!((again.token, again.question_pending), (first.token, false));
    let given = WaitSpec {
        question: free("[1]"),
        question_later: false,
        ..later
    };
    refused(stage.try_open(given).await).assert(Code::AlreadyExists, "KEY_CONFLICT");
}

#[tokio::test]
async fn a_reopen_of_an_overdue_wait_gives_its_expiry() {
    let stage = Stage::standing().await;
    let first = stage.open(keyed("approve", "k")).await;
    stage.clock.advance(2 * HOUR);
    let again = stage.try_open(keyed("approve", "k")).await.expect("opens");
    assert_eq!(again.outcome.expect("an outcome").state(), State::Expired);
    assert_eq!(again.opened.expect("opened").token, first.token);
}

#[tokio::test]
async fn a_wait_is_found_by_its_key_and_only_in_its_namespace() {
    let stage = Stage::standing().await;
    let first = stage.open(keyed("approve", "k")).await;
    let by_key = |namespace: &str, key: &str| v1::AttachRequest {
        target: Some(Target::Key(v1::WaitKey {
            namespace: namespace.to_owned(),
            key: key.to_owned(),
        })),
    };
    for namespace in ["", "default"] {
        let mut events = stage
            .attach_to(by_key(namespace, "k"))
            .await
            .expect("attaches");
        let opened = events.opened().await;
        assert_eq!((opened.token, opened.resumed), (first.token.clone(), true));
    }
    for (namespace, key) in [("", "K"), ("other", "k"), ("", "k ")] {
        let unknown = stage.attach_to(by_key(namespace, key)).await.map(|_| ());
        refused(unknown).assert(Code::NotFound, "WAIT_UNKNOWN");
    }
    let neither = stage
        .attach_to(v1::AttachRequest { target: None })
        .await
        .map(|_| ());
    assert_eq!(refused(neither).names(), ["target"]);
}

#[tokio::test]
async fn a_request_id_gives_the_wait_that_it_opened() {
    let stage = Stage::sqlite().await;
    let asked = WaitSpec {
        question: free("[1]"),
        ..spec("approve")
    };
    let opened = |response: v1::OpenWaitResponse| response.opened.expect("opened");
    let first = opened(stage.try_open_as(asked.clone(), "r").await.expect("opens"));
    assert!(!first.resumed);
    let again = opened(stage.try_open_as(asked.clone(), "r").await.expect("opens"));
    assert_eq!(
        again,
        v1::Opened {
            resumed: true,
            ..first.clone()
        }
    );
    let mut request = wait(asked.clone());
    request.get_mut().request_id = "r".to_owned();
    let mut stream = stage.wait(request).await.expect("waits");
    assert_eq!(stream.opened().await.token, first.token);

    // Another name or question under it is a fault of the caller's.
    for other in [
        WaitSpec {
            name: "deny".to_owned(),
            ..asked.clone()
        },
        WaitSpec {
            question: free("[2]"),
            ..asked.clone()
        },
    ] {
        let reused = refused(stage.try_open_as(other, "r").await);
        let reused = reused.assert(Code::InvalidArgument, "REQUEST_ID_REUSED");
        assert_eq!(reused.metadata["wait_id"], first.wait_id);
    }
    // It is kept with the wait, decided or not.
    stage.resolve(&first.token, "1").await.expect("resolves");
    let after = stage.try_open_as(asked.clone(), "r").await.expect("opens");
    assert_eq!(payload(&after.outcome.expect("an outcome")), "1");

    // Of another namespace, and without one, they are other waits.
    let elsewhere = WaitSpec {
        namespace: "other".to_owned(),
        ..asked.clone()
    };
    assert!(!opened(stage.try_open_as(elsewhere, "r").await.expect("opens")).resumed);
    let (one, two) = (stage.open(asked.clone()).await, stage.open(asked).await);
    assert_ne!(one.token, two.token);
}

#[tokio::test]
async fn a_request_id_is_ignored_beside_a_key() {
    let stage = Stage::standing().await;
    let opened = |response: v1::OpenWaitResponse| response.opened.expect("opened");
    let one = stage.try_open_as(keyed("approve", "one"), "r").await;
    let two = stage.try_open_as(keyed("approve", "two"), "r").await;
    let unkeyed = stage.try_open_as(spec("approve"), "r").await;
    let mut ids = Vec::new();
    for response in [one, two, unkeyed] {
        let opened = opened(response.expect("opens"));
        assert!(!opened.resumed);
        ids.push(opened.wait_id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 3);
    let again = stage.try_open_as(keyed("approve", "one"), "another").await;
    assert_eq!(opened(again.expect("opens")).wait_id, ids[0]);
}

async fn opened_once(stage: Stage, spec: fn() -> WaitSpec, request_id: &'static str) {
    let stage = Arc::new(stage);
    let open = || {
        let stage = stage.clone();
        tokio::spawn(async move { stage.try_open_as(spec(), request_id).await.expect("opens") })
    };
    let calls: Vec<_> = std::iter::repeat_with(open).take(20).collect();
    let mut created = 0;
    let mut tokens = Vec::new();
    for call in calls {
        let opened = call.await.expect("no panic").opened.expect("opened");
        created += usize::from(!opened.resumed);
        tokens.push(opened.token);
    }
    tokens.dedup();
    assert_eq!((created, tokens.len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_opens_alike_at_once_one_creates_the_wait() {
    opened_once(Stage::sqlite().await, || keyed("approve", "k"), "").await;
    opened_once(Stage::sqlite().await, || spec("approve"), "r").await;
    opened_once(Stage::standing().await, || keyed("approve", "k"), "").await;
}

#[tokio::test]
async fn c44_a_wait_without_an_end_gets_the_servers_maximum() {
    let stage = Stage::standing().await;
    let no_timeout = Some(v1::wait_spec::Expiry::NoTimeout(true));
    for expiry in [None, no_timeout] {
        let opened = stage
            .open(WaitSpec {
                expiry,
                ..spec("approve")
            })
            .await;
        let wait = stage.describe(&opened.token).await;
        assert_eq!(wait.timeout, Some(duration(366 * DAY)));
        assert_eq!(wait.timeout_source(), TimeoutSource::ServerMaximum);
        let (from, until) = (
            wait.create_time.expect("set"),
            wait.expire_time.expect("set"),
        );
        assert_eq!(until.seconds - from.seconds, 366 * 86_400);
        assert_eq!(
            (opened.timeout, opened.expire_time),
            (wait.timeout, wait.expire_time)
        );

        stage.clock.advance(366 * DAY - SECOND);
        stage.assert_pending(&opened.token).await;
        stage.clock.advance(SECOND);
        let outcome = stage.outcome(&opened.token).await;
        assert_eq!(
            expired(&outcome).1,
            "No resolution arrived within 366 days, 0:00:00."
        );
    }
}
