//! How connections end: peers that never speak, that stop reading, that do not answer, that grow old; and peers that flood.

use std::time::Instant;

use abeyance::proto::v1::{
    AttachRequest, AttachResponse, attach_request::Target, wait_event::Event,
};
use tokio::{io::AsyncReadExt as _, net::TcpStream};

use super::{
    server_frames::{
        CONTINUATION, DATA, END_HEADERS, Frames, GOAWAY, HEADERS, PING, RST_STREAM, frame, headers,
    },
    server_harness::{Clients, MS, Running, framed, soon, wait_request, with_connections},
};

const WAIT: &str = "/abeyance.v1.WaitService/Wait";
const ATTACH: &str = "/abeyance.v1.WaitService/Attach";

fn attach(token: &str) -> AttachRequest {
    AttachRequest {
        target: Some(Target::Token(token.to_owned())),
    }
}

/// Attaches by a stock client and waits for the outcome.
async fn outcome(clients: &mut Clients, token: &str) -> String {
    let attached = soon("an attach", clients.wait.attach(attach(token))).await;
    let mut stream = attached.expect("attached").into_inner();
    loop {
        let next = soon("an event", stream.message()).await.expect("an event");
        let AttachResponse { event } = next.expect("no end without an outcome");
        if let Some(Event::Outcome(outcome)) = event.and_then(|e| e.event) {
            return format!("{:?}", outcome.result);
        }
    }
}

#[tokio::test]
async fn c69a_a_peer_that_never_speaks_is_dropped() {
    let server = Running::start(with_connections(|c| c.handshake_timeout = 200 * MS)).await;
    for preface in ["", "PRI * HTTP/2.0\r\n"] {
        let mut socket = TcpStream::connect(server.address)
            .await
            .expect("a connection");
        tokio::io::AsyncWriteExt::write_all(&mut socket, preface.as_bytes())
            .await
            .expect("written");
        let mut rest = Vec::new();
        // Either way of closing is one; the settings may come before.
        let _ = soon("the end of the connection", socket.read_to_end(&mut rest)).await;
    }
    // One that speaks stays longer than that.
    let mut frames = Frames::connect(server.address, 65_535).await;
    let stream = frames.call(WAIT, &framed(&wait_request())).await;
    frames.until_data(stream, "abey_").await;
    tokio::time::sleep(500 * MS).await;
    frames.call(WAIT, &framed(&wait_request())).await;
    frames.until_data(stream + 2, "abey_").await;
    // What this client still holds would be waited for.
    drop(frames);
    server.stop().await;
}

