//! Between worker and broker stands a proxy that ends streams.

use std::time::Duration;

use abeyance::{
    client::{Client, OpenOptions, Settings, Verdict, Wait},
    proto::v1::{wait::State, wait_event::Event},
};
use h2::Reason;
use tokio::time::{Instant, sleep, timeout};

use crate::harness::{
    Calls, H2Proxy, Kind, Mode, Policy, Resend, TcpProxy, TestServer, Trailers, eventually, ms,
    payload, soon, spec,
};

/// A client that comes back quickly, so that cuts can be frequent.
fn client(url: &str) -> Client {
    let backoff = abeyance::client::Backoff {
        base: ms(20),
        cap: ms(100),
    };
    Settings::new()
        .backoff(backoff)
        .connect(url)
        .expect("a URL")
}

async fn answer(wait: &Wait) -> String {
    let outcome = soon("the outcome", wait.outcome())
        .await
        .expect("an outcome");
    match outcome.verdict {
        Verdict::Resolved { payload_json, .. } => payload_json,
        other => panic!("not resolved: {other:?}"),
    }
}

/// Times are a fifth: the proxy's limit 1 s, the broker's sign of life well inside it, the wait undecided for 12 limits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c01_signs_of_life_keep_an_idle_stream_through_a_proxy_that_resets_idle_ones() {
    let idle = ms(1000);
    let server = TestServer::start_with(Kind::Memory, |c| c.grpc.alive_interval = ms(400)).await;
    let policy = Policy {
        idle: Some(idle),
        ..Policy::default()
    };
    let proxy = H2Proxy::start(server.addr, policy).await;
    let wait = client(&proxy.url())
        .wait("c01", OpenOptions::new())
        .await
        .expect("opens");
    let mut raw = Calls::connect(&proxy.url()).await;
    let mut bare = raw.wait(spec("c01 bare")).await.expect("opens");

    let until = Instant::now() + 12 * idle;
    let mut signs = 0;
    while let Ok(event) = tokio::time::timeout_at(until, bare.event()).await {
        assert!(matches!(event, Ok(Some(Event::Alive(_)))), "{event:?}");
        signs += 1;
    }
    assert!(signs >= 12, "only {signs} signs of life");
    raw = server.calls().await;
    for (token, json) in [(wait.token().expose(), "1"), (bare.token(), "2")] {
        raw.resolve(token, json).await.expect("resolves");
    }
    assert_eq!(answer(&wait).await, "1");
    assert_eq!(bare.answer().await, "2", "and nothing behind it");
    assert_eq!(proxy.resets(), 0, "the proxy found an idle stream");
    assert_eq!(wait.progress().borrow().reattached, 0);
    assert_eq!((proxy.streams("/Wait"), proxy.streams("/Attach")), (2, 0));
}

/// The same proxy in front of a broker whose signs of life are too rare: what the test above would see if there were none.
#[tokio::test]
async fn c01_without_signs_of_life_the_proxy_resets_the_stream_and_the_client_comes_back() {
    let server = TestServer::start_with(Kind::Memory, |c| {
        c.grpc.alive_interval = Duration::from_secs(25);
    })
    .await;
    let policy = Policy {
        idle: Some(ms(200)),
        ..Policy::default()
    };
    let proxy = H2Proxy::start(server.addr, policy).await;
    let wait = client(&proxy.url())
        .wait("c01", OpenOptions::new())
        .await
        .expect("opens");
    let mut progress = wait.progress();
    soon(
        "it attaches again",
        progress.wait_for(|p| p.reattached >= 2),
    )
    .await
    .expect("the wait is followed");
    assert!(proxy.resets() >= 2);
    let calls = server.calls().await;
    calls
        .resolve(wait.token().expose(), "1")
        .await
        .expect("resolves");
    assert_eq!(answer(&wait).await, "1");
}

