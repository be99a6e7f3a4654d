//! Assembly: builds the rooms, lists every task, serves, and stops in order.
//!
//! May import: `config` and every room. `main`, the tests and the examples all start this very server.
//!
//! Invariants
//! - No task is detached: connections and streams are tracked, background tasks are named and joined.
//! - A background task that ends, fails or panics stops the server.
//! - A peer can hold a connection only as long as it speaks, answers and reads.

mod connection;
mod door;
mod health;
mod intake;
mod life;
mod reflection;
mod shutdown;
mod stall;
mod store;
mod tasks;

use std::{
    convert::Infallible, fmt, future::Future, io, net::SocketAddr, pin::pin, sync::Arc,
    time::Duration,
};

use tokio::{net::TcpListener, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{body::Body, server::NamedService, service::Routes};
use tower::Service;

pub use shutdown::Signals;

use self::{
    connection::{Acceptor, Stop},
    shutdown::Drain,
    tasks::Tasks,
};
use crate::{
    broker::Broker,
    config::Config,
    domain::KeyRing,
    grpc,
    store::{Store, sqlite},
    telemetry::names,
};

/// Why a server did not start, or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting cannot be used. The operator's to mend; the program ends with status 64.
    #[error(transparent)]
    Config(#[from] crate::config::Error),
    /// The store does not open. It says what to do about it.
    #[error(transparent)]
    Store(#[from] sqlite::OpenError),
    /// The machine has no randomness, of which token keys are made.
    #[error("cannot make a token key: {0}")]
    Randomness(getrandom::Error),
    /// The address cannot be listened on: taken, or not this machine's.
    #[error(
        "cannot listen on {address}: {source}; if another program has that address, --listen picks another"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A background task ended that should not have. The server has stopped in order; the cause is in its log.
    #[error("the background task {name} failed: {why}")]
    Task {
        /// Which one.
        name: &'static str,
        /// What it said.
        why: String,
    },
    /// The descriptions of the services cannot be read. A fault of the build.
    #[error("cannot serve reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// The process cannot have handlers for signals.
    #[error("cannot listen for signals: {0}")]
    Signals(io::Error),
    /// Told to stop a second time, while it stopped. Connections were cut; what was acknowledged is kept.
    #[error("told to stop a second time; ended at once")]
    Interrupted,
}

/// How long after the first signal another one counts as the same.
const SAME_SIGNAL: Duration = Duration::from_secs(1);

/// A server that is bound to its address and not running yet.
pub struct Server {
    config: Config,
    broker: Broker,
    listener: TcpListener,
    local_addr: SocketAddr,
    /// Adds what [`Server::add_service`] was given.
    add_others: Box<dyn FnOnce(Routes) -> Routes + Send>,
}

impl Server {
    /// Opens the store and listens. Peers that connect wait for [`Server::run`].
    ///
    /// The store comes first: in a rolling restart it waits for the process before to let go of the data, and then the address
    /// is free as well.
    ///
    /// # Errors
    /// If a setting cannot be used, the store does not open, or the address cannot be listened on.
    pub async fn bind(config: Config) -> Result<Self, Error> {
        config.check()?;
        let (store, keys) = store::open(&config.store).await?;
        Self::with_store(config, store, keys).await
    }

    /// Listens, over a store that is open already and nobody else uses. Of [`Config::store`] nothing is read.
    ///
    /// # Errors
    /// If a setting cannot be used or the address cannot be listened on. The store is closed then.
    pub async fn with_store(
        config: Config,
        store: Arc<dyn Store>,
        keys: KeyRing,
    ) -> Result<Self, Error> {
        let broker = Broker::new(store, keys, config.broker);
        match listen(&config).await {
            Ok((listener, local_addr)) => Ok(Self {
                config,
                broker,
                listener,
                local_addr,
                add_others: Box::new(|routes| routes),
            }),
            Err(error) => {
                broker.close().await;
                Err(error)
            }
        }
    }

    /// The address that it really listens on, where the setting says port 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Serves one more gRPC service on the same port, behind the same deadlines and limits: for a program that embeds the broker.
    /// Reflection does not know of it.
    #[must_use]
    pub fn add_service<S>(mut self, service: S) -> Self
    where
        S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        let add_others = self.add_others;
        self.add_others = Box::new(|routes| add_others(routes).add_service(service));
        self
    }

    /// Serves until `shutdown` resolves or a background task fails, and then stops in order, within the drain timeout.
    ///
    /// # Errors
    /// [`Error::Task`] if it was a task.
    ///
    /// # Cancel safety
    /// Dropped before its end it aborts the background tasks and leaves the connections to the runtime; what was acknowledged is
    /// kept all the same.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        let (stop, tracker) = (Stop::default(), TaskTracker::new());
        let (health, health_service) = health::Status::new().await;
        let routes = grpc::routes(self.broker.clone(), self.config.grpc, tracker.clone());
        let routes = (self.add_others)(routes);
        let routes = reflection::add(routes.add_service(health_service))?;
        let connections = self.config.connections;
        let acceptor = Acceptor::new(connections, routes, stop.clone(), tracker.clone());

        // Every background task there is. The store has threads of its own, which end the process if they fail.
        let mut tasks = Tasks::default();
        tasks.spawn("expiry", self.broker.expiry());
        tasks.spawn("retention", self.broker.retention());
        tasks.spawn("accept", Arc::new(acceptor).run(self.listener));

        let failed = tokio::select! {
            () = shutdown => None,
            error = tasks.failed() => {
                tracing::error!({ names::ERROR } = %error, "stopping because of a failure");
                Some(error)
            }
        };
        let drain = Drain {
            health,
            stop,
            tracker,
            tasks,
            broker: self.broker,
            timeout: self.config.drain_timeout,
        };
        drain.run().await;
        failed.map_or(Ok(()), Err)
    }

    /// Serves until the first of `signals`, and then stops in order. A second one ends it at once; but what comes within a second of
    /// the first is the same one again, sent by a wrapper to the process and to its group.
    ///
    /// # Errors
    /// As [`Server::run`], and [`Error::Interrupted`] after a second signal.
    pub async fn run_until_signal(self, mut signals: Signals) -> Result<(), Error> {
        let stop = CancellationToken::new();
        let mut run = pin!(self.run(stop.cancelled()));
        tokio::select! {
            ended = run.as_mut() => return ended,
            () = signals.next() => {}
        }
        stop.cancel();
        let first = Instant::now();
        let second = async {
            while first.elapsed() < SAME_SIGNAL {
                signals.next().await;
            }
        };
        tokio::select! {
            ended = run => ended,
            () = second => Err(Error::Interrupted),
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("local_addr", &self.local_addr)
            .finish_non_exhaustive()
    }
}

async fn listen(config: &Config) -> Result<(TcpListener, SocketAddr), Error> {
    config.check()?;
    let failed = |source| Error::Listen {
        address: config.listen,
        source,
    };
    let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
    let local_addr = listener.local_addr().map_err(failed)?;
    Ok((listener, local_addr))
}
