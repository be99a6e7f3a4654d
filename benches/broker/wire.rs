//! A gRPC client as lean as it gets: HTTP/2 frames around bytes that were encoded before.
//!
//! The load must not be what limits, so there is no `tonic` here: it would take a hop to a worker task for each call.

use std::net::SocketAddr;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use h2::{RecvStream, client::SendRequest};
use http::{HeaderMap, HeaderValue, Method, Request, Uri, header};
use prost::Message;
use tokio::net::TcpStream;

use crate::Result;

/// More than any of the loads keeps in flight, so that no window ever closes.
const WINDOW: u32 = 1 << 30;

/// One HTTP/2 connection. Cheap to clone.
#[derive(Clone)]
pub struct Connection {
    sender: SendRequest<Bytes>,
    head: HeaderMap,
}

impl Connection {
    pub async fn open(server: SocketAddr) -> Result<Self> {
        let socket = TcpStream::connect(server).await?;
        socket.set_nodelay(true)?;
        let (sender, connection) = h2::client::Builder::new()
            .initial_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .handshake::<_, Bytes>(socket)
            .await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                eprintln!("a connection broke: {error}");
            }
        });
        let mut head = HeaderMap::new();
        head.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/grpc"),
        );
        head.insert(header::TE, HeaderValue::from_static("trailers"));
        Ok(Self { sender, head })
    }

    /// Calls an rpc. `framed` comes from [`frame`].
    pub async fn call(&self, rpc: &Uri, framed: Bytes) -> Result<Messages> {
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = rpc.clone();
        *request.headers_mut() = self.head.clone();
        let mut sender = self.sender.clone().ready().await?;
        let (response, mut body) = sender.send_request(request, false)?;
        body.send_data(framed, true)?;
        let response = response.await?;
        if response.headers().contains_key("grpc-status") {
            accept(response.headers())?;
        }
        Ok(Messages {
            body: response.into_body(),
            buffer: BytesMut::new(),
        })
    }

    /// Calls an rpc that answers with one message, and reads to the end.
    pub async fn unary(&self, rpc: &Uri, framed: Bytes) -> Result<Bytes> {
        let mut messages = self.call(rpc, framed).await?;
        let message = messages.next().await?.ok_or("no message came")?;
        messages.finish().await?;
        Ok(message)
    }
}

/// The messages of a response.
pub struct Messages {
    body: RecvStream,
    buffer: BytesMut,
}

impl Messages {
    /// The next message, undecoded. `None` at an end with the status OK.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(message) = self.buffered() {
                return Ok(Some(message));
            }
            let Some(data) = self.body.data().await else {
                let trailers = self.body.trailers().await?;
                accept(&trailers.ok_or("no trailers came")?)?;
                return Ok(None);
            };
            let data = data?;
            self.body.flow_control().release_capacity(data.len())?;
            self.buffer.extend_from_slice(&data);
        }
    }

    /// Reads to the end.
    pub async fn finish(&mut self) -> Result<()> {
        while self.next().await?.is_some() {}
        Ok(())
    }

    fn buffered(&mut self) -> Option<Bytes> {
        let length = self.buffer.get(1..5)?;
        let length = u32::from_be_bytes(length.try_into().ok()?) as usize;
        if self.buffer.len() < 5 + length {
            return None;
        }
        self.buffer.advance(5);
        Some(self.buffer.split_to(length).freeze())
    }
}

/// A message in the frame of gRPC.
pub fn frame(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut framed = BytesMut::with_capacity(5 + length);
    framed.put_u8(0);
    framed.put_u32(u32::try_from(length).expect("messages here are small"));
    message
        .encode(&mut framed)
        .expect("the buffer has the room");
    framed.freeze()
}

/// The address of an rpc.
pub fn rpc(service_and_method: &str) -> Uri {
    format!("http://broker/{service_and_method}")
        .parse()
        .expect("the names here are fit for an address")
}

/// A refusal means that something else is measured than was meant.
fn accept(head: &HeaderMap) -> Result<()> {
    match head.get("grpc-status").map(HeaderValue::as_bytes) {
        Some(b"0") => Ok(()),
        _ => Err(format!("a call was refused: {head:?}").into()),
    }
}