/// Each stream lives for 200 ms. Answers are given in the gaps: after a cut and before the next attach.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c02_an_answer_given_in_a_gap_is_delivered_on_the_next_attach() {
    let server = TestServer::start_with(Kind::Sqlite, |_| ()).await;
    let policy = Policy {
        lifetime: Some(ms(200)),
        ..Policy::default()
    };
    let proxy = H2Proxy::start(server.addr, policy).await;
    let calls = server.calls().await;
    // The gaps are long enough to be met: the first delay is up to a second.
    let settings = Settings::new().backoff(abeyance::client::Backoff {
        base: Duration::from_secs(1),
        cap: Duration::from_secs(1),
    });
    let client = settings.connect(&proxy.url()).expect("a URL");
    let mut in_a_gap = 0;
    for round in 0..4 {
        let wait = client.wait("c02", OpenOptions::new()).await.expect("opens");
        let mut progress = wait.progress();
        soon("a cut", progress.wait_for(|p| !p.attached))
            .await
            .expect("the wait is followed");
        calls
            .resolve(wait.token().expose(), &round.to_string())
            .await
            .expect("resolves");
        in_a_gap += usize::from(!wait.progress().borrow().attached);
        assert_eq!(answer(&wait).await, round.to_string());
        let reattached = wait.progress().borrow().reattached;
        assert!(reattached >= 1, "the cut is not counted");
    }
    assert!(in_a_gap > 0, "no answer was given in a gap");
    assert_eq!(proxy.streams("/Wait"), 4, "something was asked again");
}

/// Nothing is closed or refused, and what the client sends arrives: only silence tells, and the frozen connection would swallow the next
/// stream as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c06_a_frozen_direction_is_noticed_by_its_silence_and_left_for_a_new_connection() {
    let alive_interval = ms(400);
    let server =
        TestServer::start_with(Kind::Memory, |c| c.grpc.alive_interval = alive_interval).await;
    let proxy = TcpProxy::start(server.addr).await;
    let settings = Settings::new().attempt_timeout(ms(500));
    let client = settings.connect(&proxy.url()).expect("a URL");
    let wait = client.wait("c06", OpenOptions::new()).await.expect("opens");
    client.describe(wait.token()).await.expect("described");

    let frozen = proxy.accepted();
    assert_eq!(frozen, 2, "one connection for waits, one for calls");
    proxy.set(Mode::FreezeOldReplies(frozen));
    let begun = Instant::now();
    // This goes the frozen way too, and is recorded all the same: its repeat on another connection says so.
    let settled = soon("the resolve", client.resolve(wait.token(), "1")).await;
    assert!(settled.expect("resolved").replayed);
    assert_eq!(answer(&wait).await, "1");
    let margin = Duration::from_secs(2);
    assert!(begun.elapsed() < 2 * alive_interval + margin);
    assert_eq!(proxy.accepted(), frozen + 2);
}

