//! The answering side's sign of life: when it is demanded, what it pushes back, and how its loss ends a wait.

use std::{sync::Arc, time::Duration};

use abeyance::{
    proto::v1::{self, WaitSpec, expired::Cause, wait::State},
    store::{Clock as _, Store as _, memory::MemoryStore},
};
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

use super::{
    say::*,
    stage::{START, Setup, Stage, TestClock},
};

const PERIOD: Duration = Duration::from_secs(30);

fn beating() -> WaitSpec {
    WaitSpec {
        heartbeat_timeout: Some(duration(PERIOD)),
        ..spec("approve")
    }
}

async fn beat(stage: &Stage, token: &str) -> Result<Option<prost_types::Timestamp>, Status> {
    let token = token.to_owned();
    let response = stage
        .resolver()
        .heartbeat(v1::HeartbeatRequest { token })
        .await?;
    Ok(response.into_inner().heartbeat_expire_time)
}

#[tokio::test]
async fn before_the_ask_and_where_none_is_demanded_a_heartbeat_is_ok() {
    let stage = Stage::standing().await;
    let token = stage.open(beating()).await.token;
    assert_eq!(beat(&stage, &token).await.expect("OK"), None);
    assert_eq!(stage.describe(&token).await.heartbeat_expire_time, None);
    let free = stage.open(spec("approve")).await.token;
    stage.mark_asked(&free).await.expect("marks");
    assert_eq!(beat(&stage, &free).await.expect("OK"), None);

    // The clock starts with the ask, not before: half an hour later the wait is still open.
    stage.clock.advance(HOUR / 2);
    stage.assert_pending(&token).await;
    stage.mark_asked(&token).await.expect("marks");
    let until = at(START.after(HOUR / 2 + PERIOD));
    assert_eq!(stage.describe(&token).await.heartbeat_expire_time, until);
    // A second mark is no sign of life.
    stage.clock.advance(PERIOD / 2);
    stage.mark_asked(&token).await.expect("marks");
    assert_eq!(stage.describe(&token).await.heartbeat_expire_time, until);
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_pushes_back_and_its_loss_ends_the_wait() {
    let stage = Stage::flowing().await;
    let mut waiting = stage.wait(wait(beating())).await.expect("waits");
    let token = waiting.opened().await.token;
    stage.mark_asked(&token).await.expect("marks");
    let start = Instant::now();
    for _ in 0..3 {
        sleep(PERIOD - SECOND).await;
        let until = beat(&stage, &token).await.expect("OK");
        assert_eq!(until, at(stage.clock.now().after(PERIOD)));
        stage.assert_pending(&token).await;
    }
    let outcome = waiting.outcome().await;
    let (cause, reason) = expired(&outcome);
    assert_eq!(
        (cause, reason),
        (Cause::Heartbeat, "No heartbeat arrived within 0:00:30.")
    );
    assert_eq!(start.elapsed().as_secs(), 3 * 29 + 30);
    assert_eq!(stage.outcome(&token).await, outcome);
    assert_eq!(stage.describe(&token).await.heartbeat_expire_time, None);
    let late = refused(beat(&stage, &token).await);
    let late = late.assert(Code::FailedPrecondition, "ALREADY_SETTLED");
    assert_eq!(late.metadata["state"], "EXPIRED");
    refused(stage.resolve(&token, "1").await).assert(Code::FailedPrecondition, "ALREADY_SETTLED");
}

#[tokio::test]
async fn a_heartbeat_after_any_end_says_that_the_work_is_for_nothing() {
    let stage = Stage::standing().await;
    let (resolved, failed, cancelled) = (
        stage.open(beating()).await.token,
        stage.open(spec("approve")).await.token,
        stage.open(beating()).await.token,
    );
    stage.mark_asked(&cancelled).await.expect("marks");
    stage.resolve(&resolved, "1").await.expect("resolves");
    stage.fail(&failed, "no").await.expect("fails");
    stage.cancel(&cancelled, "").await.expect("cancels");
    for (token, state) in [
        (resolved, "RESOLVED"),
        (failed, "FAILED"),
        (cancelled, "CANCELLED"),
    ] {
        let late = refused(beat(&stage, &token).await);
        let late = late.assert(Code::FailedPrecondition, "ALREADY_SETTLED");
        assert_eq!(late.metadata["state"], state);
    }
}

#[tokio::test]
async fn of_two_clocks_the_first_one_that_ran_out_is_the_cause() {
    let stage = Stage::standing().await;
    let short = WaitSpec {
        expiry: timeout(PERIOD / 2),
        ..beating()
    };
    let by_timeout = stage.open(short).await.token;
    let by_heartbeat = stage.open(beating()).await.token;
    for token in [&by_timeout, &by_heartbeat] {
        stage.mark_asked(token).await.expect("marks");
    }
    // Both clocks of both are over when somebody looks.
    stage.clock.advance(2 * HOUR);
    assert_eq!(expired(&stage.outcome(&by_timeout).await).0, Cause::Timeout);
    assert_eq!(
        expired(&stage.outcome(&by_heartbeat).await).0,
        Cause::Heartbeat
    );
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_everybody_is_granted_one_full_period() {
    let clock = TestClock::flowing();
    let store = Arc::new(MemoryStore::new(clock.clone(), clock.now()));
    let stage = Setup::over(clock.clone(), store.clone()).start().await;
    let token = stage.open(beating()).await.token;
    stage.mark_asked(&token).await.expect("marks");
    let silent = stage.open(WaitSpec {
        expiry: timeout(60 * SECOND),
        ..beating()
    });
    let silent = silent.await.token;
    drop(stage);

    // The broker is down for ten minutes: nobody could send a heartbeat, but time itself went on.
    clock.advance(600 * SECOND);
    let again = Arc::new(store.restarted(clock.now()));
    store.close().await;
    let stage = Setup::over(clock.clone(), again).start().await;
    let ready = Instant::now();
    assert_eq!(stage.describe(&silent).await.state(), State::Expired);
    let wait = stage.describe(&token).await;
    assert_eq!(wait.state(), State::Pending);
    let granted = at(clock.now().after(PERIOD));
    assert_eq!(wait.heartbeat_expire_time, granted);
    let mut waiting = stage.attach(&token).await.expect("attaches");
    waiting.opened().await;
    assert_eq!(expired(&waiting.outcome().await).0, Cause::Heartbeat);
    assert_eq!(ready.elapsed().as_secs(), PERIOD.as_secs());
}
