//! How a connection notices that its peer has stopped reading.
//!
//! A stream whose peer gives it no window can't end itself: what it says last waits behind what it said before. HTTP/2 keepalive
//! does not notice either, since such a peer still answers PINGs. So each piece of a response carries a [`Held`] from the moment
//! its stream gave it away until the last byte of it is written or thrown away, wherever it lies meanwhile: in hyper while there
//! is no window at all, or in h2 while there is too little. A write that the socket does not take carries one as well. A [`Backlog`]
//! counts them by age. A stream that has nothing to say costs nothing here.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::Status;

/// The preface of HTTP/2 is this long.
const PREFACE_BYTES: usize = 24;

/// What a connection was given to write and has not written yet, in two generations.
///
/// The counts are statistics that guard no other memory, so all orderings are relaxed.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    counts: [AtomicUsize; 2],
    /// Which of the two is the younger generation.
    young: AtomicUsize,
}

impl Backlog {
    /// Counts one more thing that is to be written.
    fn hold(self: &Arc<Self>) -> Held {
        let generation = self.young.load(Ordering::Relaxed);
        self.counts[generation].fetch_add(1, Ordering::Relaxed);
        Held {
            backlog: Arc::clone(self),
            generation,
        }
    }

    /// To be called at a steady pace. Tells whether something is held that made no progress for at least one whole period, and
    /// at most two; if not, what is held now grows older.
    pub(super) fn stuck(&self) -> bool {
        let young = self.young.load(Ordering::Relaxed);
        let old = 1 - young;
        if self.counts[old].load(Ordering::Relaxed) > 0 {
            return true;
        }
        self.young.store(old, Ordering::Relaxed);
        false
    }
}

/// Something that is to be written. Dropped when it is, or when nobody will.
#[derive(Debug)]
struct Held {
    backlog: Arc<Backlog>,
    generation: usize,
}

impl Held {
    /// It made progress, so it is young again.
    fn renew(&mut self) {
        let young = self.backlog.young.load(Ordering::Relaxed);
        if young != self.generation {
            self.backlog.counts[young].fetch_add(1, Ordering::Relaxed);
            self.backlog.counts[self.generation].fetch_sub(1, Ordering::Relaxed);
            self.generation = young;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.backlog.counts[self.generation].fetch_sub(1, Ordering::Relaxed);
    }
}

/// A piece of a response on its way to the socket.
#[derive(Debug)]
pub(super) struct Piece {
    bytes: Bytes,
    held: Held,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.held.renew();
    }
}

/// A response's body whose pieces are counted.
#[derive(Debug)]
pub(super) struct CountedBody {
    inner: tonic::body::Body,
    backlog: Arc<Backlog>,
}

impl CountedBody {
    pub(super) fn new(inner: tonic::body::Body, backlog: Arc<Backlog>) -> Self {
        Self { inner, backlog }
    }
}

impl Body for CountedBody {
    type Data = Piece;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, Status>>> {
        let Some(frame) = ready!(Pin::new(&mut self.inner).poll_frame(cx)?) else {
            return Poll::Ready(None);
        };
        let frame = frame.map_data(|bytes| Piece {
            bytes,
            held: self.backlog.hold(),
        });
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Whether the peer has said anything yet.
#[derive(Debug, Default)]
pub(super) struct Spoken(AtomicBool);

impl Spoken {
    /// Whether the peer has sent as many bytes as the preface of HTTP/2 has.
    pub(super) fn yet(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A socket that tells when its peer begins to speak, and counts a write that it does not take.
#[derive(Debug)]
pub(super) struct Watched<T> {
    inner: T,
    /// How many bytes of the preface are still to come.
    silent: usize,
    spoken: Arc<Spoken>,
    backlog: Arc<Backlog>,
    blocked: Option<Held>,
}

impl<T> Watched<T> {
    pub(super) fn new(inner: T, spoken: Arc<Spoken>, backlog: Arc<Backlog>) -> Self {
        Self {
            inner,
            silent: PREFACE_BYTES,
            spoken,
            backlog,
            blocked: None,
        }
    }

    fn wrote(&mut self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if result.is_ready() {
            self.blocked = None;
        } else if self.blocked.is_none() {
            self.blocked = Some(self.backlog.hold());
        }
        result
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        if self.silent > 0 {
            self.silent = self.silent.saturating_sub(buffer.filled().len() - before);
            if self.silent == 0 {
                self.spoken.begin();
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.wrote(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.wrote(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[test]
    fn what_is_held_for_a_whole_period_is_stuck() {
        let backlog = Arc::new(Backlog::default());
        assert!(!backlog.stuck());
        let held = backlog.hold();
        assert!(!backlog.stuck(), "held for less than a period");
        assert!(backlog.stuck(), "held for a whole period");
        drop(held);
        assert!(!backlog.stuck());
        assert!(!backlog.stuck());
    }

    #[test]
    fn what_makes_progress_is_not_stuck() {
        let backlog = Arc::new(Backlog::default());
        let mut piece = Piece {
            bytes: Bytes::from_static(b"abcdef"),
            held: backlog.hold(),
        };
        for _ in 0..6 {
            assert!(!backlog.stuck());
            piece.advance(1);
        }
        assert!(!backlog.stuck());
        assert!(backlog.stuck());
        drop(piece);
        assert_eq!(
            backlog.counts.each_ref().map(|c| c.load(Ordering::Relaxed)),
            [0, 0]
        );
    }

    #[tokio::test]
    async fn a_write_that_is_not_taken_is_held_until_it_is() {
        let (mut peer, socket) = tokio::io::duplex(4);
        let (spoken, backlog) = (Arc::<Spoken>::default(), Arc::<Backlog>::default());
        let mut socket = Watched::new(socket, Arc::clone(&spoken), Arc::clone(&backlog));
        let mut write = Box::pin(socket.write_all(b"12345678"));
        assert!(futures_poll(write.as_mut()).is_pending());
        assert!(!backlog.stuck());
        assert!(backlog.stuck(), "the peer reads nothing");
        let mut bytes = [0; 8];
        let (read, written) = tokio::join!(peer.read_exact(&mut bytes), write);
        read.expect("read");
        written.expect("written");
        assert!(!backlog.stuck());
        assert!(!backlog.stuck());
    }

    fn futures_poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(std::task::Waker::noop()))
    }

    #[tokio::test]
    async fn a_peer_has_spoken_once_the_preface_is_there() {
        let (mut peer, socket) = tokio::io::duplex(64);
        let spoken = Arc::<Spoken>::default();
        let mut socket = Watched::new(socket, Arc::clone(&spoken), Arc::default());
        peer.write_all(&[0; 23]).await.expect("written");
        socket.read_exact(&mut [0; 23]).await.expect("read");
        assert!(!spoken.yet());
        peer.write_all(&[0; 1]).await.expect("written");
        socket.read_exact(&mut [0; 1]).await.expect("read");
        assert!(spoken.yet());
    }
}