/// The whole way through `wait_for_external_event`: many cuts, and still one ask and one answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c02_cuts_bring_no_second_ask() {
    let server = TestServer::start().await;
    let policy = Policy {
        lifetime: Some(ms(100)),
        ..Policy::default()
    };
    let proxy = H2Proxy::start(server.addr, policy).await;
    let calls = server.calls().await;
    let asks = std::sync::atomic::AtomicUsize::new(0);
    let client = client(&proxy.url());
    let answer = client.wait_for_external_event(
        "c02",
        async |ticket: abeyance::client::Ticket| {
            asks.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let token = ticket.token.expose().to_owned();
            let calls = calls.clone();
            let resets = proxy.resets();
            let streams = || proxy.resets() >= resets + 4;
            eventually("four cuts", async || streams()).await;
            calls.resolve(&token, "\"once\"").await.expect("resolves");
            Ok::<_, std::io::Error>(abeyance::client::Ask::HandedOn)
        },
        OpenOptions::new(),
    );
    let answer = soon("the answer", answer).await.expect("an answer");
    assert_eq!(answer, "\"once\"");
    assert_eq!(asks.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c03_a_reset_with_cancel_is_a_lost_connection_and_no_withdrawal() {
    let server = TestServer::start().await;
    let proxy = H2Proxy::start(server.addr, Policy::default()).await;
    let calls = server.calls().await;
    let wait = client(&proxy.url())
        .wait("c03", OpenOptions::new())
        .await
        .expect("opens");
    let bare = Calls::connect(&proxy.url()).await;
    let mut bare = bare.wait(spec("c03")).await.expect("opens");
    let token = bare.token().to_owned();

    proxy.reset_streams(Reason::CANCEL);
    let (last, end) = bare.last().await;
    assert!(last.is_none() && end.is_err(), "{last:?} {end:?}");
    let mut progress = wait.progress();
    soon(
        "it attaches again",
        progress.wait_for(|p| p.reattached == 1),
    )
    .await
    .expect("the wait is followed");
    for token in [wait.token().expose(), &token] {
        assert_eq!(calls.state(token).await, State::Pending);
        let settled = calls.resolve(token, "true").await.expect("resolves");
        assert!(!settled.replayed);
    }
    assert_eq!(answer(&wait).await, "true");
    let mut again = calls.attach(&token).await.expect("attaches");
    assert_eq!(again.answer().await, "true");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c23_a_reset_with_no_error_before_the_answer_is_no_answer() {
    let server = TestServer::start().await;
    let proxy = H2Proxy::start(server.addr, Policy::default()).await;
    let calls = server.calls().await;
    let wait = client(&proxy.url())
        .wait("c23", OpenOptions::new())
        .await
        .expect("opens");
    for cut in 1..=3 {
        proxy.reset_streams(Reason::NO_ERROR);
        let mut progress = wait.progress();
        soon(
            "it attaches again",
            progress.wait_for(|p| p.reattached == cut),
        )
        .await
        .expect("the wait is followed");
        assert!(timeout(ms(20), wait.outcome()).await.is_err());
    }
    calls
        .resolve(wait.token().expose(), "null")
        .await
        .expect("resolves");
    assert_eq!(answer(&wait).await, "null");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c23_a_reset_with_no_error_behind_the_answer_takes_nothing_away() {
    let server = TestServer::start().await;
    let policy = Policy {
        trailers: Trailers::Reset(ms(300)),
        ..Policy::default()
    };
    let proxy = H2Proxy::start(server.addr, policy).await;
    let calls = server.calls().await;
    let wait = client(&proxy.url())
        .wait("c23", OpenOptions::new())
        .await
        .expect("opens");
    let bare = Calls::connect(&proxy.url()).await;
    let mut bare = bare.wait(spec("c23")).await.expect("opens");
    for token in [wait.token().expose(), bare.token()] {
        calls.resolve(token, "17").await.expect("resolves");
    }
    assert_eq!(answer(&wait).await, "17");
    let Ok(Some(Event::Outcome(outcome))) = bare.event().await else {
        panic!("no outcome");
    };
    assert_eq!(payload(&outcome), "17");
    assert!(bare.event().await.is_err(), "the trailers came through");
    assert_eq!(proxy.resets(), 2);
    assert_eq!(
        proxy.streams("/Attach"),
        0,
        "it attached again though it had the answer"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c26_a_resolve_that_a_proxy_sends_three_times_decides_once() {
    let server = TestServer::start_with(Kind::Sqlite, |_| ()).await;
    let policy = Policy {
        resend: Some(Resend {
            path: "/Resolve",
            copies: 3,
            pause: ms(25),
        }),
        ..Policy::default()
    };
    let proxy = H2Proxy::start(server.addr, policy).await;
    let calls = server.calls().await;
    let mut wait = calls.wait(spec("c26")).await.expect("opens");
    let resolver = Calls::connect(&proxy.url()).await;
    let last = soon("resolve", resolver.resolve(wait.token(), r#"{"ok":1}"#)).await;
    let last = last.expect("the last copy is OK");
    assert!(last.replayed, "the third copy is a repeat");

    let mut replies = Vec::new();
    for reply in proxy.discarded() {
        assert_eq!(reply.status().code(), tonic::Code::Ok);
        let message = reply.body.slice(5..);
        replies.push(prost::Message::decode(message).expect("a response"));
    }
    let replies: Vec<abeyance::proto::v1::ResolveResponse> = replies;
    assert_eq!(
        replies.iter().map(|r| r.replayed).collect::<Vec<_>>(),
        [false, true]
    );
    for reply in &replies {
        assert_eq!(reply.wait_id, last.wait_id);
        assert_eq!(reply.settle_time, last.settle_time);
    }
    assert_eq!(wait.answer().await, r#"{"ok":1}"#);
    let token = wait.token().to_owned();
    let record = calls.describe(&token).await.expect("is there");
    assert_eq!(record.settle_time, last.settle_time);
}

/// A connection that dies under everything it carries, again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_lives_through_the_death_of_its_connections() {
    let server = TestServer::start().await;
    let proxy = TcpProxy::cutting_after(server.addr, ms(150)).await;
    let client = client(&proxy.url());
    let calls = server.calls().await;
    let mut waits = Vec::new();
    for _ in 0..20 {
        waits.push(client.wait("cut", OpenOptions::new()).await.expect("opens"));
    }
    let accepted = proxy.accepted();
    eventually("more cuts", async || proxy.accepted() >= accepted + 3).await;
    for (n, wait) in waits.iter().enumerate() {
        calls
            .resolve(wait.token().expose(), &n.to_string())
            .await
            .expect("resolves");
        sleep(ms(5)).await;
    }
    for (n, wait) in waits.iter().enumerate() {
        assert_eq!(answer(wait).await, n.to_string());
    }
}
