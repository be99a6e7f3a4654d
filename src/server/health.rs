//! What health checks are told (`grpc.health.v1`).

use tonic::server::NamedService;
use tonic_health::{
    ServingStatus,
    pb::health_server::{Health, HealthServer},
    server::{HealthReporter, HealthService},
};

use crate::proto::v1::{
    inbox_service_server::InboxServiceServer, resolve_service_server::ResolveServiceServer,
    wait_service_server::WaitServiceServer,
};

/// The names that can be asked for; the empty one is the server as a whole.
const NAMES: [&str; 4] = [
    "",
    <WaitServiceServer<()> as NamedService>::NAME,
    <ResolveServiceServer<()> as NamedService>::NAME,
    <InboxServiceServer<()> as NamedService>::NAME,
];

/// The status that is told. All services have the same: they stand on the same store.
#[derive(Clone, Debug)]
pub(super) struct Status(HealthReporter);

impl Status {
    /// A status that says SERVING, and the service that tells it.
    pub(super) async fn new() -> (Self, HealthServer<impl Health>) {
        let status = Self(HealthReporter::new());
        status.set(ServingStatus::Serving).await;
        let service = HealthService::from_health_reporter(status.0.clone());
        (status, HealthServer::new(service))
    }

    /// Says NOT_SERVING from now on.
    pub(super) async fn not_serving(&self) {
        self.set(ServingStatus::NotServing).await;
    }

    /// Ends the streams of those who watch, after they were told the status as it is.
    pub(super) async fn end_watches(&self) {
        let mut reporter = self.0.clone();
        for name in NAMES {
            reporter.clear_service_status(name).await;
        }
    }

    async fn set(&self, status: ServingStatus) {
        for name in NAMES {
            self.0.set_service_status(name, status).await;
        }
    }
}
