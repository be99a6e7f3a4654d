//! A client of bare HTTP/2 frames: it grants the windows it wants, answers only what it wants, and reads when it wants.

use std::{collections::HashMap, io, net::SocketAddr};

use bytes::Bytes;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::server_harness::soon;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;

#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

pub struct Frames {
    socket: TcpStream,
    next_stream: u32,
    /// The data of each stream that was read so far.
    pub data: HashMap<u32, Vec<u8>>,
    /// Whether PINGs are answered.
    pub polite: bool,
}

impl Frames {
    /// Connects, and grants each of its streams `window` bytes to begin with.
    pub async fn connect(address: SocketAddr, window: u32) -> Self {
        let socket = TcpStream::connect(address).await.expect("a connection");
        let mut frames = Self {
            socket,
            next_stream: 1,
            data: HashMap::new(),
            polite: true,
        };
        frames.socket.write_all(PREFACE).await.expect("written");
        let mut settings = vec![0, 4];
        settings.extend(window.to_be_bytes());
        frames
            .write(SETTINGS, 0, 0, &settings)
            .await
            .expect("written");
        // The connection's window is never what is in the way.
        frames.grant(0, 1 << 30).await;
        frames
    }

    pub async fn write(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        payload: &[u8],
    ) -> io::Result<()> {
        self.socket
            .write_all(&frame(kind, flags, stream, payload))
            .await
    }

    /// Writes many frames at once. The server may close before it has read them all.
    pub async fn write_raw(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes).await;
    }

    /// Counts streams that were opened by bare frames.
    pub fn skip_streams(&mut self, count: u32) {
        self.next_stream += 2 * count;
    }

    /// The token that the first event of a stream brought.
    pub fn token(&self, stream: u32) -> String {
        let text = String::from_utf8_lossy(&self.data[&stream]).into_owned();
        let start = text.find("abey_").expect("a token");
        text[start..start + 49].to_owned()
    }

    /// Grants `bytes` more of window to a stream, or to the connection (0).
    pub async fn grant(&mut self, stream: u32, bytes: u32) {
        let bytes = bytes.to_be_bytes();
        let written = self.write(WINDOW_UPDATE, 0, stream, &bytes).await;
        written.expect("written");
    }

    /// Calls an rpc with one framed message, and gives the stream's number.
    pub async fn call(&mut self, path: &str, message: &Bytes) -> u32 {
        self.try_call(path, message).await.expect("written")
    }

    /// The same, where the server may have closed the connection.
    pub async fn try_call(&mut self, path: &str, message: &Bytes) -> io::Result<u32> {
        let stream = self.next_stream;
        self.next_stream += 2;
        let block = headers(path, &[]);
        self.write(HEADERS, END_HEADERS, stream, &block).await?;
        self.write(DATA, END_STREAM, stream, message).await?;
        Ok(stream)
    }

    /// Reads a frame. `None` once the server has closed the connection, in whatever way.
    pub async fn read(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.socket.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        self.socket.read_exact(&mut payload).await.ok()?;
        let frame = Frame {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]),
            payload,
        };
        let reply = match frame.kind {
            DATA => {
                let data = self.data.entry(frame.stream).or_default();
                data.extend(&frame.payload);
                None
            }
            SETTINGS | PING if frame.flags & ACK == 0 && self.polite => {
                let payload = if frame.kind == PING {
                    &*frame.payload
                } else {
                    &[]
                };
                Some(self.write(frame.kind, ACK, 0, payload).await)
            }
            _ => None,
        };
        // A server that has gone is noticed by the next read.
        let _ = reply;
        Some(frame)
    }

    /// Reads until a frame of this kind comes.
    pub async fn until(&mut self, what: &str, kind: u8) -> Frame {
        let found = async {
            loop {
                let frame = self.read().await.expect("the connection is open");
                if frame.kind == kind {
                    return frame;
                }
            }
        };
        soon(what, found).await
    }

    /// Reads until a stream has brought data that holds `text`.
    pub async fn until_data(&mut self, stream: u32, text: &str) {
        let found = async {
            while !self.has(stream, text) {
                self.read().await.expect("the connection is open");
            }
        };
        soon(&format!("{text} on stream {stream}"), found).await;
    }

    pub fn has(&self, stream: u32, text: &str) -> bool {
        let data = self.data.get(&stream).map_or(&[][..], Vec::as_slice);
        data.windows(text.len()).any(|w| w == text.as_bytes())
    }

    /// Reads until the server closes the connection; gives the kinds of the frames that came before.
    pub async fn until_closed(&mut self) -> Vec<u8> {
        let closed = async {
            let mut kinds = Vec::new();
            while let Some(frame) = self.read().await {
                kinds.push(frame.kind);
            }
            kinds
        };
        soon("the end of the connection", closed).await
    }

    /// Waits until the server has closed the connection without reading any of what it sent: by what becomes of our writes.
    pub async fn until_refused(&mut self) {
        let refused = async {
            // Frames of an unknown kind are ignored, as long as anybody listens.
            while self.write(0xf0, 0, 0, &[]).await.is_ok() {
                tokio::time::sleep(super::server_harness::MS * 10).await;
            }
        };
        soon("the end of the connection", refused).await;
    }
}

/// A frame as it goes over the wire.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short payload");
    let mut frame = length.to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A header block of a gRPC call: each field literal, without Huffman coding and without the table.
pub fn headers(path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", path),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let mut block = Vec::new();
    for (name, value) in fields.iter().chain(more) {
        block.push(0);
        for text in [name, value] {
            string(&mut block, text);
        }
    }
    block
}

/// A string as RFC 7541 writes it, section 5.2.
fn string(block: &mut Vec<u8>, text: &str) {
    let mut length = text.len();
    if length < 127 {
        block.push(length as u8);
    } else {
        block.push(127);
        length -= 127;
        while length >= 128 {
            block.push((length % 128) as u8 | 128);
            length /= 128;
        }
        block.push(length as u8);
    }
    block.extend(text.as_bytes());
}
