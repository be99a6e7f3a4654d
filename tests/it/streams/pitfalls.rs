//! What ends HTTP/2 connections that hold many streams, each of which was seen: unread frames, resets, stream limits.

use std::{
    thread,
    time::{Duration, Instant},
};

use abeyance::{
    client::{Client, OpenOptions, Settings, Token, Verdict, Wait},
    proto::v1::{self, wait_event::Event},
};
use h2::client::Builder;
use tokio::task::JoinSet;
use tonic::{Code, Request, transport::Channel};

use crate::harness::{
    Calls, H2Proxy, Kind, Policy, TcpProxy, TestServer, eventually, ms, payload,
    raw::{ATTACH, RawClient},
    soon, spec,
};

async fn answer(wait: &Wait) -> String {
    let outcome = soon("the outcome", wait.outcome())
        .await
        .expect("an outcome");
    match outcome.verdict {
        Verdict::Resolved { payload_json, .. } => payload_json,
        other => panic!("not resolved: {other:?}"),
    }
}

fn was_never_cut(wait: &Wait) {
    assert_eq!(wait.progress().borrow().reattached, 0, "a connection died");
}

// --- 1: a receiver with some 11,500 small unread DATA frames has its connection killed by h2 ---------------------------------

/// Waits that nobody asks about: our client reads their frames all the same. Its channel has the usual sizes here, so that only
/// reading saves the connection: the test below shows what comes of it otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_reads_what_nobody_asks_for() {
    const FRAMES: usize = 20_000;
    // A sign of life is at most this long: the head of its frame, that of its message, and the message.
    const FRAME_BYTES: usize = 9 + 5 + 17;
    let server = TestServer::start_with(Kind::Memory, |c| c.grpc.alive_interval = ms(500)).await;
    let proxy = TcpProxy::start(server.addr).await;
    let channel = Channel::from_shared(proxy.url()).expect("a URL");
    let elsewhere = Channel::from_shared(server.url()).expect("a URL");
    let elsewhere = elsewhere.connect_lazy();
    let settings = Settings::new();
    let client = settings.with_channels(channel.connect_lazy(), elsewhere.clone(), elsewhere);
    let (calls, mut tokens, mut held) = (server.calls().await, Vec::new(), Vec::new());
    for _ in 0..30 {
        tokens.push(Token::new(calls.token(spec("held")).await));
    }
    for n in 0..3_000 {
        let token = &tokens[n % tokens.len()];
        held.push(client.attach(token).await.expect("attaches"));
    }
    let enough = proxy.replied() + FRAMES * FRAME_BYTES;
    eventually("enough frames", async || proxy.replied() >= enough).await;
    for token in &tokens {
        client.resolve(token, "1").await.expect("resolves");
    }
    for wait in &held {
        assert_eq!(answer(wait).await, "1");
    }
    assert_eq!(proxy.accepted(), 1, "a connection died");
}

/// How many streams a busy worker holds: each gets a sign of life and an outcome while it reads nothing.
const UNREAD_STREAMS: usize = 4_000;
const UNREAD_WAITS: usize = 80;

/// The worker's process, whose one thread is busy with something else while the frames come.
fn busy_worker(url: &str, tokens: &[String], begin: impl FnOnce(), busy: Duration) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let client = Client::connect(url).expect("a URL");
        let tokens: Vec<Token> = tokens
            .iter()
            .map(|token| Token::new(token.as_str()))
            .collect();
        let (mut waits, mut opening) = (Vec::new(), JoinSet::new());
        for n in 0..UNREAD_STREAMS {
            let (client, token) = (client.clone(), tokens[n % tokens.len()].clone());
            opening.spawn(async move { client.attach(&token).await.expect("attaches") });
            // A few hundred at a time: this is not about the opening.
            if n % 200 == 199 {
                waits.append(&mut std::mem::take(&mut opening).join_all().await);
            }
        }
        begin();
        // Blocks the thread on purpose: no task of this runtime reads, and the frames pile up.
        thread::sleep(busy);
        for wait in &waits {
            assert_eq!(answer(wait).await, "1");
        }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_worker_keeps_its_connection_though_frames_pile_up() {
    let alive = Duration::from_secs(2);
    let server = TestServer::start_with(Kind::Memory, |c| c.grpc.alive_interval = alive).await;
    let proxy = TcpProxy::start(server.addr).await;
    let calls = server.calls().await;
    let mut tokens = Vec::new();
    for _ in 0..UNREAD_WAITS {
        tokens.push(calls.token(spec("busy")).await);
    }
    let (begin, begun) = tokio::sync::oneshot::channel();
    let worker = thread::spawn({
        let (url, tokens) = (proxy.url(), tokens.clone());
        let begin = move || begin.send(()).expect("the test waits");
        // Less than a period, so that silence alone is no reason to let go.
        move || busy_worker(&url, &tokens, begin, alive.mul_f64(0.6))
    });
    soon("the worker has attached", begun)
        .await
        .expect("it has");
    for token in &tokens {
        calls.resolve(token, "1").await.expect("resolves");
    }
    let ended = tokio::task::spawn_blocking(|| worker.join()).await;
    ended.expect("joined").expect("the worker got everything");
    assert_eq!(proxy.accepted(), 1, "a connection died");
}

