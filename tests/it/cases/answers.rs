//! Answers: which one counts, and what those who come second are told.

use std::sync::Arc;

use abeyance::proto::v1::{
    self, Failed, ResolveRequest, expired::Cause, outcome::Result as Ended, wait::State,
};
use prost::Message as _;
use tonic::Code;

use super::{say::*, stage::Stage};

#[tokio::test]
async fn c31_b_nothing_is_not_null() {
    let stage = Stage::standing().await;
    let token = stage.open(spec("approve")).await.token;
    let missing = ResolveRequest {
        answer: None,
        ..resolve(&token, "")
    };
    let missing = refused(stage.resolver().resolve(missing).await);
    assert_eq!(missing.names(), ["payload_json"]);
    missing.assert(Code::InvalidArgument, "INVALID_FIELD");
    let empty = refused(stage.resolve(&token, "").await);
    assert_eq!(empty.names(), ["payload_json"]);
    empty.assert(Code::InvalidArgument, "INVALID_JSON");
    stage.assert_pending(&token).await;

    stage.resolve(&token, "null").await.expect("resolves");
    assert_eq!(payload(&stage.outcome(&token).await), "null");
}

#[tokio::test]
async fn c32_clicks_again_are_repeats_and_the_opposite_click_is_a_conflict() {
    let stage = Stage::standing().await;
    let token = stage.open(spec("approve")).await.token;
    let click = |id: &str, json: &str| ResolveRequest {
        request_id: id.to_owned(),
        ..resolve(&token, json)
    };
    let mut first = None;
    for (number, id) in ["one", "two", "three"].into_iter().enumerate() {
        stage.clock.advance(3 * SECOND);
        // The third comes from another library, which writes the same value otherwise.
        let json = [
            r#"{"ok":true,"by":1}"#,
            r#"{"ok":true,"by":1}"#,
            r#"{ "by":1, "ok":true }"#,
        ];
        let response = stage.resolver().resolve(click(id, json[number])).await;
        let response = response.expect("OK").into_inner();
        assert_eq!(response.replayed, number > 0);
        let first = first.get_or_insert(response.settle_time);
        assert_eq!(*first, response.settle_time);
    }
    let opposite = stage
        .resolver()
        .resolve(click("four", r#"{"ok":false,"by":1}"#))
        .await;
    let opposite = refused(opposite).assert(Code::FailedPrecondition, "ALREADY_SETTLED");
    assert_eq!(opposite.metadata["state"], "RESOLVED");
    assert_eq!(opposite.metadata["settle_time"], "2027-01-15T08:00:03Z");

    let wait = stage.describe(&token).await;
    assert_eq!(Some(wait.settle_time), first);
    assert_eq!(
        payload(&wait.outcome.expect("an outcome")),
        r#"{"ok":true,"by":1}"#
    );
}

#[tokio::test]
async fn c32_a_fail_again_is_a_repeat_if_reason_type_and_details_are_the_same() {
    let stage = Stage::standing().await;
    let token = stage.open(spec("approve")).await.token;
    let failure = v1::FailRequest {
        error_type: "Timeout".to_owned(),
        details_json: r#"{"a":1,"b":2}"#.to_owned(),
        ..fail(&token, "no")
    };
    let first = stage.resolver().fail(failure.clone()).await.expect("OK");
    assert!(!first.get_ref().replayed);
    let mut same = failure.clone();
    same.details_json = r#"{"b":2, "a":1}"#.to_owned();
    let repeat = stage.resolver().fail(same).await.expect("OK").into_inner();
    assert!(repeat.replayed);
    assert_eq!(repeat.settle_time, first.get_ref().settle_time);
    for change in [
        |f: &mut v1::FailRequest| f.reason.push('!'),
        |f: &mut v1::FailRequest| f.error_type.clear(),
        |f: &mut v1::FailRequest| f.details_json.clear(),
        |f: &mut v1::FailRequest| f.details_json = r#"{"a":1,"b":2.0}"#.to_owned(),
    ] {
        let mut other = failure.clone();
        change(&mut other);
        let other = refused(stage.resolver().fail(other).await);
        let other = other.assert(Code::FailedPrecondition, "ALREADY_SETTLED");
        assert_eq!(other.metadata["state"], "FAILED");
    }
    let answer = refused(stage.resolve(&token, "true").await);
    assert_eq!(answer.metadata["state"], "FAILED");
}

#[tokio::test]
async fn c32_a_request_id_with_another_body_is_reused_and_a_refused_one_is_free() {
    let stage = Stage::standing().await;
    let token = stage.open(spec("approve")).await.token;
    let request = |json: &str| ResolveRequest {
        request_id: "r".to_owned(),
        ..resolve(&token, json)
    };
    // Refused, mended, and sent again under the same id.
    refused(stage.resolver().resolve(request("{")).await)
        .assert(Code::InvalidArgument, "INVALID_JSON");
    let mended = stage.resolver().resolve(request("{}")).await.expect("OK");
    assert!(!mended.get_ref().replayed);
    assert!(
        stage
            .resolver()
            .resolve(request("{}"))
            .await
            .expect("OK")
            .get_ref()
            .replayed
    );

    let other = refused(stage.resolver().resolve(request("[]")).await);
    let other = other.assert(Code::InvalidArgument, "REQUEST_ID_REUSED");
    assert_eq!(other.metadata["wait_id"], mended.get_ref().wait_id);
    let other = v1::FailRequest {
        request_id: "r".to_owned(),
        ..fail(&token, "no")
    };
    refused(stage.resolver().fail(other).await).assert(Code::InvalidArgument, "REQUEST_ID_REUSED");

    // It belongs to its wait: another wait may have an answer under the same id.
    let second = stage.open(spec("approve")).await.token;
    let request = ResolveRequest {
        request_id: "r".to_owned(),
        ..resolve(&second, "[]")
    };
    assert!(
        !stage
            .resolver()
            .resolve(request)
            .await
            .expect("OK")
            .get_ref()
            .replayed
    );
}

#[tokio::test]
async fn c33_a_hundred_waits_alike_each_get_their_own_answer() {
    let stage = Arc::new(Stage::sqlite().await);
    let mut waits = Vec::new();
    for _ in 0..100 {
        let like = v1::WaitSpec {
            question: free(r#"{"tool":"refund"}"#),
            ..spec("approve")
        };
        waits.push(stage.open(like).await.token);
    }
    let mut sorted = waits.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), 100);
    let mut listening = Vec::new();
    for token in &waits {
        let mut events = stage.attach(token).await.expect("attaches");
        events.opened().await;
        listening.push(events);
    }
    // 37 and 100 have no common divisor: each comes once, in an order of no kind.
    for step in 0..100 {
        let number = step * 37 % 100;
        let json = format!("{{\"answer\":{number}}}");
        stage
            .resolve(&waits[number], &json)
            .await
            .expect("resolves");
    }
    for (number, mut events) in listening.into_iter().enumerate() {
        let outcome = events.outcome().await;
        assert_eq!(payload(&outcome), format!("{{\"answer\":{number}}}"));
    }
}

#[tokio::test]
async fn c33_the_secret_of_one_token_opens_no_other() {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
    let stage = Stage::standing().await;
    let mut secrets = Vec::new();
    let mut tokens = Vec::new();
    for _ in 0..20 {
        let token = stage.open(spec("approve")).await.token;
        let bytes = BASE64.decode(&token["abey_".len()..]).expect("base64");
        assert_eq!(bytes.len(), 1 + 16 + 16);
        secrets.push(bytes[17..].to_vec());
        tokens.push(bytes);
    }
    secrets.sort();
    secrets.dedup();
    assert_eq!(secrets.len(), 20);
    for (at, bytes) in tokens.iter().enumerate() {
        let mut mixed = bytes.clone();
        mixed[17..].copy_from_slice(&tokens[(at + 1) % 20][17..]);
        let mixed = format!("abey_{}", BASE64.encode(mixed));
        refused(stage.resolve(&mixed, "1").await).assert(Code::NotFound, "TOKEN_UNKNOWN");
    }
}

#[tokio::test]
async fn c39_expired_failed_and_denied_are_three_things() {
    let stage = Stage::standing().await;
    let expiring = stage.open(v1::WaitSpec {
        expiry: timeout(SECOND),
        ..spec("approve")
    });
    let expiring = expiring.await.token;
    let failing = stage.open(spec("approve")).await.token;
    let denied = stage.open(spec("approve")).await.token;
    stage.clock.advance(2 * SECOND);
    stage
        .fail(&failing, "the approver is gone")
        .await
        .expect("fails");
    stage
        .resolve(&denied, r#"{"approved":false}"#)
        .await
        .expect("resolves");

    let outcome = stage.outcome(&expiring).await;
    assert_eq!(outcome.state(), State::Expired);
    let told = expired(&outcome);
    assert_eq!(
        told,
        (Cause::Timeout, "No resolution arrived within 0:00:01.")
    );
    let outcome = stage.outcome(&failing).await;
    assert_eq!(outcome.state(), State::Failed);
    let failed = Failed {
        reason: "the approver is gone".to_owned(),
        ..Default::default()
    };
    assert_eq!(outcome.result, Some(Ended::Failed(failed)));
    let outcome = stage.outcome(&denied).await;
    assert_eq!(outcome.state(), State::Resolved);
    assert_eq!(payload(&outcome), r#"{"approved":false}"#);
}

#[tokio::test]
async fn c43_the_bytes_of_an_answer_sent_again_change_nothing() {
    let stage = Stage::standing().await;
    let token = stage.open(spec("approve")).await.token;
    let mut waiting = stage.attach(&token).await.expect("attaches");
    waiting.opened().await;
    let recorded = ResolveRequest {
        request_id: "r".to_owned(),
        ..resolve(&token, "{\"ok\":true}")
    }
    .encode_to_vec();
    let again = || ResolveRequest::decode(&*recorded).expect("the same bytes");
    let first = stage
        .resolver()
        .resolve(again())
        .await
        .expect("OK")
        .into_inner();
    let outcome = waiting.outcome().await;
    let before = stage.describe(&token).await;
    for _ in 0..3 {
        stage.clock.advance(HOUR);
        let repeat = stage
            .resolver()
            .resolve(again())
            .await
            .expect("OK")
            .into_inner();
        assert!(repeat.replayed);
        assert_eq!(repeat.settle_time, first.settle_time);
    }
    assert_eq!(stage.describe(&token).await, before);
    assert_eq!(stage.outcome(&token).await, outcome);
}
