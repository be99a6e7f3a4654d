//! A connection on which the client overhears that its server sends it away, and whether it asks for calm.
//!
//! A server that finds its client too busy ends the connection with GOAWAY and `ENHANCE_YOUR_CALM`. The HTTP/2 library keeps that
//! to itself: the calls on the connection see a broken pipe. So the frames are read along, of which only the heads count.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tonic::{codegen::Service, transport::Uri};

/// TCP's own test of an idle connection.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

/// RFC 9113: the head of a frame, and what is known of GOAWAY.
const HEAD_BYTES: usize = 9;
const GOAWAY: u8 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;
/// The last stream and the error code, before the text.
const GOAWAY_FIXED_BYTES: usize = 8;
/// More text than this is not kept.
const TEXT_BYTES: usize = 256;

/// What was overheard on the connections of one line.
#[derive(Debug, Default)]
pub(super) struct Scoldings(Mutex<Heard>);

#[derive(Debug, Default)]
struct Heard {
    count: u64,
    text: String,
}

impl Scoldings {
    /// How often a server asked for calm.
    pub(super) fn count(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).count
    }

    /// What it said when it did so last, usually `too_many_pings`.
    pub(super) fn text(&self) -> String {
        let heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.text.clone()
    }

    pub(super) fn hear(&self, goaway: &[u8]) {
        let Some((code, text)) = goaway[4..].split_first_chunk() else {
            return;
        };
        if u32::from_be_bytes(*code) == ENHANCE_YOUR_CALM {
            let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            heard.count += 1;
            heard.text = String::from_utf8_lossy(text).into_owned();
        }
    }
}

/// Whether a connection takes no more calls: its server sent GOAWAY, or it was closed.
#[derive(Clone, Debug, Default)]
pub(super) struct Over(Arc<AtomicBool>);

impl Over {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Where in the server's frames a connection is.
#[derive(Debug, Default)]
struct Frames {
    /// The head of the next frame, as far as it has arrived.
    head: Vec<u8>,
    /// Bytes left of the frame after its head.
    left: usize,
    /// What is kept of a GOAWAY.
    goaway: Option<Vec<u8>>,
}

impl Frames {
    fn read(&mut self, mut bytes: &[u8], scoldings: &Scoldings, over: &Over) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let (of_frame, rest) = bytes.split_at(self.left.min(bytes.len()));
                self.left -= of_frame.len();
                bytes = rest;
                if let Some(goaway) = &mut self.goaway {
                    let room = (GOAWAY_FIXED_BYTES + TEXT_BYTES).saturating_sub(goaway.len());
                    goaway.extend_from_slice(&of_frame[..room.min(of_frame.len())]);
                }
                if self.left > 0 {
                    return;
                }
            } else {
                let missing = HEAD_BYTES - self.head.len();
                let (of_head, rest) = bytes.split_at(missing.min(bytes.len()));
                self.head.extend_from_slice(of_head);
                bytes = rest;
                let [a, b, c, kind, ..] = self.head[..] else {
                    return;
                };
                if self.head.len() < HEAD_BYTES {
                    return;
                }
                self.head.clear();
                self.left = u32::from_be_bytes([0, a, b, c]) as usize;
                self.goaway = (kind == GOAWAY).then(Vec::new);
            }
            if self.left == 0
                && let Some(goaway) = self.goaway.take()
            {
                over.set();
                if goaway.len() >= GOAWAY_FIXED_BYTES {
                    scoldings.hear(&goaway);
                }
            }
        }
    }
}

/// A connection whose incoming frames are read along.
#[derive(Debug)]
pub(super) struct Overheard<T> {
    io: T,
    frames: Frames,
    scoldings: Arc<Scoldings>,
    over: Over,
}

impl<T> Overheard<T> {
    fn new(io: T, scoldings: Arc<Scoldings>, over: Over) -> Self {
        Self {
            io,
            frames: Frames::default(),
            scoldings,
            over,
        }
    }
}

impl<T> Drop for Overheard<T> {
    fn drop(&mut self) {
        self.over.set();
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Overheard<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.io).poll_read(cx, buf))?;
        let arrived = &buf.filled()[before..];
        this.frames.read(arrived, &this.scoldings, &this.over);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Overheard<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

/// Connects with TCP, and overhears the connection.
#[derive(Clone)]
pub(super) struct Connector {
    tcp: HttpConnector,
    scoldings: Arc<Scoldings>,
    over: Over,
}

impl Connector {
    pub(super) fn new(scoldings: Arc<Scoldings>, over: Over) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(TCP_KEEPALIVE));
        Self {
            tcp,
            scoldings,
            over,
        }
    }
}

type Connecting = Pin<Box<dyn Future<Output = io::Result<TokioIo<Overheard<TcpStream>>>> + Send>>;

impl Service<Uri> for Connector {
    type Response = TokioIo<Overheard<TcpStream>>;
    type Error = io::Error;
    type Future = Connecting;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tcp.poll_ready(cx).map_err(io::Error::other)
    }

    fn call(&mut self, uri: Uri) -> Connecting {
        let connecting = self.tcp.call(uri);
        let (scoldings, over) = (self.scoldings.clone(), self.over.clone());
        Box::pin(async move {
            let stream = connecting.await.map_err(io::Error::other)?.into_inner();
            Ok(TokioIo::new(Overheard::new(stream, scoldings, over)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, 0, 0, 0, 0, 0], payload].concat()
    }

    fn goaway(code: u32, text: &[u8]) -> Vec<u8> {
        let payload = [&i32::MAX.to_be_bytes()[..], &code.to_be_bytes(), text].concat();
        frame(GOAWAY, &payload)
    }

    fn heard(bytes: &[u8], piece: usize) -> (u64, String) {
        let (mut frames, scoldings, over) = Default::default();
        for piece in bytes.chunks(piece) {
            Frames::read(&mut frames, piece, &scoldings, &over);
        }
        assert!(over.is_set(), "every GOAWAY ends a connection");
        (scoldings.count(), scoldings.text())
    }

    #[test]
    fn a_scolding_is_heard_wherever_the_bytes_are_divided() {
        // Data that looks like a scolding is data.
        let data = frame(0, &goaway(ENHANCE_YOUR_CALM, b"in a payload"));
        let scolding = goaway(ENHANCE_YOUR_CALM, b"too_many_pings");
        let bytes = [frame(4, b""), data, frame(6, &[0; 8]), scolding].concat();
        for piece in 1..=bytes.len() {
            assert_eq!(heard(&bytes, piece), (1, "too_many_pings".to_owned()));
        }
    }

    #[test]
    fn other_ends_are_no_scolding() {
        let short = frame(GOAWAY, &[0, 0, 0]);
        let bytes = [goaway(0, b""), goaway(2, b"x"), short, frame(GOAWAY, b"")].concat();
        assert_eq!(heard(&bytes, 5).0, 0);
    }

    #[test]
    fn of_a_long_text_the_beginning_is_kept() {
        let bytes = goaway(ENHANCE_YOUR_CALM, &[b'x'; 100_000]);
        let (count, text) = heard(&[bytes.clone(), bytes].concat(), 1000);
        assert_eq!((count, text.len()), (2, TEXT_BYTES));
    }
}
