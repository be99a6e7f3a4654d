//! How much of requests the broker takes in at once, and for how long.
//!
//! Each request is bounded in size; without this their sum would not be, and a peer that sends thousands of large ones, and none of them
//! to its end, would have all the memory there is.

use std::{
    error::Error,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use crate::{broker, grpc::status};

/// The most that all requests together may have sent while none of them is whole.
const LIMIT_BYTES: usize = 256 << 20;

/// How long a request may take to arrive whole.
const PATIENCE: Duration = Duration::from_secs(30);

/// What requests have sent that are not whole yet. The count guards no other memory, so all orderings are relaxed.
#[derive(Debug, Default)]
pub(super) struct Intake(AtomicUsize);

/// A request's body that is counted until it is whole.
#[derive(Debug)]
pub(super) struct CountedRequest<B> {
    inner: B,
    intake: Arc<Intake>,
    taken: usize,
    /// Whether it must be whole in time. Requests that are streams of messages need not.
    bounded: bool,
    /// Boxed and made when it is needed, since most requests arrive in one piece.
    late: Option<Pin<Box<Sleep>>>,
}

impl<B> CountedRequest<B> {
    pub(super) fn new(inner: B, intake: Arc<Intake>, bounded: bool) -> Self {
        Self {
            inner,
            intake,
            taken: 0,
            bounded,
            late: None,
        }
    }
}

impl<B> Body for CountedRequest<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(cx) else {
            if !this.bounded {
                return Poll::Pending;
            }
            let late = this.late.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
            ready!(late.as_mut().poll(cx));
            return Poll::Ready(Some(Err(status::deadline_exceeded().into())));
        };
        let frame = frame.transpose().map_err(Into::into)?;
        if let Some(bytes) = frame.as_ref().and_then(Frame::data_ref) {
            this.taken += bytes.len();
            let before = this.intake.0.fetch_add(bytes.len(), Ordering::Relaxed);
            if before + bytes.len() > LIMIT_BYTES {
                let status = tonic::Status::from(broker::Error::Overloaded);
                return Poll::Ready(Some(Err(status.into())));
            }
        }
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B> Drop for CountedRequest<B> {
    fn drop(&mut self) {
        self.intake.0.fetch_sub(self.taken, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::{BodyExt as _, Full, StreamBody};

    use super::*;

    fn fault(error: Box<dyn Error + Send + Sync>) -> tonic::Code {
        error
            .downcast_ref::<tonic::Status>()
            .expect("a status")
            .code()
    }

    #[tokio::test]
    async fn what_is_too_much_together_is_refused_and_given_back() {
        let intake = Arc::new(Intake::default());
        let large = || Full::new(Bytes::from(vec![0; LIMIT_BYTES / 2]));
        let mut held = Vec::new();
        for _ in 0..2 {
            let mut body = CountedRequest::new(large(), Arc::clone(&intake), true);
            body.frame().await.expect("a frame").expect("taken");
            held.push(body);
        }
        let mut body = CountedRequest::new(large(), Arc::clone(&intake), true);
        let refused = body.frame().await.expect("a frame").expect_err("too much");
        assert_eq!(fault(refused), tonic::Code::ResourceExhausted);
        drop((held, body));
        assert_eq!(intake.0.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_does_not_arrive_ends() {
        let never = || StreamBody::new(tokio_stream::pending::<Result<Frame<Bytes>, Infallible>>());
        let mut body = CountedRequest::new(never(), Arc::default(), true);
        let late = body.frame().await.expect("a frame").expect_err("late");
        assert_eq!(fault(late), tonic::Code::DeadlineExceeded);
        let mut stream = CountedRequest::new(never(), Arc::default(), false);
        let day = Duration::from_secs(86_400);
        assert!(tokio::time::timeout(day, stream.frame()).await.is_err());
    }
}
