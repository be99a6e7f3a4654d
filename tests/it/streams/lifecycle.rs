//! What becomes of a wait does not depend on who listens, when, or how often.

use abeyance::proto::v1::{self, attach_request::Target, wait::State};
use tonic::{Code, Request};

use crate::harness::{
    Attached, Calls, Kind, TcpProxy, TestServer, code_and_reason, ms, payload, soon, spec,
    spec_with_key,
};

async fn attach_for(
    calls: &Calls,
    token: &str,
    deadline: std::time::Duration,
) -> Result<Attached, tonic::Status> {
    let mut request = Request::new(v1::AttachRequest {
        target: Some(Target::Token(token.to_owned())),
    });
    request.set_timeout(deadline);
    calls.attach_request(request).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c18_neither_the_deadline_of_an_attach_nor_cuts_touch_the_wait() {
    let server = TestServer::start_with(Kind::Sqlite, |_| ()).await;
    let calls = server.calls().await;
    let token = calls.token(spec("c18")).await;
    let before = calls.describe(&token).await.expect("is there");

    let mut attached = attach_for(&calls, &token, ms(300)).await.expect("attaches");
    let (last, end) = attached.last().await;
    assert!(last.is_none(), "{last:?}");
    let status = end.expect_err("the deadline ends it");
    // The client's own clock may be the first to see it, and says so without details.
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    for cut in 0..10 {
        let proxy = TcpProxy::start(server.addr).await;
        let through = Calls::connect(&proxy.url()).await;
        let mut attached = through.attach(&token).await.expect("attaches");
        proxy.cut();
        let (last, end) = attached.last().await;
        assert!(last.is_none() && end.is_err(), "cut {cut}: {last:?}");
    }
    assert_eq!(calls.describe(&token).await.expect("is there"), before);
    let settled = calls.resolve(&token, "1").await.expect("resolves");
    assert!(!settled.replayed);
    let mut attached = calls.attach(&token).await.expect("attaches");
    assert_eq!(attached.answer().await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_a_token_is_good_from_the_moment_it_is_known() {
    for kind in Kind::BOTH {
        let server = TestServer::start_with(kind, |_| ()).await;
        let (worker, resolver) = (server.calls().await, server.calls().await);
        for round in 0..100 {
            // Resolved before anybody ever attached; the resolver has the token within a moment of the open's reply.
            let token = worker.token(spec("c30")).await;
            let json = round.to_string();
            let settled = resolver.resolve(&token, &json).await.expect("resolves");
            assert_eq!(settled.state(), State::Resolved);
            let mut first = worker.attach(&token).await.expect("attaches");
            assert_eq!(first.answer().await, json);
            // And through the stream that has just said its first word.
            let mut wait = worker.wait(spec("c30")).await.expect("opens");
            resolver
                .resolve(wait.token(), &json)
                .await
                .expect("resolves");
            assert_eq!(wait.answer().await, json);
        }
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c41_an_answer_waits_for_the_worker_and_is_not_used_up() {
    let mut server = TestServer::start_with(Kind::Sqlite, |_| ()).await;
    let calls = server.calls().await;
    let token = calls.token(spec_with_key("c41", "order-41")).await;
    calls
        .resolve(&token, r#"{"a": 1}"#)
        .await
        .expect("resolves");
    drop(calls);
    // The hours, scaled: nobody is there, and the broker starts anew in between.
    server = server.restart().await;
    let calls = server.calls().await;
    for _ in 0..3 {
        let mut by_token = calls.attach(&token).await.expect("attaches");
        assert_eq!(by_token.answer().await, r#"{"a": 1}"#);
        let mut by_key = calls.attach_by_key("order-41").await.expect("attaches");
        assert_eq!(by_key.token(), token);
        assert_eq!(by_key.answer().await, r#"{"a": 1}"#);
    }
    server.stop().await;
}

fn question(json: &str) -> Option<v1::Question> {
    Some(v1::Question {
        kind: Some(v1::question::Kind::FreeJson(json.to_owned())),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c42_opening_again_by_key_gives_the_same_wait_before_and_after_the_decision() {
    for kind in Kind::BOTH {
        let server = TestServer::start_with(kind, |_| ()).await;
        let spec = || v1::WaitSpec {
            question: question(r#"{"refund": 50, "to": "a"}"#),
            ..spec_with_key("c42", "order-42")
        };
        // The reply is lost: held back until the caller is gone.
        let proxy = TcpProxy::start(server.addr).await;
        let lost = Calls::connect(&proxy.url()).await;
        server.rig.hold_replies();
        let open = tokio::spawn(async move { lost.open(spec()).await });
        server.rig.until_held(1).await;
        proxy.cut();
        let lost = soon("the lost open", open).await.expect("no panic");
        lost.expect_err("the reply was lost");
        server.rig.release();

        let calls = server.calls().await;
        let first = calls.open(spec()).await.expect("opens");
        let opened = first.opened.expect("opened");
        assert!(opened.resumed, "the lost open had made it");
        assert!(!opened.asked && first.outcome.is_none());
        let token = opened.token;
        calls
            .waits
            .clone()
            .mark_asked(v1::MarkAskedRequest {
                token: token.clone(),
            })
            .await
            .expect("marks");
        // The same question in other words is the same question.
        let mut again = spec();
        again.question = question(r#"{"to":"a","refund":50}"#);
        let mut wait = calls.wait(again).await.expect("opens");
        assert_eq!(wait.token(), token);
        assert!(wait.opened.resumed && wait.opened.asked);

        let conflict = v1::WaitSpec {
            question: question(r#"{"refund": 51, "to": "a"}"#),
            ..spec()
        };
        let refused = calls.open(conflict.clone()).await.expect_err("a conflict");
        assert_eq!(
            code_and_reason(&refused),
            (Code::AlreadyExists, "KEY_CONFLICT".to_owned())
        );
        calls.resolve(&token, "true").await.expect("resolves");
        assert_eq!(wait.answer().await, "true");
        let after = calls.open(spec()).await.expect("opens");
        assert_eq!(after.opened.expect("opened").token, token);
        assert_eq!(payload(&after.outcome.expect("the outcome")), "true");
        let mut after = calls.wait(spec()).await.expect("opens");
        assert_eq!(after.answer().await, "true");
        calls.open(conflict).await.expect_err("still a conflict");
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_attached_to_one_wait_all_get_its_outcome() {
    let server = TestServer::start().await;
    let calls = server.calls().await;
    let token = calls.token(spec("crowd")).await;
    let mut crowd = Vec::new();
    for _ in 0..4 {
        let connection = server.calls().await;
        for _ in 0..250 {
            crowd.push(connection.attach(&token).await.expect("attaches"));
        }
    }
    calls.resolve(&token, "\"all\"").await.expect("resolves");
    for attached in &mut crowd {
        assert_eq!(attached.answer().await, "\"all\"");
    }
    server.stop().await;
}
