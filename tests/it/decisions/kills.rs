//! Resolvers decide calls while the broker is killed again and again: nothing that was acknowledged is lost, nothing is decided twice,
//! and an honest retry after a lost reply is OK.
//!
//! `ABEYANCE_TEST_KILL_CYCLES` sets how often it is killed (default 6), `ABEYANCE_TEST_SEED` repeats the choices of a run.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use abeyance::proto::v1::{
    self, deferred_tool_call::Kind, question, resolve_request::Answer, wait::State,
};
use tokio::task::JoinSet;
use tonic::{Status, transport::Channel};

use super::{CALLS, gives};
use crate::{
    harness::{Calls, RealBroker, details_reason, ms, soon, spec_with_key},
    torture::rng::{Rng, number, seed},
};

const CYCLES: u64 = 6;
/// Waits that are decided at once, and who decides each.
const WAITS: u64 = 12;
const RESOLVERS: u64 = 3;

/// What a resolver says to a wait, and that it was told OK.
#[derive(Clone, Debug)]
struct Acked {
    request: v1::ResolveRequest,
    calls: BTreeMap<&'static str, String>,
    replayed: bool,
    /// Some attempt before went without a reply.
    lost: bool,
}

pub fn question() -> v1::Question {
    let calls = CALLS.iter().map(|id| v1::DeferredToolCall {
        tool_call_id: (*id).to_owned(),
        tool_name: "refund".to_owned(),
        args_json: "{}".to_owned(),
        kind: match id.as_bytes()[0] {
            b'a' => Kind::Approval.into(),
            b'e' => Kind::External.into(),
            _ => Kind::Question.into(),
        },
        ..Default::default()
    });
    v1::Question {
        kind: Some(question::Kind::Deferred(v1::DeferredToolRequests {
            calls: calls.collect(),
            may_leave_pending: false,
        })),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_decision_is_lost_whenever_the_broker_is_killed() {
    let seed = seed();
    eprintln!("ABEYANCE_TEST_SEED={seed}");
    let mut rng = Rng::new(seed);
    let mut broker = RealBroker::start().await;
    let (calls, acks) = (connection(&broker), Arc::new(AtomicU64::new(0)));
    let cycles = number("ABEYANCE_TEST_KILL_CYCLES").unwrap_or(CYCLES);
    let (mut lost, mut after_the_end) = (0, 0);
    for cycle in 0..cycles {
        let mut waits = JoinSet::new();
        for n in 0..WAITS {
            let rng = rng.fork(cycle * WAITS + n);
            waits.spawn(one(
                calls.clone(),
                format!("{cycle}.{n}"),
                rng,
                Arc::clone(&acks),
            ));
        }
        // Somewhere in the middle, not only right after an acknowledgement.
        let goal = acks.load(Ordering::Relaxed) + 1 + rng.below(WAITS * RESOLVERS);
        while acks.load(Ordering::Relaxed) < goal && !waits.is_empty() {
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(Duration::from_micros(rng.below(3_000))).await;
        broker.kill().await;
        broker.restart().await;
        for (lost_here, after_here) in soon("every wait is judged", waits.join_all()).await {
            lost += lost_here;
            after_the_end += after_here;
        }
    }
    eprintln!("{lost} replies were lost, {after_the_end} answers were told again behind the end");
}

/// A connection that comes back by itself.
fn connection(broker: &RealBroker) -> Calls {
    let endpoint = Channel::from_shared(broker.url()).expect("a URL");
    Calls::over(endpoint.connect_lazy())
}

/// Asks the same again while there is no reply. Says also whether one was lost.
async fn insist<T, F>(mut ask: impl FnMut() -> F) -> (Result<T, Status>, bool)
where
    F: Future<Output = Result<T, Status>>,
{
    let mut lost = false;
    loop {
        match ask().await {
            Err(status) if details_reason(&status).is_empty() => lost = true,
            reply => return (reply, lost),
        }
        tokio::time::sleep(ms(2)).await;
    }
}

/// The life of one wait; how many replies were lost, and how many answers were told again behind its end.
async fn one(calls: Calls, key: String, mut rng: Rng, acks: Arc<AtomicU64>) -> (usize, usize) {
    let spec = v1::WaitSpec {
        question: Some(question()),
        ..spec_with_key("kills", &key)
    };
    let opened = insist(|| calls.open(spec.clone())).await.0;
    let token = opened.expect("opens").opened.expect("opened").token;
    let mut resolvers = JoinSet::new();
    for resolver in 0..RESOLVERS {
        let (calls, token, rng) = (calls.clone(), token.clone(), rng.fork(resolver));
        resolvers.spawn(resolve(calls, token, resolver, rng, Arc::clone(&acks)));
    }
    if rng.chance(40) {
        tokio::time::sleep(Duration::from_micros(rng.below(20_000))).await;
        let fails = rng.chance(50);
        let end = insist(|| async {
            match fails {
                true => calls.fail(&token, "end").await.map(drop),
                false => calls.cancel(&token, "end").await.map(drop),
            }
        });
        // Refused where the last decision came first.
        drop(end.await);
    }
    let acked: Vec<Acked> = resolvers.join_all().await.into_iter().flatten().collect();
    let before = describe(&calls, &token).await;
    judge(&before, &acked);
    // Whoever is not sure asks again, whatever has become of the wait since.
    let mut after_the_end = 0;
    for acked in &acked {
        let again = insist(|| send(&calls, &acked.request)).await.0;
        let again = again.expect("what was acknowledged stays acknowledged");
        assert!(again.replayed, "{acked:?}");
        after_the_end += usize::from(again.state() != State::Pending);
    }
    assert_eq!(
        describe(&calls, &token).await,
        before,
        "repeats change nothing"
    );
    (
        acked.iter().filter(|acked| acked.lost).count(),
        after_the_end,
    )
}

async fn describe(calls: &Calls, token: &str) -> v1::Wait {
    let wait = insist(|| calls.describe(token)).await.0;
    wait.expect("is there")
}

async fn send(calls: &Calls, request: &v1::ResolveRequest) -> Result<v1::ResolveResponse, Status> {
    let response = calls.resolves.clone().resolve(request.clone()).await?;
    Ok(response.into_inner())
}

/// Gives answers for some calls, in part, in random order, and remembers which were acknowledged.
async fn resolve(
    calls: Calls,
    token: String,
    resolver: u64,
    mut rng: Rng,
    acks: Arc<AtomicU64>,
) -> Vec<Acked> {
    let mut acked = Vec::new();
    for n in 0..4 {
        let by = format!("r{resolver}.{n}");
        let mut decided = BTreeMap::new();
        for _ in 0..=rng.below(2) {
            // Nobody decides like anybody else, so whose a decision is shows.
            decided.insert(
                CALLS[rng.index(CALLS.len())],
                format!(r#"{{ "by" : "{by}"}}"#),
            );
        }
        let text = gives(decided.iter().map(|(id, text)| (*id, text.as_str())));
        let request = v1::ResolveRequest {
            token: token.clone(),
            answer: Some(Answer::PayloadJson(text)),
            partial: true,
            request_id: if rng.chance(50) {
                by.clone()
            } else {
                String::new()
            },
            answered_by: by,
        };
        let (reply, lost) = insist(|| send(&calls, &request)).await;
        match reply {
            Ok(reply) => {
                assert!(
                    lost || !reply.replayed,
                    "nobody else said that: {request:?}"
                );
                let replayed = reply.replayed;
                acked.push(Acked {
                    request,
                    calls: decided,
                    replayed,
                    lost,
                });
                acks.fetch_add(1, Ordering::Relaxed);
            }
            Err(status) => {
                let reason = details_reason(&status);
                let refused = ["ALREADY_DECIDED", "ALREADY_SETTLED"].contains(&reason.as_str());
                assert!(refused, "{status:?}");
                acks.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    acked
}

/// What is recorded is what was acknowledged, and nothing else.
fn judge(wait: &v1::Wait, acked: &[Acked]) {
    let results = wait
        .outcome
        .as_ref()
        .and_then(|outcome| outcome.results.as_ref());
    let progress = wait.progress.as_ref();
    let decided: BTreeMap<String, String> = match (results, progress) {
        (Some(results), _) => results.answered_by.clone(),
        (None, Some(progress)) => {
            let decided = progress.decided.iter();
            decided
                .map(|d| (d.tool_call_id.clone(), d.answered_by.clone()))
                .collect()
        }
        (None, None) => panic!("neither open nor ended: {wait:?}"),
    };
    let mut expected = BTreeMap::new();
    for acked in acked {
        for (id, text) in &acked.calls {
            let by = acked.request.answered_by.clone();
            assert!(
                expected.insert((*id).to_owned(), by).is_none(),
                "{id} is decided twice"
            );
            if let Some(results) = results {
                assert_eq!(recorded(results, id), *text, "byte for byte");
            }
        }
    }
    assert_eq!(decided, expected, "{:?}", wait.state());
    assert!(acked.iter().all(|acked| acked.lost || !acked.replayed));
    if let Some(progress) = progress {
        assert_eq!(progress.decided_calls as usize, expected.len());
        assert_eq!(
            progress.pending_calls as usize,
            CALLS.len() - expected.len()
        );
    }
}

fn recorded<'a>(results: &'a v1::DeferredToolResults, id: &str) -> &'a str {
    use v1::{tool_approval::Decision, tool_call_result::Result as Returns};
    let approval = results.approvals.get(id).and_then(|a| a.decision.as_ref());
    let result = results.calls.get(id).and_then(|r| r.result.as_ref());
    match (approval, result) {
        (Some(Decision::Approved(approved)), None) => &approved.override_args_json,
        (None, Some(Returns::ReturnValueJson(text))) => text,
        other => panic!("{id} is {other:?}"),
    }
}
