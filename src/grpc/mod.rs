//! The gRPC door: messages in, one call of the broker, messages out.
//!
//! May import: `proto`, `domain`, `broker`.
//!
//! Invariants
//! - No rule about waits stands here. What may be sent is checked in `domain::limits`, who wins is decided in
//!   `domain::transition`.
//! - A `Status` is built in [`status`] and nowhere else.
//! - A stream ends together with its last event, so that a client which reads on never has to reset it.

mod answer;
pub mod bare;
mod bounds;
mod check;
pub mod connection_end;
mod convert;
pub mod deadline;
mod question;
mod service;
pub mod status;
mod stream;
mod watch;

use std::time::Duration;

use tokio_util::task::TaskTracker;
use tonic::service::{Routes, RoutesBuilder};

use crate::{
    broker::Broker,
    proto::v1::{
        inbox_service_server::InboxServiceServer, resolve_service_server::ResolveServiceServer,
        wait_service_server::WaitServiceServer,
    },
};

/// The settings of the door.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The period of `alive` events on every stream. Default: 25 s, under the idle limits of common proxies. Shorter costs a message
    /// per stream and period; longer and proxies cut idle streams.
    pub alive_interval: Duration,
    /// How long a stream lives before it is let go, give or take a tenth. Default: 1 h. Short: attaching again costs more than
    /// holding; long: streams stay on an old broker when new ones join.
    pub stream_lifetime: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            alive_interval: Duration::from_secs(25),
            stream_lifetime: Duration::from_secs(3600),
        }
    }
}

/// The three services. Tasks of watches run in `tasks`.
pub fn routes(broker: Broker, options: Options, tasks: TaskTracker) -> Routes {
    // Room for a payload at its limit beside all other fields at theirs, so that the limits can name what is too large.
    let message = broker.limits().payload_bytes + (256 << 10);
    let door = service::Door {
        broker,
        options,
        watches: tasks,
    };
    let mut routes = RoutesBuilder::default();
    routes
        .add_service(WaitServiceServer::new(door.clone()).max_decoding_message_size(message))
        .add_service(ResolveServiceServer::new(door.clone()).max_decoding_message_size(message))
        .add_service(InboxServiceServer::new(door).max_decoding_message_size(message));
    routes.routes()
}
