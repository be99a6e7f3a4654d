//! No bare status leaves the broker: what tonic itself refuses gets our code, reason and details too.
//!
//! tonic answers for us where it cannot read a request. It reports a message above the size limit as OUT_OF_RANGE, and one that
//! is cut off, wrongly framed or not the rpc's message as INTERNAL, which clients take for a fault of the broker that is worth a
//! report or a retry. Both are the caller's to mend. All of these come in the head of a response without details, by
//! which they are known here; what our own code refuses has details, and passes. UNIMPLEMENTED passes as well: it is what the
//! protocol demands for an rpc or an encoding that is not there, and health and reflection have statuses of their own.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::{HeaderMap, Request, Response};
use tonic::{Code, Status};
use tower::{Layer, Service};

use super::status;

/// The status that takes the place of tonic's own, if the head holds one that must not go out.
fn replacement(head: &HeaderMap) -> Option<Status> {
    // The usual case, a response that goes well, has no status in its head.
    if !head.contains_key(Status::GRPC_STATUS) || head.contains_key(Status::GRPC_STATUS_DETAILS) {
        return None;
    }
    let bare = Status::from_header_map(head)?;
    match bare.code() {
        Code::OutOfRange | Code::ResourceExhausted => Some(status::malformed_request(&format!(
            "the request is too large: {}; send less, or have the operator raise --max-payload",
            bare.message()
        ))),
        Code::Internal if is_callers(bare.message()) => Some(status::malformed_request(&format!(
            "the request is not a valid message of this rpc: {}; check that client and broker use the same abeyance.v1",
            bare.message()
        ))),
        Code::Internal | Code::Unknown => Some(status::internal(bare.message())),
        _ => None,
    }
}

/// Whether tonic blames what it was sent. These are all its texts for that, as of 0.14.
fn is_callers(message: &str) -> bool {
    const TEXTS: [&str; 4] = [
        "failed to decode Protobuf message",
        "Missing request message",
        "Unexpected EOF decoding stream",
        "protocol error: received message with",
    ];
    TEXTS.iter().any(|text| message.starts_with(text))
}

/// Makes [`Bare`].
#[derive(Clone, Copy, Debug, Default)]
pub struct BareLayer;

impl<S> Layer<S> for BareLayer {
    type Service = Bare<S>;

    fn layer(&self, inner: S) -> Bare<S> {
        Bare { inner }
    }
}

/// Stands in front of tonic and dresses the statuses that it makes by itself.
#[derive(Clone, Debug)]
pub struct Bare<S> {
    inner: S,
}

impl<S, B, R> Service<Request<B>> for Bare<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Unpin,
    R: Default,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = BareFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        BareFuture(self.inner.call(request))
    }
}

/// A call on its way to its response's head.
#[derive(Debug)]
pub struct BareFuture<F>(F);

impl<F, R, E> Future for BareFuture<F>
where
    F: Future<Output = Result<Response<R>, E>> + Unpin,
    R: Default,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let response = ready!(Pin::new(&mut self.0).poll(cx))?;
        Poll::Ready(Ok(match replacement(response.headers()) {
            Some(status) => status.into_http(),
            None => response,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dressed(status: Status) -> Option<Status> {
        replacement(status.into_http::<()>().headers())
    }

    #[test]
    fn what_tonic_cannot_read_is_the_callers_fault() {
        for bare in [
            Status::out_of_range("Error, decoded message length too large: found 9 bytes"),
            Status::internal("failed to decode Protobuf message: buffer underflow"),
            Status::internal("Missing request message."),
            Status::internal("Unexpected EOF decoding stream."),
            Status::internal("protocol error: received message with invalid compression flag: 7"),
        ] {
            let text = bare.message().to_owned();
            let status = dressed(bare).expect("a replacement");
            assert_eq!(status.code(), Code::InvalidArgument, "{text}");
            assert!(status.message().contains(&text), "{}", status.message());
            assert!(!status.details().is_empty(), "{text}");
        }
    }

    #[test]
    fn an_unknown_fault_stays_internal_and_gets_details() {
        let status = dressed(Status::internal("something new")).expect("a replacement");
        assert_eq!(status.code(), Code::Internal);
        assert!(!status.details().is_empty());
    }

    #[test]
    fn what_has_details_or_needs_none_passes() {
        assert!(dressed(status::internal("ours")).is_none());
        assert!(dressed(Status::unimplemented("")).is_none());
        assert!(dressed(Status::not_found("service not registered")).is_none());
        assert!(dressed(Status::new(Code::Ok, "")).is_none());
        assert!(replacement(&HeaderMap::new()).is_none());
    }
}