/// A foreign client with the usual sizes that does not read: h2 ends its connection. It finds every outcome when it comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_client_that_loses_its_connection_to_unread_frames_finds_every_outcome() {
    const STREAMS: usize = 400;
    let server = TestServer::start_with(Kind::Sqlite, |c| c.grpc.alive_interval = ms(40)).await;
    let calls = server.calls().await;
    // The sizes that hyper gives its clients, and tonic with it.
    let mut builder = Builder::new();
    builder
        .initial_connection_window_size(5 << 20)
        .initial_window_size(2 << 20)
        .max_header_list_size(16 << 10);
    let client = RawClient::with(server.addr, &builder).await;
    let (mut tokens, mut unread) = (Vec::new(), Vec::new());
    for _ in 0..STREAMS {
        tokens.push(calls.token(spec("unread")).await);
    }
    for token in &tokens {
        let request = v1::AttachRequest {
            target: Some(v1::attach_request::Target::Token(token.clone())),
        };
        unread.push(client.call(ATTACH, &request).await);
    }
    // Half are answered while the frames pile up, half when the connection is gone.
    for token in &tokens[..STREAMS / 2] {
        calls.resolve(token, "\"before\"").await.expect("resolves");
    }
    let died = client.closed().await.expect_err("h2 lets it live");
    assert_eq!(died.reason(), Some(h2::Reason::ENHANCE_YOUR_CALM), "{died}");
    drop(unread);
    for token in &tokens[STREAMS / 2..] {
        calls.resolve(token, "\"after\"").await.expect("resolves");
    }
    let again = server.calls().await;
    for (n, token) in tokens.iter().enumerate() {
        let mut attached = again.attach(token).await.expect("attaches");
        let expected = ["\"before\"", "\"after\""][n / (STREAMS / 2)];
        assert_eq!(attached.answer().await, expected);
    }
}

// --- 2: a receiver that resets many streams loses its connection -------------------------------------------------------------

const CYCLES: usize = 3_000;
const AT_ONCE: usize = 64;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_that_take_their_outcome_by_the_thousand_keep_their_connection() {
    let server = TestServer::start().await;
    let proxy = TcpProxy::start(server.addr).await;
    let client = Client::connect(&proxy.url()).expect("a URL");
    let calls = server.calls().await;
    let held = client
        .wait("held", OpenOptions::new())
        .await
        .expect("opens");
    let mut lanes = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (client, calls) = (client.clone(), calls.clone());
        lanes.spawn(async move {
            for round in 0..CYCLES / AT_ONCE {
                let wait = client
                    .wait("taken", OpenOptions::new())
                    .await
                    .expect("opens");
                calls
                    .resolve(wait.token().expose(), &round.to_string())
                    .await
                    .expect("resolves");
                assert_eq!(answer(&wait).await, round.to_string());
                was_never_cut(&wait);
            }
        });
    }
    while let Some(lane) = lanes.join_next().await {
        lane.expect("no panic");
    }
    was_never_cut(&held);
    assert_eq!(proxy.accepted(), 1, "a connection died");
}

/// Workers that change their minds: our client resets the streams of waits that are dropped, and the others stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_that_give_up_by_the_thousand_keep_the_connection_of_the_others() {
    let server = TestServer::start().await;
    let proxy = TcpProxy::start(server.addr).await;
    let client = Client::connect(&proxy.url()).expect("a URL");
    let calls = server.calls().await;
    let mut held = Vec::new();
    for _ in 0..50 {
        held.push(
            client
                .wait("held", OpenOptions::new())
                .await
                .expect("opens"),
        );
    }
    let mut lanes = JoinSet::new();
    for lane in 0..AT_ONCE {
        let (client, calls) = (client.clone(), calls.clone());
        lanes.spawn(async move {
            for _ in 0..CYCLES / AT_ONCE {
                let wait = client
                    .wait("given up", OpenOptions::new())
                    .await
                    .expect("opens");
                if lane.is_multiple_of(2) {
                    // Frames are under way for a stream that nobody wants any more.
                    calls
                        .resolve(wait.token().expose(), "1")
                        .await
                        .expect("resolves");
                }
            }
        });
    }
    while let Some(lane) = lanes.join_next().await {
        lane.expect("no panic");
    }
    for wait in &held {
        was_never_cut(wait);
        calls
            .resolve(wait.token().expose(), "2")
            .await
            .expect("resolves");
        assert_eq!(answer(wait).await, "2");
    }
    assert_eq!(proxy.accepted(), 1, "a connection died");
}

