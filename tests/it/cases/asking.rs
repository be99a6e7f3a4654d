//! Questions that come later, marks that the ask was made, and withdrawals.

use abeyance::proto::v1::{self, WaitSpec, outcome::Result as Ended, wait::State};
use tonic::{Code, Status};

use super::{
    say::*,
    stage::{START, Stage},
};

async fn set_question(stage: &Stage, token: &str, json: &str) -> Result<(), Status> {
    let request = v1::SetQuestionRequest {
        token: token.to_owned(),
        question: free(json),
    };
    stage.worker().set_question(request).await.map(|_| ())
}

fn later() -> WaitSpec {
    WaitSpec {
        question_later: true,
        ..spec("approve")
    }
}

#[tokio::test]
async fn no_answer_is_taken_before_the_promised_question() {
    let stage = Stage::sqlite().await;
    let opened = stage.open(later()).await;
    assert!(opened.question_pending);
    let token = opened.token;
    let early = refused(stage.resolve(&token, "1").await);
    assert!(early.retry.is_some_and(|delay| !delay.is_zero()));
    assert_eq!(early.metadata["wait_id"], opened.wait_id);
    early.assert(Code::FailedPrecondition, "QUESTION_NOT_SET");
    stage.assert_pending(&token).await;

    set_question(&stage, &token, r#"{"a":1,"b":2}"#)
        .await
        .expect("sets");
    assert_eq!(
        stage.describe(&token).await.question,
        free(r#"{"a":1,"b":2}"#)
    );
    // The same again is OK and keeps the first text; another one is refused.
    set_question(&stage, &token, r#"{"b":2, "a":1}"#)
        .await
        .expect("the same");
    let other = refused(set_question(&stage, &token, r#"{"a":1,"b":3}"#).await);
    assert_eq!(other.metadata["wait_id"], opened.wait_id);
    other.assert(Code::FailedPrecondition, "QUESTION_CONFLICT");
    assert_eq!(
        stage.describe(&token).await.question,
        free(r#"{"a":1,"b":2}"#)
    );

    // The answer that came too early is taken now; nothing of it was kept.
    let answer = stage.resolve(&token, "1").await.expect("resolves");
    assert!(!answer.replayed);
    set_question(&stage, &token, r#"{"a":1,"b":2}"#)
        .await
        .expect("the same, in any state");
    let late = refused(set_question(&stage, &token, "[]").await);
    late.assert(Code::FailedPrecondition, "ALREADY_SETTLED");
}

#[tokio::test]
async fn a_wait_may_fail_be_cancelled_and_expire_before_its_question() {
    let stage = Stage::standing().await;
    let (one, two, three) = (
        stage.open(later()).await,
        stage.open(later()).await,
        stage.open(later()).await,
    );
    stage.fail(&one.token, "no").await.expect("fails");
    stage.cancel(&two.token, "").await.expect("cancels");
    stage.clock.advance(2 * HOUR);
    // An answer to the third is late, whatever its question.
    let late = refused(stage.resolve(&three.token, "1").await);
    assert_eq!(late.metadata["state"], "EXPIRED");
    let late = refused(set_question(&stage, &one.token, "1").await);
    assert_eq!(late.metadata["state"], "FAILED");
}

#[tokio::test]
async fn a_question_given_at_the_open_can_only_be_repeated() {
    let stage = Stage::standing().await;
    let asked = WaitSpec {
        question: free("[1]"),
        ..spec("approve")
    };
    let token = stage.open(asked.clone()).await.token;
    set_question(&stage, &token, " [ 1 ] ")
        .await
        .expect("the same");
    refused(set_question(&stage, &token, "[2]").await)
        .assert(Code::FailedPrecondition, "QUESTION_CONFLICT");
    // One that was neither given nor promised cannot come either.
    let token = stage.open(spec("approve")).await.token;
    refused(set_question(&stage, &token, "[2]").await)
        .assert(Code::FailedPrecondition, "QUESTION_CONFLICT");

    let both = WaitSpec {
        question_later: true,
        ..asked
    };
    assert_eq!(
        refused(stage.try_open(both).await).names(),
        ["spec.question_later"]
    );
    let none = v1::SetQuestionRequest {
        token,
        question: None,
    };
    let none = refused(stage.worker().set_question(none).await);
    assert_eq!(none.names(), ["question"]);
}

#[tokio::test]
async fn the_first_mark_counts() {
    let stage = Stage::standing().await;
    let token = stage.open(spec("approve")).await.token;
    assert_eq!(stage.describe(&token).await.ask_time, None);
    stage.clock.advance(SECOND);
    let first = stage.mark_asked(&token).await.expect("marks");
    assert_eq!(first.ask_time, at(START.after(SECOND)));
    stage.clock.advance(SECOND);
    assert_eq!(stage.mark_asked(&token).await.expect("marks"), first);
    let mut events = stage.attach(&token).await.expect("attaches");
    assert!(events.opened().await.asked);
    assert_eq!(stage.describe(&token).await.ask_time, first.ask_time);

    stage.resolve(&token, "1").await.expect("resolves");
    assert_eq!(
        stage.mark_asked(&token).await.expect("on a settled wait"),
        first
    );
}

#[tokio::test]
async fn a_mark_after_the_end_is_ok_and_marks_nothing() {
    let stage = Stage::standing().await;
    let token = stage.open(spec("approve")).await.token;
    stage.resolve(&token, "1").await.expect("resolves");
    let before = stage.describe(&token).await;
    assert_eq!(stage.mark_asked(&token).await.expect("OK").ask_time, None);
    assert_eq!(stage.describe(&token).await, before);

    // An overdue wait is settled first.
    let token = stage.open(spec("approve")).await.token;
    stage.clock.advance(2 * HOUR);
    assert_eq!(stage.mark_asked(&token).await.expect("OK").ask_time, None);
    assert_eq!(stage.describe(&token).await.state(), State::Expired);
}

#[tokio::test]
async fn a_withdrawal_ends_an_open_wait_and_tells_of_a_settled_one() {
    let stage = Stage::sqlite().await;
    let token = stage.open(spec("approve")).await.token;
    let mut waiting = stage.attach(&token).await.expect("attaches");
    waiting.opened().await;
    let outcome = stage
        .cancel(&token, "not needed\nany more")
        .await
        .expect("cancels");
    let cancelled = v1::Cancelled {
        reason: "not needed\nany more".to_owned(),
    };
    assert_eq!(outcome.result, Some(Ended::Cancelled(cancelled)));
    assert_eq!(waiting.outcome().await, outcome);
    // Whatever the reason, the recorded outcome stays.
    assert_eq!(stage.cancel(&token, "").await.expect("OK"), outcome);
    let late = refused(stage.resolve(&token, "1").await);
    assert_eq!(late.metadata["state"], "CANCELLED");

    let token = stage.open(spec("approve")).await.token;
    stage.resolve(&token, "[1]").await.expect("resolves");
    let outcome = stage.cancel(&token, "late").await.expect("OK");
    assert_eq!(payload(&outcome), "[1]");
    assert_eq!(stage.outcome(&token).await, outcome);
}

#[tokio::test]
async fn a_withdrawal_of_an_overdue_wait_tells_of_its_expiry() {
    let stage = Stage::standing().await;
    let token = stage.open(spec("approve")).await.token;
    stage.clock.advance(2 * HOUR);
    assert_eq!(
        stage.cancel(&token, "").await.expect("OK").state(),
        State::Expired
    );
}
