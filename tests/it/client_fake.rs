//! A broker whose every frame the test decides: the client connects to it through memory, and each call it makes is handed to
//! the test, which plays the broker's part. So a stream can be reset, left silent or ended as no real broker would.

use std::{collections::HashMap, io, time::Duration};

use abeyance::{
    client::{Client, Settings},
    proto::v1::{self, wait_event::Event},
};
use bytes::{BufMut, Bytes, BytesMut};
use h2::{Reason, SendStream, server::SendResponse};
use http::{HeaderMap, HeaderValue, Response};
use prost::Message;
use tokio::{io::DuplexStream, sync::mpsc};
use tonic::{Code, Status, transport::Endpoint};
use tonic_types::{ErrorDetails, StatusExt};

/// The fake broker. Calls that no test asks for wait, as calls to a busy broker do.
pub struct Fake {
    calls: mpsc::UnboundedReceiver<Call>,
}

impl Fake {
    /// The fake, and a client of it with three connections.
    pub fn new(settings: Settings) -> (Self, Client) {
        let (sender, calls) = mpsc::unbounded_channel();
        let channel = || {
            let sender = sender.clone();
            let connect = tower::service_fn(move |_| {
                let (near, far) = tokio::io::duplex(1 << 16);
                tokio::spawn(serve(far, sender.clone()));
                std::future::ready(Ok::<_, io::Error>(hyper_util::rt::TokioIo::new(near)))
            });
            Endpoint::from_static("http://fake").connect_with_connector_lazy(connect)
        };
        let client = settings.with_channels(channel(), channel(), channel());
        (Self { calls }, client)
    }

    /// The next call, which must be of this rpc.
    pub async fn next(&mut self, rpc: &str) -> Call {
        let call = tokio::time::timeout(Duration::from_secs(3600), self.calls.recv())
            .await
            .unwrap_or_else(|_| panic!("no call at all, {rpc} was expected"))
            .expect("the client lives as long as the test");
        assert_eq!(call.rpc, rpc);
        call
    }

    /// Asserts that no call arrives for this long.
    pub async fn quiet_for(&mut self, time: Duration) {
        if let Ok(Some(call)) = tokio::time::timeout(time, self.calls.recv()).await {
            panic!("an unexpected {}", call.rpc);
        }
    }

    /// The next call, which must be an attach to [`TOKEN`]; answered with `opened`.
    pub async fn attached(&mut self) -> Stream {
        let call = self.next("Attach").await;
        let target = call.message::<v1::AttachRequest>().target;
        let token = v1::attach_request::Target::Token(TOKEN.to_owned());
        assert_eq!(target, Some(token));
        let mut stream = call.stream();
        stream.send(opened());
        stream
    }

    /// The next call, which must be a wait; answered with `opened`.
    pub async fn opened(&mut self) -> Stream {
        let mut stream = self.next("Wait").await.stream();
        stream.send(opened());
        stream
    }
}

async fn serve(io: DuplexStream, calls: mpsc::UnboundedSender<Call>) {
    let Ok(mut connection) = h2::server::handshake(io).await else {
        return;
    };
    while let Some(Ok((request, respond))) = connection.accept().await {
        let calls = calls.clone();
        tokio::spawn(async move {
            let rpc = request.uri().path().rsplit('/').next().unwrap_or_default();
            let rpc = rpc.to_owned();
            let timeout = request.headers().get("grpc-timeout").cloned();
            let mut body = request.into_body();
            let mut message = BytesMut::new();
            while let Some(Ok(data)) = body.data().await {
                let _ = body.flow_control().release_capacity(data.len());
                message.extend_from_slice(&data);
            }
            // Nobody listens once the test is over.
            let _ = calls.send(Call {
                rpc,
                message: message.freeze(),
                timeout,
                respond,
            });
        });
    }
}

/// One call that the client made.
pub struct Call {
    pub rpc: String,
    message: Bytes,
    timeout: Option<HeaderValue>,
    respond: SendResponse<Bytes>,
}

impl Call {
    /// The deadline that the client sent with it.
    pub fn timeout(&self) -> Duration {
        let text = self.timeout.as_ref().and_then(|t| t.to_str().ok());
        let (number, unit) = text
            .and_then(|t| t.split_at_checked(t.len() - 1))
            .expect("a deadline");
        let number = number.parse().expect("a number");
        match unit {
            "S" => Duration::from_secs(number),
            "m" => Duration::from_millis(number),
            "u" => Duration::from_micros(number),
            other => panic!("not a unit of the client: {other}"),
        }
    }

    /// What the client sent.
    pub fn message<M: Message + Default>(&self) -> M {
        // A flag and a length stand before each message of gRPC.
        M::decode(&self.message[5..]).expect("a message of this rpc")
    }