#[tokio::test]
async fn c24_a_stream_that_is_never_read_takes_its_connection_down_and_nothing_else() {
    let server = Running::start(with_connections(|c| c.stall_timeout = 1000 * MS)).await;
    let mut clients = server.clients().await;
    let mut others = server.clients().await;
    let held = others.open().await;
    let mut held_stream = others
        .wait
        .attach(attach(&held))
        .await
        .expect("attached")
        .into_inner();
    assert!(
        soon("an event", held_stream.message())
            .await
            .expect("opened")
            .is_some()
    );

    let mut frames = Frames::connect(server.address, 0).await;
    let stuck_token = clients.open().await;
    let stuck = frames.call(ATTACH, &framed(&attach(&stuck_token))).await;
    let mut delivered = Vec::new();
    for _ in 0..100 {
        let token = clients.open().await;
        let stream = frames.call(ATTACH, &framed(&attach(&token))).await;
        frames.grant(stream, 65_535).await;
        delivered.push((token, stream));
    }
    clients.resolve(&stuck_token, r#""kept""#.to_owned()).await;
    for (n, (token, stream)) in delivered.iter().enumerate() {
        clients.resolve(token, format!(r#""answer {n}.""#)).await;
        frames.until_data(*stream, &format!("answer {n}.")).await;
    }
    assert!(!frames.data.contains_key(&stuck));

    // It answers PINGs and all else is well; still it is cut, for the one stream that it does not read.
    frames.until_closed().await;
    assert!(outcome(&mut clients, &stuck_token).await.contains("kept"));
    clients.resolve(&held, "1".to_owned()).await;
    assert!(
        soon("an event", held_stream.message())
            .await
            .expect("an outcome")
            .is_some()
    );
    // What this client still holds would be waited for.
    drop(frames);
    server.stop().await;
}

#[tokio::test]
async fn c24_a_window_too_small_for_the_outcome_is_noticed_too() {
    let server = Running::start(with_connections(|c| c.stall_timeout = 500 * MS)).await;
    let mut clients = server.clients().await;
    let token = clients.open().await;
    // Room for the first event, and for a little of the outcome: the rest lies in h2, where hyper has forgotten it.
    let mut frames = Frames::connect(server.address, 400).await;
    let stream = frames.call(ATTACH, &framed(&attach(&token))).await;
    frames.until_data(stream, "abey_").await;
    clients
        .resolve(&token, format!(r#""kept{}""#, "x".repeat(100_000)))
        .await;
    frames.until_data(stream, "kept").await;
    frames.until_closed().await;
    assert!(outcome(&mut clients, &token).await.contains("kept"));
    // What this client still holds would be waited for.
    drop(frames);
    server.stop().await;
}

#[tokio::test]
async fn a_peer_that_reads_slowly_is_left_alone() {
    let server = Running::start(with_connections(|c| c.stall_timeout = 500 * MS)).await;
    let mut clients = server.clients().await;
    let token = clients.open().await;
    let mut frames = Frames::connect(server.address, 400).await;
    let stream = frames.call(ATTACH, &framed(&attach(&token))).await;
    frames.until_data(stream, "abey_").await;
    let payload = format!(r#""{}done""#, "x".repeat(30_000));
    clients.resolve(&token, payload).await;
    // Thirty grants, a tenth of a second apart: six times as long as a peer may stand still.
    for _ in 0..31 {
        frames.grant(stream, 1000).await;
        tokio::time::sleep(100 * MS).await;
    }
    frames.until_data(stream, "done").await;
    // What this client still holds would be waited for.
    drop(frames);
    server.stop().await;
}

#[tokio::test]
async fn a_peer_that_does_not_read_its_socket_is_cut() {
    let server = Running::start(with_connections(|c| {
        c.stall_timeout = 500 * MS;
        // So that it is not this which cuts it.
        c.keepalive_interval = None;
    }))
    .await;
    let mut clients = server.clients().await;
    let mut frames = Frames::connect(server.address, 1 << 30).await;
    // More than the socket's buffers take, and none of it is read.
    for _ in 0..40 {
        let token = clients.open().await;
        clients
            .resolve(&token, format!(r#""{}""#, "x".repeat(1_000_000)))
            .await;
        // On a slow machine it may be cut before it has called for all.
        let called = frames.try_call(ATTACH, &framed(&attach(&token))).await;
        if called.is_err() {
            break;
        }
    }
    frames.until_refused().await;
    // What this client still holds would be waited for.
    drop(frames);
    server.stop().await;
}

#[tokio::test]
async fn c07_a_peer_that_does_not_answer_pings_is_gone_after_interval_and_timeout() {
    let server = Running::start(with_connections(|c| {
        c.keepalive_interval = Some(300 * MS);
        c.keepalive_timeout = 300 * MS;
    }))
    .await;
    let mut frames = Frames::connect(server.address, 65_535).await;
    let stream = frames.call(WAIT, &framed(&wait_request())).await;
    frames.until_data(stream, "abey_").await;
    frames.until("a PING", PING).await;
    frames.until("another, since it was answered", PING).await;
    frames.polite = false;
    let silent = Instant::now();
    frames.until_closed().await;
    assert!(silent.elapsed() >= 250 * MS, "{:?}", silent.elapsed());

    let mut clients = server.clients().await;
    let waits = clients
        .inbox
        .list_waits(abeyance::proto::v1::ListWaitsRequest::default());
    let waits = soon("a list", waits)
        .await
        .expect("a list")
        .into_inner()
        .waits;
    assert_eq!(waits.len(), 1, "the wait is unharmed");
    // What this client still holds would be waited for.
    drop(frames);
    server.stop().await;
}

#[tokio::test]
async fn c09_an_old_connection_is_told_to_go_and_its_streams_before_the_cut() {
    let server = Running::start(with_connections(|c| {
        c.age = Some(1000 * MS);
        c.age_grace = 4000 * MS;
    }))
    .await;
    let start = Instant::now();
    let mut frames = Frames::connect(server.address, 65_535).await;
    frames.polite = false;
    let stream = frames.call(WAIT, &framed(&wait_request())).await;
    frames.until_data(stream, "abey_").await;

    let goaway = frames.until("a GOAWAY", GOAWAY).await;
    let told = start.elapsed();
    assert!(told >= 800 * MS, "{told:?}");
    assert_eq!(goaway.payload[4..8], [0; 4], "NO_ERROR");
    // The stream says goodbye (`detached`), and ends with a status.
    let data = frames.until("the last event", DATA).await;
    let event: abeyance::proto::v1::WaitResponse = super::server_harness::unframed(&data.payload);
    let event = event.event.and_then(|e| e.event);
    assert!(matches!(event, Some(Event::Detached(_))), "{event:?}");
    frames.until("trailers", HEADERS).await;
    // This peer does not acknowledge, so it is cut after the grace time and not before.
    frames.until_closed().await;
    assert!(start.elapsed() - told >= 3800 * MS, "{:?}", start.elapsed());
    // What this client still holds would be waited for.
    drop(frames);
    server.stop().await;
}

/// Calls that are given up as soon as they are made: so short that the server reads all of them at once.
fn given_up(first: u32, count: u32) -> Vec<u8> {
    // POST, http and `/` from the static table of RFC 7541, and an authority of one letter.
    let block = [0x83, 0x86, 0x84, 0x01, 1, b'a'];
    let cancel = 8_u32.to_be_bytes();
    let streams = (0..count).map(|n| first + 2 * n);
    streams
        .flat_map(|stream| {
            [
                frame(HEADERS, END_HEADERS, stream, &block),
                frame(RST_STREAM, 0, stream, &cancel),
            ]
        })
        .flatten()
        .collect()
}

#[tokio::test]
async fn p3_opens_that_were_given_up_do_not_kill_the_waits_of_their_connection() {
    let server = Running::start(with_connections(|_| ())).await;
    let mut frames = Frames::connect(server.address, 65_535).await;
    let held = frames.call(WAIT, &framed(&wait_request())).await;
    frames.until_data(held, "abey_").await;
    // As a client sends them whose opens timed out behind a stream limit: all at once, before the server looks.
    frames.write_raw(&given_up(held + 2, 900)).await;
    frames.skip_streams(900);
    // The connection lives: it takes another call, and the wait that it holds is still delivered to.
    let next = frames.call(WAIT, &framed(&wait_request())).await;
    frames.until_data(next, "abey_").await;
    let token = frames.token(held);
    let mut clients = server.clients().await;
    clients.resolve(&token, r#""delivered""#.to_owned()).await;
    frames.until_data(held, "delivered").await;
    // What this client still holds would be waited for.
    drop(frames);
    server.stop().await;
}

#[tokio::test]
async fn c21a_a_flood_of_resets_ends_its_connection_and_no_other() {
    let server = Running::start(with_connections(|_| ())).await;
    let mut clients = server.clients().await;
    let token = clients.open().await;
    let attached = clients.wait.attach(attach(&token)).await.expect("attached");
    let mut stream = attached.into_inner();
    assert!(
        soon("an event", stream.message())
            .await
            .expect("opened")
            .is_some()
    );

    let mut frames = Frames::connect(server.address, 65_535).await;
    frames.write_raw(&given_up(1, 10_000)).await;
    let kinds = frames.until_closed().await;
    assert!(kinds.contains(&GOAWAY), "{kinds:?}");
    let mut other = server.clients().await;
    other.resolve(&token, "1".to_owned()).await;
    assert!(
        soon("an event", stream.message())
            .await
            .expect("an outcome")
            .is_some()
    );
    // What this client still holds would be waited for.
    drop(frames);
    server.stop().await;
}

#[tokio::test]
async fn c22_headers_without_end_and_headers_without_measure_are_refused() {
    let server = Running::start(with_connections(|_| ())).await;
    let mut frames = Frames::connect(server.address, 65_535).await;
    let block = headers(WAIT, &[]);
    frames.write(HEADERS, 0, 1, &block).await.expect("written");
    for _ in 0..1000 {
        if frames.write(CONTINUATION, 0, 1, &block).await.is_err() {
            break;
        }
    }
    frames.until_closed().await;

    // One call with too many headers is refused, and the connection goes on.
    let mut frames = Frames::connect(server.address, 65_535).await;
    let large = "x".repeat(8_500);
    let block = headers(WAIT, &[("a", &large), ("b", &large)]);
    let (first, rest) = block.split_at(16_000);
    frames.write(HEADERS, 0, 1, first).await.expect("written");
    frames
        .write(CONTINUATION, END_HEADERS, 1, rest)
        .await
        .expect("written");
    frames.skip_streams(1);
    let refused = frames.until("an answer", HEADERS).await;
    assert_eq!(refused.stream, 1);
    let next = frames.call(WAIT, &framed(&wait_request())).await;
    frames.until_data(next, "abey_").await;
    // What this client still holds would be waited for.
    drop(frames);
    server.stop().await;
}

#[tokio::test]
async fn c21b_an_honest_worker_may_give_up_a_thousand_waits_at_once() {
    let server = Running::start(with_connections(|_| ())).await;
    let mut frames = Frames::connect(server.address, 65_535).await;
    let held = frames.call(WAIT, &framed(&wait_request())).await;
    let streams = {
        let mut streams = Vec::new();
        for _ in 0..1000 {
            streams.push(frames.call(WAIT, &framed(&wait_request())).await);
        }
        streams
    };
    for stream in &streams {
        frames.until_data(*stream, "abey_").await;
    }
    for stream in streams {
        let cancel = 8_u32.to_be_bytes();
        let reset = frames.write(RST_STREAM, 0, stream, &cancel).await;
        reset.expect("written");
    }
    let token = frames.token(held);
    let mut clients = server.clients().await;
    clients.resolve(&token, r#""delivered""#.to_owned()).await;
    frames.until_data(held, "delivered").await;
    // What this client still holds would be waited for.
    drop(frames);
    server.stop().await;
}
