//! `request_input`: every ending of a wait gives results for its tool calls. And what a stream tells of single decisions.

use std::{collections::HashMap, io, time::Duration};

use abeyance::{
    client::{
        Answer, Approval, Ask, Client, DeferredToolRequests, DeferredToolResults, Error,
        OpenOptions, Settings, State, Ticket, Token, ToolResults, WaitError,
    },
    proto::v1::{self, outcome::Result as End, resolve_request, wait_event::Event},
};
use h2::Reason;
use tonic::Code;
use tonic_types::ErrorDetails;

use crate::client_fake::{Call, Fake, TOKEN, WAIT_ID, answered, cancelled, outcome};

type Asked = Result<Ask, io::Error>;

const DENIAL: &str = "No decision on this tool call arrived: no budget";

fn requests() -> DeferredToolRequests {
    DeferredToolRequests::new()
        .approval("a", "refund", r#"{"amount":500}"#)
        .external("b", "ship", "null")
}

fn decisions() -> DeferredToolResults {
    DeferredToolResults::new().approve("a").value("b", "1.0")
}

async fn hand_on(_: Ticket) -> Asked {
    Ok(Ask::HandedOn)
}

async fn decide(_: Ticket) -> Asked {
    Ok(Ask::Results(decisions()))
}

async fn broken(_: Ticket) -> Asked {
    Err(io::Error::other("the mail server is down"))
}

fn approved(id: &str) -> v1::DeferredToolResults {
    let approved = v1::tool_approval::Decision::Approved(v1::ToolApproved::default());
    approvals(id, approved)
}

fn denied(id: &str) -> v1::DeferredToolResults {
    let message = Some(DENIAL.to_owned());
    approvals(
        id,
        v1::tool_approval::Decision::Denied(v1::ToolDenied { message }),
    )
}

fn approvals(id: &str, decision: v1::tool_approval::Decision) -> v1::DeferredToolResults {
    let decision = Some(decision);
    v1::DeferredToolResults {
        approvals: [(id.to_owned(), v1::ToolApproval { decision })].into(),
        ..v1::DeferredToolResults::default()
    }
}

fn decided() -> v1::Outcome {
    v1::Outcome {
        results: Some(approved("a")),
        results_json: r#"{ "approvals": {"a":true} }"#.to_owned(),
        ..answered("")
    }
}

fn failed() -> v1::Outcome {
    let failed = v1::Failed {
        reason: "no budget".to_owned(),
        ..v1::Failed::default()
    };
    v1::Outcome {
        results: Some(denied("a")),
        results_json: "{\"denials\":1}".to_owned(),
        ..outcome(v1::wait::State::Failed, End::Failed(failed))
    }
}

fn progress(decided_calls: i32) -> v1::Progress {
    v1::Progress {
        decided: (0..decided_calls)
            .map(|n| v1::CallDecision {
                tool_call_id: n.to_string(),
                decision: v1::call_decision::Decision::Approved.into(),
                answered_by: "alice".to_owned(),
                decide_time: Some(prost_types::Timestamp::default()),
            })
            .collect(),
        decided_calls,
        pending_calls: 3 - decided_calls,
    }
}

fn resolved(state: v1::wait::State) -> v1::ResolveResponse {
    v1::ResolveResponse {
        wait_id: WAIT_ID.to_owned(),
        state: state.into(),
        settle_time: (state != v1::wait::State::Pending).then(prost_types::Timestamp::default),
        ..v1::ResolveResponse::default()
    }
}

fn sent(call: &Call) -> v1::DeferredToolResults {
    match call.message::<v1::ResolveRequest>().answer {
        Some(resolve_request::Answer::Results(results)) => results,
        other => panic!("{other:?}"),
    }
}

/// Hands the calls on, and ends the wait so.
async fn ends_with(end: v1::Outcome) -> Result<ToolResults, WaitError> {
    let (mut fake, client) = Fake::new(Settings::new());
    let broker = async {
        let mut stream = fake.opened().await;
        fake.next("MarkAsked")
            .await
            .reply(v1::MarkAskedResponse::default());
        stream.send(Event::Outcome(end));
        stream.end(Code::Ok);
    };
    let input = client.request_input("n", requests(), hand_on, OpenOptions::new());
    tokio::join!(input, broker).0
}

#[tokio::test(start_paused = true)]
async fn an_answer_gives_its_decisions() {
    let input = ends_with(decided()).await.expect("results");
    assert_eq!(input.wait_id, WAIT_ID);
    assert_eq!(input.results, DeferredToolResults::new().approve("a"));
    assert_eq!(input.results_json, r#"{ "approvals": {"a":true} }"#);
    assert!(input.unanswered.is_none());
}

#[tokio::test(start_paused = true)]
async fn any_other_end_gives_denials_with_its_cause_beside_them() {
    let input = ends_with(failed()).await.expect("results");
    let message = Some(DENIAL.to_owned());
    assert_eq!(input.results.approvals["a"], Approval::Denied { message });
    assert_eq!(input.results_json, "{\"denials\":1}");
    let Some(WaitError::Failed { reason, .. }) = input.unanswered else {
        panic!("{:?}", input.unanswered);
    };
    assert_eq!(reason, "no budget");
}

#[tokio::test(start_paused = true)]
async fn an_outcome_without_results_is_an_error_and_never_an_approval() {
    for end in [answered(r#"{"approvals":{"a":true}}"#), cancelled()] {
        let error = ends_with(end).await.expect_err("no results");
        let protocol = matches!(&error, WaitError::Client(Error::Protocol(_)));
        assert!(protocol, "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_calls_are_the_question_in_either_form() {
    let text = r#"{"calls":[]}"#;
    let json = v1::DeferredToolRequestsJson {
        requests_json: text.to_owned(),
        may_leave_pending: false,
    };
    let (mut fake, client) = Fake::new(Settings::new());
    let options = || OpenOptions::new().question("1").key("k");
    let typed = client.request_input("n", requests().may_leave_pending(), hand_on, options());
    let call = tokio::select! {
        input = typed => panic!("{input:?}"),
        call = fake.next("Wait") => call.message::<v1::WaitRequest>(),
    };
    let Some(v1::question::Kind::Deferred(deferred)) = kind(call) else {
        panic!("not typed");
    };
    assert!(deferred.may_leave_pending);
    assert_eq!(deferred.calls.len(), 2);
    assert_eq!(deferred.calls[0].args_json, r#"{"amount":500}"#);

    let input = client.request_input("n", text, hand_on, options());
    let call = tokio::select! {
        input = input => panic!("{input:?}"),
        call = fake.next("Wait") => call.message::<v1::WaitRequest>(),
    };
    assert_eq!(kind(call), Some(v1::question::Kind::DeferredJson(json)));
}

fn kind(request: v1::WaitRequest) -> Option<v1::question::Kind> {
    request.spec?.question?.kind
}

#[tokio::test(start_paused = true)]
async fn decisions_in_place_are_recorded_like_any_others() {
    let (mut fake, client) = Fake::new(Settings::new());
    let broker = async {
        let mut stream = fake.opened().await;
        let call = fake.next("Resolve").await;
        assert!(!call.message::<v1::ResolveRequest>().partial);
        assert_eq!(sent(&call).approvals, approved("a").approvals);
        assert!(sent(&call).calls.contains_key("b"));
        call.reply(resolved(v1::wait::State::Resolved));
        stream.send(Event::Outcome(decided()));
        stream.end(Code::Ok);
    };
    let input = client.request_input("n", requests(), decide, OpenOptions::new());
    let (input, ()) = tokio::join!(input, broker);
    assert!(input.expect("results").unanswered.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_somebody_decided_faster_is_left_out_of_decisions_in_place() {
    let (mut fake, client) = Fake::new(Settings::new());
    let broker = async {
        let mut stream = fake.opened().await;
        let mut details = ErrorDetails::new();
        let about = HashMap::from([("tool_call_id".to_owned(), "a".to_owned())]);
        details.set_error_info("", "", about);
        let call = fake.next("Resolve").await;
        call.refuse_with(Code::FailedPrecondition, "ALREADY_DECIDED", details);
        let call = fake.next("Resolve").await;
        assert!(sent(&call).approvals.is_empty());
        assert!(sent(&call).calls.contains_key("b"));
        call.reply(resolved(v1::wait::State::Resolved));
        stream.send(Event::Outcome(decided()));
        stream.end(Code::Ok);
    };
    let input = client.request_input("n", requests(), decide, OpenOptions::new());
    let (input, ()) = tokio::join!(input, broker);
    input.expect("results");
}

#[tokio::test(start_paused = true)]
async fn decisions_in_place_that_do_not_fit_go_up_with_their_faults() {
    for key in [None, Some("k")] {
        let (mut fake, client) = Fake::new(Settings::new());
        let broker = async {
            let _stream = fake.opened().await;
            let mut details = ErrorDetails::new();
            details.add_bad_request_violation(r#"calls["b"]"#, "no such call");
            let call = fake.next("Resolve").await;
            call.refuse_with(Code::InvalidArgument, "INVALID_ANSWER", details);
            if key.is_none() {
                let recorded = v1::CancelWaitResponse {
                    outcome: Some(cancelled()),
                };
                fake.next("CancelWait").await.reply(recorded);
            }
        };
        let options = match key {
            Some(key) => OpenOptions::new().key(key),
            None => OpenOptions::new(),
        };
        let input = client.request_input("n", requests(), decide, options);
        let (input, ()) = tokio::join!(input, broker);
        let Err(WaitError::Client(error)) = input else {
            panic!("{input:?}");
        };
        assert_eq!(error.reason(), Some("INVALID_ANSWER"));
        assert_eq!(error.violations()[0].field, r#"calls["b"]"#);
        fake.quiet_for(Duration::from_secs(60)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_ask_gives_no_results_unless_the_wait_has_ended_otherwise() {
    for (recorded, gives_results) in [(cancelled(), false), (failed(), true)] {
        let (mut fake, client) = Fake::new(Settings::new());
        let broker = async {
            let _stream = fake.opened().await;
            let outcome = Some(recorded);
            let recorded = v1::CancelWaitResponse { outcome };
            fake.next("CancelWait").await.reply(recorded);
        };
        let input = client.request_input("n", requests(), broken, OpenOptions::new());
        match tokio::join!(input, broker).0 {
            Ok(input) => assert!(gives_results && input.unanswered.is_some()),
            Err(error) => assert!(!gives_results && matches!(error, WaitError::Ask(_))),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_decision_on_one_call_leaves_the_wait_open() {
    let (mut fake, client) = Fake::new(Settings::new());
    let click = Answer::from(DeferredToolResults::new().approve("a")).by("alice");
    let broker = async {
        let call = fake.next("Resolve").await;
        let request: v1::ResolveRequest = call.message();
        assert!(request.partial);
        assert_eq!(request.answered_by, "alice");
        call.reply(v1::ResolveResponse {
            progress: Some(progress(1)),
            ..resolved(v1::wait::State::Pending)
        });
    };
    let token = Token::new(TOKEN);
    let (settled, ()) = tokio::join!(client.decide(&token, click), broker);
    let settled = settled.expect("recorded");
    assert_eq!((settled.state, settled.settle_time), (State::Pending, None));
    let decided = settled.decided.expect("tool calls");
    assert_eq!((decided.decided_calls, decided.pending_calls), (1, 2));
    assert_eq!(decided.decisions[0].answered_by.as_deref(), Some("alice"));
}

#[tokio::test(start_paused = true)]
async fn what_is_decided_is_told_and_never_taken_back_by_a_cut() {
    let (mut fake, client): (Fake, Client) = Fake::new(Settings::new());
    let (wait, mut stream) = tokio::join!(client.wait("n", OpenOptions::new()), fake.opened());
    let wait = wait.expect("opened");
    let mut told = wait.decided();
    assert!(told.borrow().is_none());
    for calls in [1, 2] {
        stream.send(Event::Progress(progress(calls)));
        told.changed().await.expect("told");
        let decided = told.borrow_and_update().clone().expect("decided");
        assert_eq!(decided.decisions.len(), calls as usize);
    }

    stream.reset(Reason::CANCEL);
    let mut stream = fake.attached().await;
    // A replica that lags, and an event that cannot be understood, are no news.
    stream.send(Event::Progress(progress(1)));
    stream.send(Event::Progress(progress(2)));
    let mut without_time = progress(3);
    without_time.decided[0].decide_time = None;
    stream.send(Event::Progress(without_time));
    let silence = tokio::time::timeout(Duration::from_secs(20), told.changed()).await;
    silence.expect_err("nothing new was told");
    let late = wait.decided().borrow().clone().expect("kept");
    assert_eq!(late.decided_calls, 2);

    stream.send(Event::Outcome(decided()));
    stream.end(Code::Ok);
    let outcome = wait.outcome().await.expect("an outcome");
    assert_eq!(outcome.state(), State::Resolved);
    assert_eq!(
        told.changed().await.map_err(drop),
        Err(()),
        "the outcome ends it"
    );
}