    /// Begins a response of many messages.
    pub fn stream(mut self) -> Stream {
        let head = Response::builder()
            .header("content-type", "application/grpc")
            .body(())
            .expect("a valid head");
        let body = self.respond.send_response(head, false).expect("open");
        Stream {
            body,
            respond: self.respond,
        }
    }

    /// Answers with one message.
    pub fn reply(self, message: impl Message) {
        let mut stream = self.stream();
        stream.message(message);
        stream.end(Code::Ok);
    }

    /// Refuses with a status that has a reason.
    pub fn refuse(self, code: Code, reason: &str) {
        self.refuse_with(code, reason, ErrorDetails::new());
    }

    /// Refuses with a status that has a reason and these details; of an `ErrorInfo` among them the metadata counts.
    pub fn refuse_with(mut self, code: Code, reason: &str, mut details: ErrorDetails) {
        let metadata = details.error_info().map(|i| i.metadata.clone());
        details.set_error_info(reason, "abeyance.v1", metadata.unwrap_or_default());
        let status = Status::with_error_details(code, "refused", details);
        let mut head = Response::new(());
        *head.headers_mut() = trailers(&status);
        let grpc = HeaderValue::from_static("application/grpc");
        head.headers_mut().insert("content-type", grpc);
        self.respond.send_response(head, true).expect("open");
    }

    /// Resets the call.
    pub fn reset(mut self, reason: Reason) {
        self.respond.send_reset(reason);
    }
}

/// A response of many messages.
pub struct Stream {
    body: SendStream<Bytes>,
    respond: SendResponse<Bytes>,
}

impl Stream {
    /// Sends an event of a wait's stream; `Wait` and `Attach` have the same form.
    pub fn send(&mut self, event: Event) {
        self.message(v1::WaitResponse {
            event: Some(v1::WaitEvent { event: Some(event) }),
        });
    }

    /// Sends a message.
    pub fn message(&mut self, message: impl Message) {
        let mut frame = BytesMut::new();
        frame.put_u8(0);
        frame.put_u32(message.encoded_len() as u32);
        message.encode(&mut frame).expect("room for it");
        self.body.send_data(frame.freeze(), false).expect("open");
    }

    /// Ends the stream with trailers.
    pub fn end(mut self, code: Code) {
        self.body
            .send_trailers(trailers(&Status::new(code, "the end")))
            .expect("open");
    }

    /// Ends the stream with a status that has a reason.
    pub fn end_refused(mut self, code: Code, reason: &str) {
        let mut details = ErrorDetails::new();
        details.set_error_info(reason, "abeyance.v1", HashMap::new());
        let status = Status::with_error_details(code, "refused", details);
        self.body.send_trailers(trailers(&status)).expect("open");
    }

    /// Resets the stream.
    pub fn reset(mut self, reason: Reason) {
        self.respond.send_reset(reason);
    }

    /// Waits until the client resets the stream.
    pub async fn given_up(&mut self) -> Reason {
        std::future::poll_fn(|cx| self.body.poll_reset(cx))
            .await
            .expect("a reset")
    }
}

fn trailers(status: &Status) -> HeaderMap {
    let mut headers = HeaderMap::new();
    status.add_header(&mut headers).expect("a valid status");
    headers
}

pub const TOKEN: &str = "abey_fake";
pub const WAIT_ID: &str = "0193a1b2-0000-7000-8000-000000000000";

/// `opened` of a fresh wait.
pub fn opened() -> Event {
    Event::Opened(opened_message())
}

pub fn opened_message() -> v1::Opened {
    v1::Opened {
        token: TOKEN.to_owned(),
        wait_id: WAIT_ID.to_owned(),
        expire_time: Some(prost_types::Timestamp::default()),
        alive_interval: Some(seconds(25)),
        ..v1::Opened::default()
    }
}

pub fn seconds(seconds: i64) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos: 0 }
}

/// The outcome of a wait that was answered.
pub fn answered(json: &str) -> v1::Outcome {
    let resolved = v1::Resolved {
        payload_json: json.to_owned(),
        ..v1::Resolved::default()
    };
    outcome(
        v1::wait::State::Resolved,
        v1::outcome::Result::Resolved(resolved),
    )
}

pub fn outcome(state: v1::wait::State, result: v1::outcome::Result) -> v1::Outcome {
    v1::Outcome {
        wait_id: WAIT_ID.to_owned(),
        state: state.into(),
        settle_time: Some(prost_types::Timestamp::default()),
        result: Some(result),
        ..v1::Outcome::default()
    }
}

/// The outcome of a wait that was cancelled.
pub fn cancelled() -> v1::Outcome {
    outcome(
        v1::wait::State::Cancelled,
        v1::outcome::Result::Cancelled(v1::Cancelled::default()),
    )
}
