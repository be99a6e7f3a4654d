//! What becomes of `grpc-timeout`, sent as no stock client would (C13, C14), and what the broker says to requests that it cannot
//! read.

use std::time::{Duration, Instant};

use abeyance::proto::v1::{
    DescribeWaitRequest, ListWaitsRequest, WaitResponse, inbox_service_client::InboxServiceClient,
    wait_event::Event,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request};
use prost::Message as _;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::server_harness::{
    MS, PATIENCE, Running, answer, config, framed, soon, unframed, wait_request,
};

const WAIT: &str = "/abeyance.v1.WaitService/Wait";
const RESOLVE: &str = "/abeyance.v1.ResolveService/Resolve";

/// A connection by h2, which sends whatever headers it is given.
struct Raw(h2::client::SendRequest<Bytes>);

/// All that came back of a call.
struct Reply {
    head: HeaderMap,
    data: Vec<u8>,
    trailers: Option<HeaderMap>,
}

impl Reply {
    fn status(&self) -> Status {
        let status = Status::from_header_map(self.trailers.as_ref().unwrap_or(&self.head));
        status.expect("a status")
    }

    fn reason(&self) -> String {
        let details = self.status().get_error_details();
        details.error_info().expect("ErrorInfo").reason.clone()
    }
}

impl Raw {
    async fn connect(server: &Running) -> Self {
        let socket = tokio::net::TcpStream::connect(server.address).await;
        let handshake = h2::client::handshake(socket.expect("a connection")).await;
        let (send, connection) = handshake.expect("HTTP/2");
        // Ends with the server.
        tokio::spawn(connection);
        Self(send)
    }

    async fn call(&mut self, path: &str, timeouts: &[&[u8]], body: Bytes) -> Reply {
        let mut request = Request::post(format!("http://localhost{path}"))
            .header("content-type", "application/grpc")
            .body(())
            .expect("a request");
        for timeout in timeouts {
            let value = HeaderValue::from_bytes(timeout).expect("a value");
            request.headers_mut().append("grpc-timeout", value);
        }
        soon("a reply", async {
            let mut ready = self.0.clone().ready().await.expect("a connection");
            let (response, mut send) = ready.send_request(request, false).expect("sent");
            // Refused before it is read, a body may have nowhere to go.
            let _ = send.send_data(body, true);
            let (head, mut body) = response.await.expect("a head").into_parts();
            let mut data = Vec::new();
            while let Some(chunk) = body.data().await {
                let chunk = chunk.expect("data");
                let _ = body.flow_control().release_capacity(chunk.len());
                data.extend(chunk);
            }
            let trailers = body.trailers().await.expect("trailers");
            Reply {
                head: head.headers,
                data,
                trailers,
            }
        })
        .await
    }
}

async fn waits(server: &Running) -> usize {
    let mut inbox = InboxServiceClient::new(server.channel().await);
    let list = soon("a list", inbox.list_waits(ListWaitsRequest::default())).await;
    list.expect("a list").into_inner().waits.len()
}

#[tokio::test]
async fn c13_no_time_at_all_is_over_at_once_and_opens_nothing() {
    let server = Running::start(config()).await;
    let token = server.clients().await.open().await;
    let mut raw = Raw::connect(&server).await;
    for timeout in ["0S", "0n", "00000000H", "1n"] {
        for (path, body) in [
            (WAIT, framed(&wait_request())),
            (RESOLVE, framed(&answer(&token, "1".to_owned()))),
        ] {
            let reply = raw.call(path, &[timeout.as_bytes()], body).await;
            let status = reply.status();
            assert_eq!(status.code(), Code::DeadlineExceeded, "{path} {timeout}");
            assert_eq!(reply.reason(), "DEADLINE_EXCEEDED");
            assert!(reply.trailers.is_none() && reply.data.is_empty());
        }
    }
    assert_eq!(
        waits(&server).await,
        1,
        "only the one that was opened before"
    );
    let mut clients = server.clients().await;
    let described = clients.resolve.describe_wait(DescribeWaitRequest { token });
    let wait = described.await.expect("a wait").into_inner().wait;
    assert!(wait.expect("a wait").outcome.is_none());
    server.stop().await;
}

#[tokio::test]
async fn c14_a_malformed_deadline_never_means_no_limit() {
    let server = Running::start(config()).await;
    let token = server.clients().await.open().await;
    let mut raw = Raw::connect(&server).await;
    let tables: [&[&[u8]]; 15] = [
        &[b"Infinitym"],
        &[b"123456789S"],
        &[b"-5S"],
        &[b"+5S"],
        &[b"5"],
        &[b"S"],
        &[b"\t5S"],
        &[b"5s"],
        &[b"1.5S"],
        &[b""],
        &[b"5S", b"5S"],
        &[b"5S", b"6S"],
        &[b"5S,6S"],
        &[b"\xff5S"],
        &["５S".as_bytes()],
    ];
    for timeouts in tables {
        for (path, body) in [
            (WAIT, framed(&wait_request())),
            (RESOLVE, framed(&answer(&token, "1".to_owned()))),
        ] {
            let reply = raw.call(path, timeouts, body).await;
            let status = reply.status();
            assert_eq!(status.code(), Code::InvalidArgument, "{path} {timeouts:?}");
            assert!(status.message().contains("grpc-timeout"), "{status:?}");
            assert_eq!(reply.reason(), "INVALID_DEADLINE");
        }
    }
    assert_eq!(
        waits(&server).await,
        1,
        "only the one that was opened before"
    );
    // The same connection still serves.
    let body = framed(&answer(&token, "1".to_owned()));
    let reply = raw.call(RESOLVE, &[b"30S"], body).await;
    assert_eq!(reply.status().code(), Code::Ok);
    server.stop().await;
}

