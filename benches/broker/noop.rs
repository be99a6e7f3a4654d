//! The floor of a call: a unary rpc that does nothing, behind everything that stands before our own rpcs.

use std::{
    convert::Infallible,
    future::{Future, Ready, ready},
    pin::Pin,
    task::{Context, Poll},
};

use abeyance::proto::Codec;
use tonic::{
    Request, Response, Status,
    body::Body,
    server::{Grpc, NamedService, UnaryService},
};
use tower::Service;

/// Its name on the wire.
pub const RPC: &str = "abeyance.bench.Floor/Noop";

/// The service.
#[derive(Clone, Copy, Debug)]
pub struct Floor;

impl NamedService for Floor {
    const NAME: &'static str = "abeyance.bench.Floor";
}

impl Service<http::Request<Body>> for Floor {
    type Response = http::Response<Body>;
    type Error = Infallible;
    // Boxed, as tonic's generated services do it.
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let codec = Codec::<(), ()>::default();
        Box::pin(async move { Ok(Grpc::new(codec).unary(Noop, request).await) })
    }
}

struct Noop;

impl UnaryService<()> for Noop {
    type Response = ();
    type Future = Ready<Result<Response<()>, Status>>;

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Ok(Response::new(())))
    }
}
