//! How the server stops: in order, within its bound, whatever its peers do.

use std::{sync::Arc, time::Instant};

use abeyance::{
    proto::v1::{DescribeWaitRequest, WaitResponse, detached::Reason, wait_event::Event},
    store::{Clock as _, SystemClock},
};
use tokio::{io::AsyncReadExt as _, net::TcpStream, task::JoinSet};
use tonic::{Code, Status, Streaming};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use super::{
    server_frames::{Frames, GOAWAY},
    server_harness::{MS, PATIENCE, Running, config, framed, memory, soon, wait_request},
};

const WAIT: &str = "/abeyance.v1.WaitService/Wait";

#[tokio::test]
async fn c69a_a_connection_that_never_speaks_holds_no_stop() {
    let server = Running::start(config()).await;
    let mut silent = TcpStream::connect(server.address)
        .await
        .expect("a connection");
    // So that it is accepted before the stop: the server takes them in order.
    server.clients().await.open().await;
    let start = Instant::now();
    server.stop().await;
    assert!(
        start.elapsed() < config().drain_timeout / 2,
        "{:?}",
        start.elapsed()
    );
    let mut rest = Vec::new();
    let _ = soon("the end of the connection", silent.read_to_end(&mut rest)).await;
}

#[tokio::test]
async fn c69c_a_client_that_ignores_goaway_and_ping_is_cut_at_the_limit() {
    let mut config = config();
    config.drain_timeout = 1500 * MS;
    let mut server = Running::start(config).await;
    let mut frames = Frames::connect(server.address, 65_535).await;
    let stream = frames.call(WAIT, &framed(&wait_request())).await;
    frames.until_data(stream, "abey_").await;
    frames.polite = false;
    let start = Instant::now();
    server.begin_stop();
    frames.until("a GOAWAY", GOAWAY).await;
    frames.until_closed().await;
    server.stopped().await;
    let took = start.elapsed();
    assert!((1400 * MS..PATIENCE).contains(&took), "{took:?}");
}

#[tokio::test]
async fn a_client_that_reads_nothing_holds_no_stop_beyond_the_limit() {
    let mut config = config();
    config.drain_timeout = 1500 * MS;
    let server = Running::start(config).await;
    let mut frames = Frames::connect(server.address, 0).await;
    frames.call(WAIT, &framed(&wait_request())).await;
    // Its wait is there once it is listed.
    let mut clients = server.clients().await;
    soon("the wait", async {
        loop {
            let list = clients
                .inbox
                .list_waits(abeyance::proto::v1::ListWaitsRequest::default());
            if !list.await.expect("a list").into_inner().waits.is_empty() {
                break;
            }
        }
    })
    .await;
    drop(clients);
    let start = Instant::now();
    server.stop().await;
    assert!(start.elapsed() < PATIENCE / 2, "{:?}", start.elapsed());
}

/// Reads a stream to its end: its last event, the status, and when that was.
async fn end(mut stream: Streaming<WaitResponse>) -> (Option<Event>, Result<(), Status>, Instant) {
    let mut last = None;
    loop {
        match stream.message().await {
            Ok(Some(response)) => last = response.event.and_then(|e| e.event),
            Ok(None) => return (last, Ok(()), Instant::now()),
            Err(status) => return (last, Err(status), Instant::now()),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c70_a_stop_lets_streams_go_spread_and_loses_nothing() {
    const WAITS: usize = 500;
    let store = memory();
    let mut server = Running::over(config(), store.clone()).await;
    let mut clients = server.clients().await;
    let mut health = HealthClient::new(server.channel().await);
    let watched = health
        .watch(HealthCheckRequest::default())
        .await
        .expect("a watch");
    let mut watched = watched.into_inner();
    let first = soon("a health", watched.message()).await.expect("a health");
    assert_eq!(first.expect("a health").status, 1, "SERVING");

    let (mut streams, mut tokens) = (JoinSet::new(), Vec::new());
    for _ in 0..WAITS {
        let opened = soon("a wait", clients.wait.wait(wait_request())).await;
        let mut stream = opened.expect("a wait").into_inner();
        let event = soon("an event", stream.message()).await.expect("an event");
        let Some(Event::Opened(opened)) = event.and_then(|r| r.event).and_then(|e| e.event) else {
            panic!("no `opened` first");
        };
        tokens.push(opened.token);
        streams.spawn(end(stream));
    }

    // Answers that are under way while it stops.
    let mut answers = JoinSet::new();
    for token in tokens.iter().take(50).cloned() {
        let mut clients = clients.clone();
        answers.spawn(async move {
            let request = super::server_harness::answer(&token, "1".to_owned());
            (token, clients.resolve.resolve(request).await)
        });
    }
    let start = Instant::now();
    server.begin_stop();

    let told = soon("NOT_SERVING", watched.message())
        .await
        .expect("a health");
    assert_eq!(told.expect("a health").status, 2, "NOT_SERVING comes first");
    let not_serving = start.elapsed();

    let mut ends = Vec::new();
    while let Some(ended) = soon("the end of a stream", streams.join_next()).await {
        let (last, status, when) = ended.expect("no panic");
        match last {
            Some(Event::Outcome(_)) => assert!(status.is_ok()),
            Some(Event::Detached(detached)) => {
                assert_eq!(detached.reason(), Reason::Drain);
                assert_eq!(status.expect_err("a status").code(), Code::Unavailable);
                ends.push(when - start);
            }
            other => panic!("a stream ended with {other:?} and {status:?}"),
        }
    }
    server.stopped().await;
    let took = start.elapsed();
    assert!(took < config().drain_timeout, "{took:?}");
    assert!(not_serving <= *ends.iter().max().expect("ends"));
    let (min, max) = (
        ends.iter().min().expect("ends"),
        ends.iter().max().expect("ends"),
    );
    assert!(*max - *min >= 300 * MS, "all at once: {min:?} to {max:?}");

    // The next broker over the same store: what was acknowledged is there, and the rest can still be answered.
    let next = Running::over(config(), Arc::new(store.restarted(SystemClock.now()))).await;
    let mut clients = next.clients().await;
    while let Some(answered) = answers.join_next().await {
        let (token, result) = answered.expect("no panic");
        if result.is_ok() {
            let described = clients.resolve.describe_wait(DescribeWaitRequest { token });
            let wait = soon("a wait", described)
                .await
                .expect("a wait")
                .into_inner();
            assert!(
                wait.wait.expect("a wait").outcome.is_some(),
                "an answer was lost"
            );
        }
    }
    for token in &tokens[50..] {
        clients.resolve(token, "2".to_owned()).await;
    }
    next.stop().await;
}
