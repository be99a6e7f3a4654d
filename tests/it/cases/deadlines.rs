//! The gRPC deadline of a call: what it bounds, and what it leaves alone.

use abeyance::proto::v1::{self, TimeoutSource, expired::Cause, wait::State};
use tokio::time::Instant;
use tonic::{Code, Request};

use super::{
    say::*,
    stage::{Setup, Stage, TestClock},
    stores::Front,
};

const MS: std::time::Duration = std::time::Duration::from_millis(1);

fn within<T>(message: T, timeout: &str) -> Request<T> {
    let mut request = Request::new(message);
    let value = timeout.parse().expect("a header");
    request.metadata_mut().insert("grpc-timeout", value);
    request
}

#[tokio::test(start_paused = true)]
async fn c15_a_beside_a_timeout_a_deadline_bounds_the_stream_alone() {
    let stage = Stage::flowing().await;
    let start = Instant::now();
    let mut request = wait(spec("approve"));
    (request.metadata_mut()).insert("grpc-timeout", "2S".parse().expect("a header"));
    let mut events = stage.wait(request).await.expect("waits");
    let opened = events.opened().await;
    assert_eq!(opened.timeout_source(), TimeoutSource::Timeout);

    let end = events.next().await.expect("an end");
    refused(end).assert(Code::DeadlineExceeded, "DEADLINE_EXCEEDED");
    assert_eq!(start.elapsed().as_secs(), 2);
    stage.assert_pending(&opened.token).await;

    let mut again = stage.attach(&opened.token).await.expect("attaches");
    assert!(again.opened().await.resumed);
    stage.resolve(&opened.token, "42").await.expect("resolves");
    assert_eq!(payload(&again.outcome().await), "42");
}

#[tokio::test(start_paused = true)]
async fn c15_b_without_a_timeout_the_deadline_is_the_waits_own() {
    let stage = Stage::flowing().await;
    let start = Instant::now();
    let mut request = wait(v1::WaitSpec {
        expiry: None,
        ..spec("approve")
    });
    (request.metadata_mut()).insert("grpc-timeout", "2S".parse().expect("a header"));
    let mut events = stage.wait(request).await.expect("waits");
    let opened = events.opened().await;
    assert_eq!(opened.timeout_source(), TimeoutSource::Deadline);
    assert_eq!(opened.timeout, Some(duration(2 * SECOND)));

    // The stream ends with OK: `outcome` reads on to its end.
    let outcome = events.outcome().await;
    let (cause, reason) = expired(&outcome);
    assert_eq!(cause, Cause::Timeout);
    assert_eq!(reason, "No resolution arrived within 0:00:02.");
    let took = start.elapsed();
    assert!(1700 * MS < took && took < 2000 * MS, "{took:?}");
    assert_eq!(stage.describe(&opened.token).await.state(), State::Expired);
}

#[tokio::test(start_paused = true)]
async fn c15_a_deadline_of_a_reopen_an_open_or_an_attach_touches_no_wait() {
    let stage = Stage::flowing().await;
    let unsaid = v1::WaitSpec {
        expiry: None,
        ..keyed("approve", "k")
    };
    let request = v1::OpenWaitRequest {
        spec: Some(unsaid.clone()),
        request_id: String::new(),
    };
    let opened = stage.worker().open_wait(within(request, "2S")).await;
    let opened = opened.expect("opens").into_inner().opened.expect("opened");
    assert_eq!(opened.timeout_source(), TimeoutSource::ServerMaximum);

    let mut request = wait(unsaid);
    (request.metadata_mut()).insert("grpc-timeout", "2S".parse().expect("a header"));
    let mut again = stage.wait(request).await.expect("waits");
    let resumed = again.opened().await;
    assert_eq!(
        (resumed.timeout_source(), resumed.expire_time),
        (TimeoutSource::ServerMaximum, opened.expire_time)
    );
    refused(again.next().await.expect("an end"))
        .assert(Code::DeadlineExceeded, "DEADLINE_EXCEEDED");

    let request = v1::AttachRequest {
        target: Some(v1::attach_request::Target::Token(opened.token.clone())),
    };
    let mut attached = stage
        .attach_to(within(request, "2S"))
        .await
        .expect("attaches");
    attached.opened().await;
    refused(attached.next().await.expect("an end"))
        .assert(Code::DeadlineExceeded, "DEADLINE_EXCEEDED");
    stage.assert_pending(&opened.token).await;
}

#[tokio::test(start_paused = true)]
async fn c17_a_late_resolve_goes_on_and_its_repeat_is_told_so() {
    let setup = Setup::memory(TestClock::flowing());
    let front = Front::new(setup.store.clone());
    let stage = setup.wrap(|_| front.clone()).start().await;
    let opened = stage.open(spec("approve")).await;
    let mut waiting = stage.attach(&opened.token).await.expect("attaches");
    waiting.opened().await;

    front.slow(500 * MS);
    let start = Instant::now();
    let late = within(resolve(&opened.token, "true"), "50m");
    refused(stage.resolver().resolve(late).await)
        .assert(Code::DeadlineExceeded, "DEADLINE_EXCEEDED");
    assert!(start.elapsed() < 100 * MS, "{:?}", start.elapsed());

    // The first call is still on its way when the second one comes.
    let repeat = stage
        .resolve(&opened.token, "true")
        .await
        .expect("resolves");
    assert!(repeat.replayed);
    let outcome = waiting.outcome().await;
    assert_eq!(payload(&outcome), "true");
    assert_eq!(outcome.settle_time, repeat.settle_time);
    let decided = start + 500 * MS;
    assert!(Instant::now() >= decided, "told before it was recorded");
    assert_eq!(stage.outcome(&opened.token).await, outcome);
}

#[tokio::test(start_paused = true)]
async fn c17_an_open_that_is_late_can_be_repeated_by_its_request_id() {
    let setup = Setup::memory(TestClock::flowing());
    let front = Front::new(setup.store.clone());
    let stage = setup.wrap(|_| front.clone()).start().await;
    front.slow(500 * MS);
    let request = v1::OpenWaitRequest {
        spec: Some(spec("approve")),
        request_id: "r".to_owned(),
    };
    refused(stage.worker().open_wait(within(request, "50m")).await)
        .assert(Code::DeadlineExceeded, "DEADLINE_EXCEEDED");
    let again = stage
        .try_open_as(spec("approve"), "r")
        .await
        .expect("opens");
    assert!(again.opened.expect("opened").resumed);
}
