//! Who hears of decisions: workers that are attached, lists, watches, and whoever describes the wait.

use abeyance::proto::v1::{
    self, CallDecision, call_decision::Decision, resolve_request::Answer, wait::State,
    wait_event::Event, watch_waits_response::Event as Watched,
};
use tonic::{Code, Streaming};
use tonic_types::StatusExt as _;

use super::kills::question;
use crate::harness::{Attached, Calls, Kind, TestServer, code_and_reason, soon, spec};

fn asking() -> v1::WaitSpec {
    v1::WaitSpec {
        question: Some(question()),
        ..spec("parts")
    }
}

async fn decide(
    calls: &Calls,
    token: &str,
    by: &str,
    text: &str,
    partial: bool,
) -> v1::ResolveResponse {
    let request = v1::ResolveRequest {
        token: token.to_owned(),
        answer: Some(Answer::PayloadJson(text.to_owned())),
        answered_by: by.to_owned(),
        partial,
        ..Default::default()
    };
    let reply = calls.resolves.clone().resolve(request).await;
    reply.expect("is taken").into_inner()
}

/// The next event but signs of life.
async fn next(stream: &mut Attached) -> Event {
    loop {
        match stream.event().await.expect("no fault").expect("an event") {
            Event::Alive(_) => {}
            event => return event,
        }
    }
}

async fn progress(stream: &mut Attached) -> v1::Progress {
    match next(stream).await {
        Event::Progress(progress) => progress,
        other => panic!("no progress: {other:?}"),
    }
}

fn told(progress: &v1::Progress) -> Vec<(&str, Decision, &str)> {
    let told = |d: &CallDecision| {
        assert!(d.decide_time.is_some());
        d.decision()
    };
    let decided = progress.decided.iter();
    let told: Vec<_> = decided
        .map(|d| (d.tool_call_id.as_str(), told(d), d.answered_by.as_str()))
        .collect();
    assert_eq!(progress.decided_calls as usize, told.len());
    assert_eq!(progress.decided_calls + progress.pending_calls, 6);
    told
}

const APPROVE: &str = r#"{"approvals":{"a1":true}}"#;
const MORE: &str = r#"{"approvals":{"a2":{"kind":"tool-approved","override_args":{}}},"calls":{"e1":{"kind":"tool-failed","message":"no"}}}"#;
const REST: &str = r#"{"calls":{"e2":1,"q1":{"kind":"model-retry","message":"?"},"q2":null}}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_hears_of_each_decision_and_then_the_outcome() {
    for kind in Kind::BOTH {
        let server = TestServer::start_with(kind, |_| ()).await;
        let (worker, resolver) = (server.calls().await, server.calls().await);
        let mut first = worker.wait(asking()).await.expect("opens");
        let token = first.token().to_owned();
        let alice = ("a1", Decision::Approved, "Alice");

        let reply = decide(&resolver, &token, "Alice", APPROVE, true).await;
        assert_eq!((reply.state(), reply.replayed), (State::Pending, false));
        assert_eq!(told(&reply.progress.expect("progress")), [alice]);
        assert_eq!(told(&progress(&mut first).await), [alice]);

        // Bob's click is a repeat: it names Alice, and is no news to anybody.
        let reply = decide(&resolver, &token, "Bob", APPROVE, true).await;
        assert!(reply.replayed);
        assert_eq!(told(&reply.progress.expect("progress")), [alice]);

        // Whoever attaches now hears first what is decided already.
        let mut second = worker.attach(&token).await.expect("attaches");
        assert_eq!(told(&progress(&mut second).await), [alice]);

        decide(&resolver, &token, "Bob", MORE, true).await;
        let all = [
            alice,
            ("a2", Decision::ApprovedWithOverride, "Bob"),
            ("e1", Decision::Failed, "Bob"),
        ];
        for stream in [&mut first, &mut second] {
            assert_eq!(told(&progress(stream).await), all);
        }
        let wait = resolver.describe(&token).await.expect("is there");
        assert_eq!(told(wait.progress.as_ref().expect("progress")), all);
        let id = v1::GetWaitRequest {
            wait_id: wait.wait_id.clone(),
        };
        let got = resolver.inbox.clone().get_wait(id).await.expect("is there");
        assert_eq!(got.into_inner().wait, Some(wait));
        let listed = resolver
            .inbox
            .clone()
            .list_waits(v1::ListWaitsRequest::default())
            .await;
        let listed = &listed.expect("lists").into_inner().waits[0];
        counts(listed, 3);

        let reply = decide(&resolver, &token, "Carol", REST, false).await;
        assert_eq!(reply.state(), State::Resolved);
        let everything = told(reply.progress.as_ref().expect("progress")).len();
        assert_eq!(everything, 6);
        for stream in [&mut first, &mut second] {
            let outcome = stream.outcome().await;
            let results = outcome.results.expect("results");
            assert_eq!(results.answered_by["a1"], "Alice");
            assert_eq!(results.answered_by["q2"], "Carol");
        }
        let mut late = worker.attach(&token).await.expect("attaches");
        assert!(matches!(next(&mut late).await, Event::Outcome(_)));
        // A repeat from before the end is still one, and tells what has become of the wait.
        let reply = decide(&resolver, &token, "Dan", APPROVE, true).await;
        assert_eq!((reply.state(), reply.replayed), (State::Resolved, true));
        assert!(reply.settle_time.is_some());
        server.stop().await;
    }
}

