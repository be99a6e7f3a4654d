//! Many waits: held on one channel, pending in the store, and coming and going.
//!
//! `ABEYANCE_TEST_SCALE` sets how many: `ci`, `full` (the counts that a release is held to), or unset, for the inner loop.

mod churn;
mod held;
mod pending;

use std::{env, sync::Arc, time::Duration};

use abeyance::proto::v1::{
    self, ResolveRequest, WaitSpec, resolve_request::Answer,
    resolve_service_client::ResolveServiceClient, wait_service_client::WaitServiceClient,
    wait_spec::Expiry,
};
use tokio::{sync::Semaphore, task::JoinSet};
use tonic::transport::{Channel, Endpoint};

/// Long enough for the full counts on a busy machine.
const BOUND: Duration = Duration::from_secs(1800);

/// The count for this run.
fn scaled(quick: usize, ci: usize, full: usize) -> usize {
    match env::var("ABEYANCE_TEST_SCALE").as_deref() {
        Err(_) => quick,
        Ok("ci") => ci,
        Ok("full") => full,
        Ok(other) => panic!("ABEYANCE_TEST_SCALE={other} is neither ci nor full"),
    }
}

/// One connection.
async fn connect(url: String) -> Channel {
    Endpoint::from_shared(url)
        .expect("it is a URL")
        .initial_connection_window_size(16 << 20)
        .connect()
        .await
        .expect("the broker is up")
}

fn spec(timeout: Duration) -> WaitSpec {
    WaitSpec {
        name: "scale".to_owned(),
        expiry: Some(Expiry::Timeout(prost_types::Duration {
            seconds: i64::try_from(timeout.as_secs()).expect("a year at most"),
            nanos: 0,
        })),
        labels: [
            ("team".to_owned(), "payments".to_owned()),
            ("kind".to_owned(), "refund".to_owned()),
        ]
        .into(),
        ..Default::default()
    }
}

/// Answers a wait with its own number.
async fn resolve(channel: &Channel, token: String, number: usize) {
    let request = ResolveRequest {
        token,
        answer: Some(Answer::PayloadJson(number.to_string())),
        request_id: format!("answer-{number}"),
        ..Default::default()
    };
    let mut client = ResolveServiceClient::new(channel.clone());
    client.resolve(request).await.expect("it is answered");
}

/// Does `work` for each number, so many at once.
async fn each<F: Future<Output = ()> + Send + 'static>(
    numbers: std::ops::Range<usize>,
    at_once: usize,
    work: impl Fn(usize) -> F,
) {
    let permits = Arc::new(Semaphore::new(at_once));
    let mut tasks = JoinSet::new();
    for number in numbers {
        let permit = permits.clone().acquire_owned().await.expect("never closed");
        let work = work(number);
        tasks.spawn(async move {
            work.await;
            drop(permit);
        });
        // Those that are done need no memory; a panic in one is the test's.
        while let Some(done) = tasks.try_join_next() {
            done.expect("no panic");
        }
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic");
    }
}

/// Opens without staying attached, and gives the token.
async fn open(channel: &Channel, timeout: Duration, request_id: String) -> String {
    let request = v1::OpenWaitRequest {
        spec: Some(spec(timeout)),
        request_id,
    };
    let mut client = WaitServiceClient::new(channel.clone());
    let opened = client
        .open_wait(request)
        .await
        .expect("it is opened")
        .into_inner()
        .opened;
    opened.expect("`opened` is always set").token
}
