//! Answers at the same instant, and at the instant of expiry: one outcome, and everybody is told the same.

use std::{sync::Arc, time::Duration};

use abeyance::proto::v1::{self, wait::State};
use tonic::{Code, Status};

use super::{
    say::*,
    stage::{Setup, Stage, TestClock},
};

const ROUNDS: usize = 1000;

/// The time of a refusal's metadata, as messages have it.
fn settle_time(text: &str) -> Option<prost_types::Timestamp> {
    let time: jiff::Timestamp = text.parse().expect("RFC 3339");
    Some(prost_types::Timestamp {
        seconds: time.as_second(),
        nanos: time.subsec_nanosecond(),
    })
}

/// Asserts that the loser was told of the winner's outcome.
fn assert_told(loser: Result<v1::ResolveResponse, Status>, outcome: &v1::Outcome) {
    let loser = refused(loser).assert(Code::FailedPrecondition, "ALREADY_SETTLED");
    let state = outcome.state().as_str_name();
    assert_eq!(loser.metadata["wait_id"], outcome.wait_id);
    assert_eq!(format!("STATE_{}", loser.metadata["state"]), state);
    assert_eq!(
        settle_time(&loser.metadata["settle_time"]),
        outcome.settle_time
    );
}

async fn five_at_once(stage: Stage) {
    let stage = Arc::new(stage);
    let token = stage.open(spec("approve")).await.token;
    let mut waiting = stage.attach(&token).await.expect("attaches");
    waiting.opened().await;
    let same = || {
        let (stage, token) = (stage.clone(), token.clone());
        tokio::spawn(async move { stage.resolve(&token, "[1]").await.expect("OK") })
    };
    let calls: Vec<_> = std::iter::repeat_with(same).take(5).collect();
    let outcome = waiting.outcome().await;
    let mut first = 0;
    for call in calls {
        let response = call.await.expect("no panic");
        assert_eq!(response.settle_time, outcome.settle_time);
        first += usize::from(!response.replayed);
    }
    assert_eq!(first, 1);
    assert_eq!(stage.outcome(&token).await, outcome);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_five_answers_alike_at_once_are_one_decision_in_memory() {
    five_at_once(Setup::memory(TestClock::flowing()).start().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_five_answers_alike_at_once_are_one_decision_in_sqlite() {
    five_at_once(Stage::sqlite().await).await;
}

async fn approve_against_deny(stage: Arc<Stage>) {
    let token = stage.open(spec("approve")).await.token;
    let mut waiting = stage.attach(&token).await.expect("attaches");
    waiting.opened().await;
    let (approve, deny) = tokio::join!(
        stage.resolve(&token, "true"),
        stage.resolve(&token, "false")
    );
    let outcome = waiting.outcome().await;
    let (winner, loser, answer) = match (approve, deny) {
        (Ok(winner), loser @ Err(_)) => (winner, loser, "true"),
        (loser @ Err(_), Ok(winner)) => (winner, loser, "false"),
        other => panic!("not one winner: {other:?}"),
    };
    assert_eq!(payload(&outcome), answer);
    assert!(!winner.replayed);
    assert_eq!(winner.settle_time, outcome.settle_time);
    assert_told(loser, &outcome);
    assert_eq!(stage.outcome(&token).await, outcome);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_b_of_approve_and_deny_one_wins_in_memory() {
    let stage = Arc::new(Setup::memory(TestClock::flowing()).start().await);
    rounds(ROUNDS, 20, |_| approve_against_deny(stage.clone())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_b_of_approve_and_deny_one_wins_in_sqlite() {
    let stage = Arc::new(Stage::sqlite().await);
    rounds(ROUNDS, 50, |_| approve_against_deny(stage.clone())).await;
}

/// Opens a wait, aims an answer at the instant of its expiry, and says whether it was in time.
async fn aim_at_expiry(stage: Arc<Stage>, length: Duration, aim: Duration) -> bool {
    let request = v1::WaitSpec {
        expiry: timeout(length),
        ..spec("approve")
    };
    let mut waiting = stage.wait(wait(request)).await.expect("waits");
    let token = waiting.opened().await.token;
    let (told, outcome) = tokio::join!(
        async {
            tokio::time::sleep(aim).await;
            stage.resolve(&token, "1").await
        },
        waiting.outcome()
    );
    let in_time = told.is_ok();
    match told {
        Ok(winner) => {
            assert_eq!(payload(&outcome), "1");
            assert_eq!(winner.settle_time, outcome.settle_time);
        }
        loser => {
            assert_eq!(outcome.state(), State::Expired);
            assert_told(loser, &outcome);
        }
    }
    assert_eq!(stage.outcome(&token).await, outcome);
    in_time
}

/// A spread of -4 to 4 milliseconds, by the number of the round.
fn aim(timeout: Duration, number: usize) -> Duration {
    timeout + Duration::from_micros((number as u64 * 611) % 8000) - Duration::from_millis(4)
}

#[tokio::test(start_paused = true)]
async fn c38_b_at_the_instant_of_expiry_one_outcome_in_memory() {
    let stage = Arc::new(Stage::flowing().await);
    let wins = Arc::new(std::sync::Mutex::new([0, 0]));
    rounds(ROUNDS, 20, |number| {
        let (stage, wins) = (stage.clone(), wins.clone());
        async move {
            let timeout = Duration::from_millis(30 + number as u64 % 3);
            let in_time = aim_at_expiry(stage, timeout, aim(timeout, number)).await;
            wins.lock().expect("whole")[usize::from(in_time)] += 1;
        }
    })
    .await;
    let wins = *wins.lock().expect("whole");
    assert!(wins.iter().all(|n| *n > 0), "no race: {wins:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c38_b_at_the_instant_of_expiry_one_outcome_in_sqlite() {
    let stage = Arc::new(Stage::sqlite().await);
    rounds(ROUNDS, 100, |number| {
        let stage = stage.clone();
        let timeout = Duration::from_millis(60);
        async move {
            aim_at_expiry(stage, timeout, aim(timeout, number)).await;
        }
    })
    .await;
}
