//! Waits held by streams of one channel.

use std::time::Duration;

use abeyance::proto::v1::{
    self, outcome, wait_event::Event, wait_service_client::WaitServiceClient,
};
use tempfile::TempDir;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, timeout},
};
use tonic::transport::Channel;

use super::{BOUND, connect, each, resolve, scaled, spec};
use crate::torture::{print, process::Setup};

/// How many opens are under way at once.
const OPENING: usize = 256;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_channel_holds_a_hundred_thousand_waits_and_delivers_every_outcome() {
    let count = scaled(2_000, 20_000, 100_000);
    let root = TempDir::new().expect("a temporary directory can be made");
    let process = Setup::new(root.path()).start().await;
    let before = process.status("VmRSS");
    let channel = connect(process.url()).await;

    let begin = Instant::now();
    let (tell, mut told) = mpsc::unbounded_channel();
    let mut waiters = JoinSet::new();
    let mut tokens = Vec::with_capacity(count);
    for number in 0..count {
        if number >= OPENING {
            tokens.push(told.recv().await.expect("an earlier open was acknowledged"));
        }
        waiters.spawn(wait(channel.clone(), number, tell.clone()));
    }
    while tokens.len() < count {
        tokens.push(told.recv().await.expect("every open is acknowledged"));
    }
    let (opening, held) = (begin.elapsed(), process.status("VmRSS"));

    let begin = Instant::now();
    let answering = connect(process.url()).await;
    each(0..count, 64, |at| {
        let (number, token) = tokens[at].clone();
        let channel = answering.clone();
        async move { resolve(&channel, token, number).await }
    })
    .await;
    let all = timeout(BOUND, waiters.join_all()).await;
    let outcomes = all.expect("every waiter is told in time");
    assert_eq!(outcomes.len(), count);
    print(&format!(
        "held: {count} waits on one channel, opened in {opening:?}, answered and told in {:?}, {:.1} KiB of broker memory each",
        begin.elapsed(),
        (held - before) as f64 / count as f64
    ));
}

/// Opens a wait, tells its token, and stays until the outcome, which must be its own, on the very same stream.
async fn wait(channel: Channel, number: usize, tell: mpsc::UnboundedSender<(usize, String)>) {
    let request = v1::WaitRequest {
        spec: Some(spec(Duration::from_secs(86_400))),
        request_id: format!("held-{number}"),
    };
    let mut client = WaitServiceClient::new(channel);
    let mut stream = client
        .wait(request)
        .await
        .expect("it is opened")
        .into_inner();
    tell_token(&mut stream, number, &tell).await;
    drop(tell);
    loop {
        match next(&mut stream).await {
            Some(Event::Alive(_)) => {}
            Some(Event::Outcome(told)) => {
                let Some(outcome::Result::Resolved(resolved)) = told.result else {
                    panic!("wait {number} ended otherwise: {told:?}");
                };
                assert_eq!(resolved.payload_json, number.to_string());
                assert!(next(&mut stream).await.is_none(), "nothing follows");
                return;
            }
            other => panic!("wait {number} was let go: {other:?}"),
        }
    }
}

async fn tell_token(
    stream: &mut tonic::Streaming<v1::WaitResponse>,
    number: usize,
    tell: &mpsc::UnboundedSender<(usize, String)>,
) {
    match next(stream).await {
        Some(Event::Opened(opened)) => tell.send((number, opened.token)).expect("the test listens"),
        other => panic!("wait {number} does not begin with `opened`: {other:?}"),
    }
}

async fn next(stream: &mut tonic::Streaming<v1::WaitResponse>) -> Option<Event> {
    let message = stream.message().await.expect("the connection lives");
    Some(message?.event?.event.expect("an event of a known kind"))
}
