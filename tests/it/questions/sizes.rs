//! The largest questions, answers and reasons: what is taken arrives whole at a stock client, which takes 4 MiB.

use abeyance::proto::v1::{self, DeferredToolResults};
use tonic::Code;

use super::ask::{approval, asking, deferred, external, typed, value};
use crate::{
    cases::say::refused,
    harness::{Calls, TestServer},
};

const LIMIT: usize = 1 << 20;

/// As many calls as a wait takes, with arguments up to the limit.
async fn large(calls: &Calls) -> String {
    let mut asked: Vec<_> = (0..32).map(|n| approval(&format!("a{n}"))).collect();
    asked.extend((0..32).map(|n| external(&format!("e{n}"))));
    let rest = LIMIT - 64 * 40;
    asked[0].args_json = format!("{{\"x\":\"{}\"}}", "x".repeat(rest));
    calls.token(asking(deferred(asked))).await
}

fn decide(id: &str, bytes: usize) -> v1::ResolveRequest {
    let json = format!("\"{}\"", "y".repeat(bytes - 2));
    let results = DeferredToolResults {
        calls: [(id.to_owned(), value(&json))].into(),
        ..DeferredToolResults::default()
    };
    v1::ResolveRequest {
        partial: true,
        ..typed("", results)
    }
}

#[tokio::test]
async fn the_largest_outcome_is_told() {
    let server = TestServer::start().await;
    let calls = server.calls().await;
    let token = large(&calls).await;
    let part = |id: &str, bytes| v1::ResolveRequest {
        token: token.clone(),
        ..decide(id, bytes)
    };
    calls.answer(part("e0", LIMIT / 2)).await.expect("a half");
    calls
        .answer(part("e1", LIMIT / 2))
        .await
        .expect("the other");
    let refusal = refused(calls.answer(part("e2", 100)).await);
    let refusal = refusal.assert(Code::InvalidArgument, "INVALID_ANSWER");
    assert_eq!(refusal.names(), ["results"]);
    let wait = calls.describe(&token).await.expect("fits");
    assert_eq!(wait.progress.expect("progress").decided_calls, 2);
    let reason = "\"".repeat(4096);
    calls
        .fail(&token, &reason)
        .await
        .expect("the longest reason");
    let wait = calls.describe(&token).await.expect("fits");
    let results = wait.outcome.expect("an outcome").results.expect("results");
    assert_eq!((results.approvals.len(), results.calls.len()), (32, 32));
    let mut late = calls.attach(&token).await.expect("attaches");
    assert_eq!(late.outcome().await.results, Some(results));
}

#[tokio::test]
async fn a_reason_that_would_be_too_long_for_all_calls_together_is_refused() {
    let server = TestServer::start().await;
    let calls = server.calls().await;
    let token = large(&calls).await;
    let long = "\u{1f6ab}".repeat(4096);
    let refusal = refused(calls.fail(&token, &long).await);
    let refusal = refusal.assert(Code::InvalidArgument, "INVALID_FIELD");
    assert_eq!(refusal.names(), ["reason"]);
    let refusal = refused(calls.cancel(&token, &long).await);
    assert_eq!(refusal.names(), ["reason"]);
    let few = calls.token(asking(deferred(vec![approval("a")]))).await;
    calls.fail(&few, &long).await.expect("is told once");
    calls
        .cancel(&token, &"ü".repeat(1000))
        .await
        .expect("is told");
}

#[tokio::test]
async fn a_question_has_its_limit_whatever_it_is_made_of() {
    let server = TestServer::start().await;
    let calls = server.calls().await;
    let mut call = approval("a");
    call.args_json = format!("\"{}\"", "x".repeat(LIMIT / 2));
    call.metadata_json = format!("{{\"x\":\"{}\"}}", "x".repeat(LIMIT / 2));
    let refusal = refused(calls.open(asking(deferred(vec![call]))).await);
    let refusal = refusal.assert(Code::InvalidArgument, "INVALID_FIELD");
    assert_eq!(refusal.names(), ["spec.question"]);
}

#[tokio::test]
async fn details_leave_room_for_what_is_decided() {
    let server = TestServer::start().await;
    let calls = server.calls().await;
    let token = large(&calls).await;
    let part = v1::ResolveRequest {
        token: token.clone(),
        ..decide("e0", LIMIT - 100)
    };
    calls.answer(part).await.expect("nearly the limit");
    let fail = async |bytes: usize| {
        let request = v1::FailRequest {
            token: token.clone(),
            reason: "\"".repeat(4096),
            details_json: format!("\"{}\"", "d".repeat(bytes - 2)),
            ..v1::FailRequest::default()
        };
        calls.resolves.clone().fail(request).await
    };
    let refusal = refused(fail(LIMIT).await).assert(Code::InvalidArgument, "INVALID_FIELD");
    assert_eq!(refusal.names(), ["details_json"]);
    fail(64 << 10).await.expect("is taken");
    calls.describe(&token).await.expect("is told");
    let mut late = calls.attach(&token).await.expect("attaches");
    late.outcome().await;
    // Where nothing is decided there is room.
    let few = calls.token(asking(deferred(vec![approval("a")]))).await;
    let request = v1::FailRequest {
        token: few.clone(),
        details_json: format!("\"{}\"", "d".repeat(LIMIT - 2)),
        ..v1::FailRequest::default()
    };
    calls
        .resolves
        .clone()
        .fail(request)
        .await
        .expect("is taken");
    calls.describe(&few).await.expect("is told");
}