fn counts(wait: &v1::Wait, decided: i32) {
    let progress = wait.progress.as_ref().expect("progress");
    assert!(progress.decided.is_empty(), "only the numbers");
    assert_eq!(
        (progress.decided_calls, progress.pending_calls),
        (decided, 6 - decided)
    );
}

async fn watched(stream: &mut Streaming<v1::WatchWaitsResponse>) -> Watched {
    loop {
        let message = soon("a change", stream.message()).await.expect("no fault");
        match message.expect("goes on").event.expect("an event") {
            Watched::Alive(_) => {}
            event => return event,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_hears_of_each_partial_answer() {
    for kind in Kind::BOTH {
        let server = TestServer::start_with(kind, |_| ()).await;
        let calls = server.calls().await;
        let token = calls.token(asking()).await;
        let request = v1::WatchWaitsRequest::default();
        let watch = calls.inbox.clone().watch_waits(request).await;
        let mut watch = watch.expect("watches").into_inner();
        match watched(&mut watch).await {
            Watched::Wait(wait) => counts(&wait, 0),
            other => panic!("no wait: {other:?}"),
        }
        assert!(matches!(watched(&mut watch).await, Watched::Synced(_)));
        for (text, count) in [(APPROVE, 1), (MORE, 3)] {
            decide(&calls, &token, "", text, true).await;
            match watched(&mut watch).await {
                Watched::Wait(wait) => counts(&wait, count),
                other => panic!("no wait: {other:?}"),
            }
        }
        decide(&calls, &token, "", REST, true).await;
        match watched(&mut watch).await {
            Watched::Wait(wait) => {
                assert_eq!((wait.state(), wait.progress), (State::Resolved, None));
            }
            other => panic!("no wait: {other:?}"),
        }
        drop(watch);
        server.stop().await;
    }
}

/// What was read before a decision and comes late neither hides the decision nor undoes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whoever_attaches_while_calls_are_decided_hears_of_all() {
    for kind in Kind::BOTH {
        let server = TestServer::start_with(kind, |_| ()).await;
        server.rig.linger(40);
        let calls = server.calls().await;
        for _ in 0..crate::harness::race_rounds().div_ceil(20) {
            let token = calls.token(asking()).await;
            let hear = |calls: Calls, token: String| async move {
                let mut stream = calls.attach(&token).await.expect("attaches");
                let mut count = 0;
                // Until all are told but the last two, which nobody decides before.
                while count < 4 {
                    let progress = progress(&mut stream).await;
                    assert!(progress.decided_calls > count, "progress only grows");
                    count = progress.decided_calls;
                    told(&progress);
                }
                stream
            };
            let workers: Vec<_> = (0..3)
                .map(|_| tokio::spawn(hear(calls.clone(), token.clone())))
                .collect();
            for text in [APPROVE, MORE, r#"{"calls":{"e2":1}}"#] {
                decide(&calls, &token, "", text, true).await;
            }
            let mut streams = Vec::new();
            for worker in workers {
                streams.push(soon("a worker", worker).await.expect("no panic"));
            }
            calls.fail(&token, "end").await.expect("fails");
            for stream in &mut streams {
                assert_eq!(stream.outcome().await.state(), State::Failed);
            }
        }
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_a_promised_question_is_set_an_answer_is_told_to_come_back() {
    let server = TestServer::start().await;
    let calls = server.calls().await;
    let later = v1::WaitSpec {
        question_later: true,
        ..spec("later")
    };
    let mut stream = calls.wait(later).await.expect("opens");
    let token = stream.token().to_owned();
    let answer = |partial| v1::ResolveRequest {
        token: token.clone(),
        answer: Some(Answer::PayloadJson(APPROVE.to_owned())),
        partial,
        ..Default::default()
    };
    for partial in [true, false] {
        let refused = calls.resolves.clone().resolve(answer(partial)).await;
        let refused = refused.expect_err("there is no question");
        let expected = (Code::FailedPrecondition, "QUESTION_NOT_SET".to_owned());
        assert_eq!(code_and_reason(&refused), expected);
        assert!(refused.get_details_retry_info().is_some());
    }
    let set = v1::SetQuestionRequest {
        token: token.clone(),
        question: Some(question()),
    };
    calls.waits.clone().set_question(set).await.expect("sets");
    decide(&calls, &token, "Alice", APPROVE, true).await;
    assert_eq!(
        told(&progress(&mut stream).await),
        [("a1", Decision::Approved, "Alice")]
    );
    server.stop().await;
}

/// A text may be six times as long in JSON as it came, and what is taken must reach a worker whose library takes 4 MiB.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_taken_is_never_too_long_to_be_delivered() {
    use v1::{ToolCallResult, tool_call_result::Result as Returns};
    let server = TestServer::start().await;
    let calls = server.calls().await;
    let mut stream = calls.wait(asking()).await.expect("opens");
    let token = stream.token().to_owned();
    let result = |result| v1::ResolveRequest {
        token: token.clone(),
        answer: Some(Answer::Results(v1::DeferredToolResults {
            calls: [(
                "e1".to_owned(),
                ToolCallResult {
                    result: Some(result),
                },
            )]
            .into(),
            ..Default::default()
        })),
        partial: true,
        ..Default::default()
    };
    let failed = |count| {
        Returns::Failed(v1::ToolFailed {
            message: "\u{1}".repeat(count),
        })
    };
    let tools = |count| {
        Returns::ToolReturn(v1::ToolReturn {
            return_value_json: "1".to_owned(),
            tools: vec![String::new(); count],
            ..Default::default()
        })
    };
    for too_long in [failed(180_000), tools(400_000)] {
        let refused = calls.resolves.clone().resolve(result(too_long)).await;
        let refused = refused.expect_err("it is too long");
        let expected = (Code::InvalidArgument, "INVALID_ANSWER".to_owned());
        assert_eq!(code_and_reason(&refused), expected);
    }
    let taken = calls
        .resolves
        .clone()
        .resolve(result(failed(170_000)))
        .await;
    taken.expect("is taken");
    assert_eq!(told(&progress(&mut stream).await).len(), 1);
    calls.fail(&token, "").await.expect("fails");
    let outcome = stream.outcome().await;
    assert!(outcome.results_json.len() > 1_000_000);
    server.stop().await;
}