/// Since the stream ends together with its outcome, even a client that drops it there, as most do, has nothing to reset.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_client_that_drops_its_stream_at_the_outcome_keeps_its_connection() {
    let server = TestServer::start().await;
    let proxy = TcpProxy::start(server.addr).await;
    let worker = Calls::connect(&proxy.url()).await;
    let calls = server.calls().await;
    let mut lanes = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (worker, calls) = (worker.clone(), calls.clone());
        lanes.spawn(async move {
            for _ in 0..CYCLES / AT_ONCE {
                let mut wait = worker.wait(spec("dropped")).await.expect("opens");
                calls.resolve(wait.token(), "1").await.expect("resolves");
                let Ok(Some(Event::Outcome(outcome))) = wait.event().await else {
                    panic!("no outcome");
                };
                assert_eq!(payload(&outcome), "1");
            }
        });
    }
    while let Some(lane) = lanes.join_next().await {
        lane.expect("no panic");
    }
    assert_eq!(proxy.accepted(), 1, "a connection died");
}

// --- 4: a proxy's stream limit -----------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_stream_limit_one_wait_too_many_gets_another_connection_and_harms_no_other() {
    const LIMIT: u32 = 100;
    let server = TestServer::start().await;
    let policy = Policy {
        max_streams: Some(LIMIT),
        ..Policy::default()
    };
    let proxy = H2Proxy::start(server.addr, policy).await;
    let settings = Settings::new().attempt_timeout(ms(400)).patience(ms(600));
    let client = settings.connect(&proxy.url()).expect("a URL");
    let calls = server.calls().await;
    let mut held = Vec::new();
    for _ in 0..LIMIT {
        held.push(
            client
                .wait("held", OpenOptions::new())
                .await
                .expect("opens"),
        );
    }
    let begun = Instant::now();
    // Its first try gets no answer, as if the connection were frozen.
    let more = soon("the 101st opens", client.wait("held", OpenOptions::new())).await;
    held.push(more.expect("opens"));
    assert!(begun.elapsed() < Duration::from_secs(5));
    // Other calls have a connection of their own.
    let first = held.remove(0);
    client.resolve(first.token(), "1").await.expect("resolves");
    assert_eq!(answer(&first).await, "1");
    drop(first);
    let next = soon(
        "there is room again",
        client.wait("held", OpenOptions::new()),
    )
    .await;
    held.push(next.expect("opens"));
    for wait in &held {
        was_never_cut(wait);
        calls
            .resolve(wait.token().expose(), "2")
            .await
            .expect("resolves");
        assert_eq!(answer(wait).await, "2");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_stream_limit_a_foreign_client_is_bounded_by_its_deadline() {
    let server = TestServer::start().await;
    let policy = Policy {
        max_streams: Some(10),
        ..Policy::default()
    };
    let proxy = H2Proxy::start(server.addr, policy).await;
    let worker = Calls::connect(&proxy.url()).await;
    let calls = server.calls().await;
    let token = calls.token(spec("limit")).await;
    let mut held = Vec::new();
    for _ in 0..10 {
        held.push(worker.attach(&token).await.expect("attaches"));
    }
    for _ in 0..3 {
        let mut request = Request::new(v1::AttachRequest {
            target: Some(v1::attach_request::Target::Token(token.clone())),
        });
        request.set_timeout(ms(200));
        let late = soon("the deadline", worker.attach_request(request)).await;
        let code = late.err().expect("there is no room").code();
        assert!(
            matches!(code, Code::DeadlineExceeded | Code::Cancelled),
            "{code:?}"
        );
    }
    calls.resolve(&token, "1").await.expect("resolves");
    for stream in &mut held {
        assert_eq!(stream.answer().await, "1");
    }
    let room = async || worker.attach(&token).await.is_ok();
    eventually("there is room again", room).await;
    assert_eq!(proxy.accepted(), 1, "the connection died");
}
