//! Clients as they come in the wild: that half-close late, say nothing, or leave in the middle.

use abeyance::proto::v1::{
    self, attach_request::Target, resolve_request::Answer, wait::State, wait_event::Event,
};
use tokio::time::{Duration, Instant};
use tonic::Code;

use crate::harness::{
    Kind, TestServer, code_and_reason, eventually, ms, payload,
    raw::{OPEN, RESOLVE, RawCall, RawClient, WAIT},
    spec, spec_with_key,
};

fn wait_request(spec: v1::WaitSpec) -> v1::WaitRequest {
    v1::WaitRequest {
        spec: Some(spec),
        request_id: String::new(),
    }
}

fn resolve_request(token: &str, json: &str) -> v1::ResolveRequest {
    v1::ResolveRequest {
        token: token.to_owned(),
        answer: Some(Answer::PayloadJson(json.to_owned())),
        request_id: String::new(),
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_half_closes_late_is_served() {
    let server = TestServer::start().await;
    let calls = server.calls().await;
    let client = RawClient::connect(server.addr).await;
    let mut wait = client.begin(WAIT, &[]).await;
    wait.send(&wait_request(spec("late")), false);
    // Meanwhile the connection is as good as any.
    let open = v1::OpenWaitRequest {
        spec: Some(spec("beside")),
        request_id: String::new(),
    };
    let end = client.end_of(OPEN, &open).await;
    assert_eq!(end.status.code(), Code::Ok, "{}", end.status);
    wait.finish();
    let mut response = wait.response().await;
    let mut next = async || {
        let message = response.message::<v1::WaitResponse>().await.expect("data");
        message.and_then(|m| m.event).and_then(|e| e.event)
    };
    let Some(Event::Opened(opened)) = next().await else {
        panic!("not opened");
    };
    calls.resolve(&opened.token, "1").await.expect("resolves");
    let Some(Event::Outcome(outcome)) = next().await else {
        panic!("no outcome");
    };
    assert_eq!(payload(&outcome), "1");
    assert_eq!(response.end().await.status.code(), Code::Ok);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_without_messages_hold_nothing_up() {
    let server = TestServer::start_with(Kind::Memory, |c| c.drain_timeout = ms(500)).await;
    let client = RawClient::connect(server.addr).await;
    let mut silent: Vec<RawCall> = Vec::new();
    for path in [WAIT, RESOLVE] {
        for _ in 0..100 {
            silent.push(client.begin(path, &[]).await);
        }
    }
    // One of them has a deadline, which is kept though nothing came.
    let bounded = client.begin(WAIT, &[("grpc-timeout", "100m")]).await;
    let end = bounded.response().await.end().await;
    assert_eq!(
        code_and_reason(&end.status),
        (Code::DeadlineExceeded, "DEADLINE_EXCEEDED".to_owned())
    );
    let open = v1::OpenWaitRequest {
        spec: Some(spec("beside")),
        request_id: String::new(),
    };
    let end = client.end_of(OPEN, &open).await;
    assert_eq!(end.status.code(), Code::Ok);
    // Those that are given up are gone, and the rest does not keep the broker from stopping.
    silent.truncate(100);
    let end = client.end_of(OPEN, &open).await;
    assert_eq!(end.status.code(), Code::Ok);
    let begun = Instant::now();
    server.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(5));
    drop(silent);
}

/// How a client leaves.
#[derive(Clone, Copy, Debug)]
enum Leave {
    /// It resets the call; the connection stays.
    Reset,
    /// Its socket closes.
    Close,
}

fn leave(how: Leave, call: RawCall, client: RawClient) -> Option<RawClient> {
    match how {
        Leave::Reset => {
            drop(call);
            Some(client)
        }
        Leave::Close => {
            client.abort();
            None
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_whose_client_leaves_before_its_first_word_is_there_for_the_next() {
    for kind in Kind::BOTH {
        let server = TestServer::start_with(kind, |_| ()).await;
        let calls = server.calls().await;
        for (n, how) in [Leave::Reset, Leave::Close].into_iter().enumerate() {
            for committed in [false, true] {
                let key = format!("left-{n}-{committed}");
                if committed {
                    server.rig.hold_replies();
                } else {
                    server.rig.hold_writes();
                }
                let client = RawClient::connect(server.addr).await;
                let request = wait_request(spec_with_key("left", &key));
                let call = client.call(WAIT, &request).await;
                server.rig.until_held(1).await;
                let client = leave(how, call, client);
                server.rig.release();

                let there = async || calls.attach_by_key(&key).await.is_ok();
                eventually("the wait is there", there).await;
                let mut again = calls
                    .wait(spec_with_key("left", &key))
                    .await
                    .expect("opens");
                assert!(again.opened.resumed);
                assert_eq!(calls.state(again.token()).await, State::Pending);
                calls.resolve(again.token(), "1").await.expect("resolves");
                assert_eq!(again.answer().await, "1", "{how:?}, {committed}");
                assert!(client.is_none_or(|client| client.is_open()));
            }
        }
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resolve_whose_client_leaves_in_flight_is_whole_or_not_at_all() {
    for kind in Kind::BOTH {
        let server = TestServer::start_with(kind, |_| ()).await;
        let calls = server.calls().await;
        for how in [Leave::Reset, Leave::Close] {
            for committed in [false, true] {
                let mut wait = calls.wait(spec("in flight")).await.expect("opens");
                let token = wait.token().to_owned();
                if committed {
                    server.rig.hold_replies();
                } else {
                    server.rig.hold_writes();
                }
                let client = RawClient::connect(server.addr).await;
                let call = client.call(RESOLVE, &resolve_request(&token, "1")).await;
                server.rig.until_held(1).await;
                if committed {
                    // Decided, and so told, while its own caller still waits.
                    assert_eq!(wait.answer().await, "1");
                }
                let _client = leave(how, call, client);
                server.rig.release();
                if !committed {
                    assert_eq!(wait.answer().await, "1", "{how:?}: decided in silence");
                }
                let repeat = calls.resolve(&token, "1").await.expect("a repeat");
                assert!(repeat.replayed);
            }
        }
        server.stop().await;
    }
}

/// Two hundred at once, each gone after a moment of its own; the store takes 20 ms for each write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resolves_whose_clients_leave_at_any_moment_decide_nothing_in_silence() {
    let server = TestServer::start().await;
    let calls = server.calls().await;
    let mut waits = Vec::new();
    for _ in 0..200 {
        waits.push(calls.wait(spec("leave")).await.expect("opens"));
    }
    server.rig.slow(ms(20));
    let mut leavers = tokio::task::JoinSet::new();
    for (n, wait) in waits.iter().enumerate() {
        let (addr, token) = (server.addr, wait.token().to_owned());
        leavers.spawn(async move {
            let client = RawClient::connect(addr).await;
            let call = client.call(RESOLVE, &resolve_request(&token, "1")).await;
            // From before the write begins until after the reply.
            let moment = Duration::from_micros(u64::try_from(n).expect("small") * 150);
            let _ = tokio::time::timeout(moment, call.response()).await;
            if n.is_multiple_of(2) {
                client.abort();
            }
        });
    }
    while let Some(left) = leavers.join_next().await {
        left.expect("no panic");
    }
    server.rig.slow(Duration::ZERO);
    let mut decided = 0;
    for wait in &mut waits {
        let token = wait.token().to_owned();
        // Whoever was too early to be heard is pending, and then this settles it.
        let settled = calls.resolve(&token, "1").await.expect("resolves");
        decided += usize::from(settled.replayed);
        assert_eq!(wait.answer().await, "1", "decided in silence");
    }
    println!("{decided} of 200 were decided by callers that left");
    assert!(decided > 20, "the callers left too early to be a test");
}

/// The target of an attach may be missing altogether; nothing else happens to the connection.
#[tokio::test]
async fn an_attach_to_nothing_is_refused_and_the_connection_lives() {
    let server = TestServer::start().await;
    let calls = server.calls().await;
    for target in [None, Some(Target::Token(String::new()))] {
        let request = tonic::Request::new(v1::AttachRequest { target });
        let refused = calls.attach_request(request).await.err().expect("refused");
        assert!(matches!(
            refused.code(),
            Code::InvalidArgument | Code::NotFound
        ));
    }
    let token = calls.token(spec("after")).await;
    assert_eq!(calls.state(&token).await, State::Pending);
}
