//! A client that writes HTTP/2 by hand, so that it can do what no honest library does, and see what comes back as it is.

use std::{future::poll_fn, net::SocketAddr};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use h2::{
    RecvStream, SendStream,
    client::{Builder, ResponseFuture, SendRequest},
};
use http::{HeaderMap, Request};
use prost::Message;
use tokio::{net::TcpStream, task::JoinHandle};
use tonic::Status;

use super::soon;

pub const WAIT: &str = "/abeyance.v1.WaitService/Wait";
pub const OPEN: &str = "/abeyance.v1.WaitService/OpenWait";
pub const ATTACH: &str = "/abeyance.v1.WaitService/Attach";
pub const RESOLVE: &str = "/abeyance.v1.ResolveService/Resolve";

/// One connection. Dropping it closes the socket.
pub struct RawClient {
    send: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
}

/// A call whose head was sent.
pub struct RawCall {
    /// What is sent.
    pub body: SendStream<Bytes>,
    response: ResponseFuture,
}

/// The response of a call, read message by message.
pub struct RawResponse {
    /// The head.
    pub head: HeaderMap,
    /// The rest.
    pub body: RecvStream,
    buffer: BytesMut,
}

/// How a call ended.
#[derive(Debug)]
pub struct End {
    /// The header list that carried the status: the trailers, or the head where there was nothing else.
    pub headers: HeaderMap,
    /// The status.
    pub status: Status,
}

impl RawClient {
    /// Connects with the defaults of h2.
    pub async fn connect(addr: SocketAddr) -> Self {
        Self::with(addr, &Builder::new()).await
    }

    /// Connects with other settings.
    pub async fn with(addr: SocketAddr, builder: &Builder) -> Self {
        let socket = TcpStream::connect(addr).await.expect("connects");
        socket.set_nodelay(true).expect("a socket");
        let (send, connection) = builder.handshake(socket).await.expect("a handshake");
        Self {
            send,
            connection: tokio::spawn(connection),
        }
    }

    /// Sends the head of a call, and nothing of its body yet.
    pub async fn begin(&self, path: &str, headers: &[(&str, &str)]) -> RawCall {
        let mut request = Request::post(format!("http://localhost{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).expect("a request");
        let mut send = soon("room for a call", self.send.clone().ready())
            .await
            .expect("the connection lives");
        let (response, body) = send.send_request(request, false).expect("sends");
        RawCall { body, response }
    }

    /// Sends a whole call.
    pub async fn call(&self, path: &str, message: &impl Message) -> RawCall {
        let mut call = self.begin(path, &[]).await;
        call.send(message, true);
        call
    }

    /// Sends a whole call and waits for its end, without a look at the messages.
    pub async fn end_of(&self, path: &str, message: &impl Message) -> End {
        self.call(path, message).await.response().await.end().await
    }

    /// Waits until the connection ends, and says how.
    pub async fn closed(self) -> Result<(), h2::Error> {
        let Self { send, connection } = self;
        let closed = soon("the connection ends", connection).await;
        drop(send);
        closed.expect("no panic")
    }

    /// Closes the socket at once, with no goodbye.
    pub fn abort(self) {
        self.connection.abort();
    }

    /// Whether the connection lives.
    pub fn is_open(&self) -> bool {
        !self.connection.is_finished()
    }
}

impl RawCall {
    /// Sends a message; `end` closes the client's half behind it.
    pub fn send(&mut self, message: &impl Message, end: bool) {
        self.body.send_data(frame(message), end).expect("sends");
    }

    /// Closes the client's half.
    pub fn finish(&mut self) {
        self.body.send_data(Bytes::new(), true).expect("sends");
    }

    /// Waits for the head of the response.
    pub async fn response(self) -> RawResponse {
        let response = soon("a response", self.response).await.expect("a head");
        let (head, body) = response.into_parts();
        RawResponse {
            head: head.headers,
            body,
            buffer: BytesMut::new(),
        }
    }

    /// Waits until the server resets the call.
    pub async fn reset(mut self) -> h2::Reason {
        let reset = poll_fn(|cx| self.body.poll_reset(cx));
        soon("a reset", reset).await.expect("the connection lives")
    }
}

impl RawResponse {
    /// The next message; `None` behind the last.
    pub async fn message<M: Message + Default>(&mut self) -> Result<Option<M>, h2::Error> {
        loop {
            if let Some(message) = take(&mut self.buffer) {
                return Ok(Some(M::decode(message).expect("the rpc's message")));
            }
            match soon("data", self.body.data()).await {
                Some(data) => {
                    let data = data?;
                    self.body.flow_control().release_capacity(data.len())?;
                    self.buffer.put(data);
                }
                None => return Ok(None),
            }
        }
    }

    /// Reads to the end.
    pub async fn end(mut self) -> End {
        while let Some(data) = soon("data", self.body.data()).await {
            let data = data.expect("the stream is not reset");
            let released = self.body.flow_control().release_capacity(data.len());
            released.expect("released once");
        }
        let trailers = self.body.trailers().await.expect("the stream is not reset");
        let headers = trailers.unwrap_or(self.head);
        let status = Status::from_header_map(&headers).expect("a status");
        End { headers, status }
    }
}

/// A message in the framing of gRPC.
pub fn frame(message: &impl Message) -> Bytes {
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.encoded_len()).expect("short"));
    message.encode(&mut framed).expect("there is room");
    framed.freeze()
}

fn take(buffer: &mut BytesMut) -> Option<Bytes> {
    let length = u32::from_be_bytes(buffer.get(1..5)?.try_into().ok()?);
    let whole = 5 + usize::try_from(length).ok()?;
    if buffer.len() < whole {
        return None;
    }
    let mut message = buffer.split_to(whole).freeze();
    message.advance(5);
    Some(message)
}

/// The size of a header list as HTTP/2 counts it (RFC 9113, section 6.5.2): names, values, and 32 bytes for each.
pub fn header_list_bytes(headers: &HeaderMap) -> usize {
    headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 32)
        .sum()
}
