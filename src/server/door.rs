//! What stands between hyper and tonic on each connection: it says on which connection a call came, and counts what goes out.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::{Request, Response};
use hyper::body::Incoming;
use tonic::{service::Routes, transport::server::TcpConnectInfo};
use tower::{Layer as _, Service as _};

use super::{
    intake::{CountedRequest, Intake},
    stall::{Backlog, CountedBody},
};
use crate::grpc::{
    bare::{Bare, BareLayer},
    connection_end::ConnectionEnd,
    deadline::{DeadlineLayer, Deadlines},
};

/// All calls, held to their deadlines and with our statuses.
type Calls = Deadlines<Bare<Routes>>;

/// The door of one connection.
#[derive(Clone, Debug)]
pub(super) struct Door {
    calls: Calls,
    info: TcpConnectInfo,
    end: Option<ConnectionEnd>,
    backlog: Arc<Backlog>,
    intake: Arc<Intake>,
}

impl Door {
    pub(super) fn new(
        routes: Routes,
        info: TcpConnectInfo,
        end: Option<ConnectionEnd>,
        backlog: Arc<Backlog>,
        intake: Arc<Intake>,
    ) -> Self {
        Self {
            calls: DeadlineLayer.layer(BareLayer.layer(routes)),
            info,
            end,
            backlog,
            intake,
        }
    }
}

impl hyper::service::Service<Request<Incoming>> for Door {
    type Response = Response<CountedBody>;
    type Error = Infallible;
    type Future = DoorFuture;

    fn call(&self, mut request: Request<Incoming>) -> DoorFuture {
        let extensions = request.extensions_mut();
        extensions.insert(self.info.clone());
        if let Some(end) = self.end {
            extensions.insert(end);
        }
        // Our own requests are single messages; reflection's are streams.
        let bounded = request.uri().path().starts_with("/abeyance.v1.");
        let intake = &self.intake;
        let request = request.map(|body| CountedRequest::new(body, Arc::clone(intake), bounded));
        DoorFuture {
            // A router is always ready, so it need not be asked.
            call: self.calls.clone().call(request),
            backlog: Arc::clone(&self.backlog),
        }
    }
}

/// A call on its way to its response's head.
pub(super) struct DoorFuture {
    call: <Calls as tower::Service<Request<CountedRequest<Incoming>>>>::Future,
    backlog: Arc<Backlog>,
}

impl Future for DoorFuture {
    type Output = Result<Response<CountedBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let response = ready!(Pin::new(&mut self.call).poll(cx))?;
        Poll::Ready(Ok(
            response.map(|body| CountedBody::new(body, Arc::clone(&self.backlog)))
        ))
    }
}