#[tokio::test]
async fn c14_the_longest_deadline_is_cut_to_the_documented_maximum() {
    let mut config = config();
    config.broker.limits.max_timeout = 500 * MS;
    let server = Running::start(config).await;
    let mut raw = Raw::connect(&server).await;
    let mut request = wait_request();
    // Then the deadline is the wait's timeout.
    request.spec.as_mut().expect("a spec").expiry = None;
    let reply = raw.call(WAIT, &[b"99999999H"], framed(&request)).await;
    assert_eq!(reply.status().code(), Code::Ok);
    let length = 5 + u32::from_be_bytes(reply.data[1..5].try_into().expect("four")) as usize;
    let opened: WaitResponse = unframed(&reply.data[..length]);
    let Some(Event::Opened(opened)) = opened.event.and_then(|e| e.event) else {
        panic!("no `opened` first");
    };
    let timeout = opened.timeout.expect("a timeout");
    assert_eq!((timeout.seconds, timeout.nanos), (0, 500_000_000));
    let outcome: WaitResponse = unframed(&reply.data[length..]);
    let outcome = outcome.event.and_then(|e| e.event);
    assert!(matches!(outcome, Some(Event::Outcome(_))), "{outcome:?}");
    server.stop().await;
}

#[tokio::test]
async fn c15_a_deadline_bounds_the_stream_or_is_the_waits_timeout() {
    let server = Running::start(config()).await;
    let mut raw = Raw::connect(&server).await;
    let start = Instant::now();
    let reply = raw.call(WAIT, &[b"700m"], framed(&wait_request())).await;
    assert!((700 * MS..PATIENCE).contains(&start.elapsed()));
    assert_eq!(reply.status().code(), Code::DeadlineExceeded);
    assert_eq!(reply.reason(), "DEADLINE_EXCEEDED");
    let token = String::from_utf8_lossy(&reply.data).into_owned();
    let token = &token[token.find("abey_").expect("a token")..][..49];
    server.clients().await.resolve(token, "1".to_owned()).await;

    let mut request = wait_request();
    request.spec.as_mut().expect("a spec").expiry = None;
    let start = Instant::now();
    let reply = raw.call(WAIT, &[b"2S"], framed(&request)).await;
    assert!(
        start.elapsed() >= Duration::from_millis(1700),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(reply.status().code(), Code::Ok);
    let reason = b"No resolution arrived within";
    assert!(reply.data.windows(reason.len()).any(|w| w == reason));
    server.stop().await;
}

#[tokio::test]
async fn what_the_broker_cannot_read_is_the_callers_to_mend() {
    let mut config = config();
    config.broker.limits.payload_bytes = 1000;
    let server = Running::start(config).await;
    let mut raw = Raw::connect(&server).await;
    let too_large = framed(&answer("x", "x".repeat(1 << 20)));
    let not_utf8 = Bytes::from_static(&[0, 0, 0, 0, 3, 0x0a, 1, 0xff]);
    for (what, body) in [
        ("too large", too_large),
        ("not a message", Bytes::from_static(&[0, 0, 0, 0, 1, 0xff])),
        ("not UTF-8", not_utf8),
        ("cut off", Bytes::from_static(&[0, 0, 0, 0, 9, 1])),
        ("nothing", Bytes::new()),
        ("wrongly framed", Bytes::from_static(&[7, 0, 0, 0, 0])),
        (
            "compressed by nothing",
            Bytes::from_static(&[1, 0, 0, 0, 0]),
        ),
    ] {
        for path in [RESOLVE, WAIT] {
            let reply = raw.call(path, &[], body.clone()).await;
            let status = reply.status();
            assert_eq!(status.code(), Code::InvalidArgument, "{what}: {status:?}");
            assert_eq!(reply.reason(), "MALFORMED_REQUEST", "{what}");
            assert!(!status.message().contains("xxx"), "{what}");
        }
    }
    for path in ["/abeyance.v1.WaitService/Nothing", "/nothing/at/all"] {
        let reply = raw.call(path, &[], Bytes::new()).await;
        assert_eq!(reply.status().code(), Code::Unimplemented, "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn health_and_reflection_answer_on_the_same_port() {
    let server = Running::start(config()).await;
    let mut raw = Raw::connect(&server).await;
    for service in ["", "abeyance.v1.WaitService", "abeyance.v1.InboxService"] {
        let request = tonic_health::pb::HealthCheckRequest {
            service: service.to_owned(),
        };
        let reply = raw
            .call("/grpc.health.v1.Health/Check", &[], framed(&request))
            .await;
        let health: tonic_health::pb::HealthCheckResponse = unframed(&reply.data);
        assert_eq!(health.status, 1, "SERVING: {service:?}");
    }
    for version in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        // `list_services`, the same in both.
        let list = tonic_reflection::pb::v1::ServerReflectionRequest {
            message_request: Some(
                tonic_reflection::pb::v1::server_reflection_request::MessageRequest::ListServices(
                    String::new(),
                ),
            ),
            ..Default::default()
        };
        let reply = raw.call(&path, &[], framed(&list)).await;
        let text = String::from_utf8_lossy(&reply.data).into_owned();
        for service in ["abeyance.v1.ResolveService", "grpc.health.v1.Health"] {
            assert!(text.contains(service), "{version}: {text}");
        }
    }
    server.stop().await;
}

#[test]
fn the_harness_frames_as_grpc_does() {
    let request = DescribeWaitRequest {
        token: "t".to_owned(),
    };
    let bytes = framed(&request);
    assert_eq!(bytes[..5], [0, 0, 0, 0, request.encoded_len() as u8]);
    assert_eq!(unframed::<DescribeWaitRequest>(&bytes), request);
}
