//! A broker over a store and a clock of the test's choosing, behind gRPC on a connection in memory: no sockets, so that it runs
//! under a paused clock.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use abeyance::{
    broker::{self, Broker},
    domain::{KeyRing, Timestamp, token::TokenKey},
    grpc::{self, bare::BareLayer, deadline::DeadlineLayer},
    proto::v1::{
        inbox_service_client::InboxServiceClient, resolve_service_client::ResolveServiceClient,
        wait_service_client::WaitServiceClient,
    },
    store::{
        Clock, Store,
        memory::MemoryStore,
        sqlite::{self, SqliteStore},
    },
};
use hyper::{body::Incoming, client, server};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    service::TowerToHyperService,
};
use tempfile::TempDir;
use tokio::{task::JoinSet, time::Instant};
use tokio_util::task::TaskTracker;
use tonic::{body::Body, codegen::http};
use tower::{Layer as _, Service};

/// When the tests begin.
pub const START: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

/// The time of day of a test.
#[derive(Debug)]
pub struct TestClock {
    moved: AtomicI64,
    /// From when on it goes with the runtime's time, paused or not. `None`: it stands still.
    since: Option<Instant>,
}

impl TestClock {
    /// A clock that stands still until it is moved.
    pub fn standing() -> Arc<Self> {
        Arc::new(Self {
            moved: AtomicI64::new(0),
            since: None,
        })
    }

    /// A clock that goes with the runtime's time.
    pub fn flowing() -> Arc<Self> {
        Arc::new(Self {
            moved: AtomicI64::new(0),
            since: Some(Instant::now()),
        })
    }

    /// Jumps forwards.
    pub fn advance(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).expect("a short jump");
        self.moved.fetch_add(micros, Ordering::SeqCst);
    }

    /// Jumps backwards.
    pub fn set_back(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).expect("a short jump");
        self.moved.fetch_sub(micros, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let flown = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        let moved = self.moved.load(Ordering::SeqCst);
        Timestamp::from_micros(START.as_micros() + moved).after(flown)
    }
}

/// What a [`Stage`] is made of.
pub struct Setup {
    pub clock: Arc<TestClock>,
    pub store: Arc<dyn Store>,
    pub keys: KeyRing,
    pub broker: broker::Options,
    pub grpc: grpc::Options,
    /// What a client reads ahead of one stream, in bytes.
    pub window: u32,
    /// The most that a response's headers may come to, in bytes.
    pub header_limit: u32,
    dir: Option<TempDir>,
}

impl Setup {
    pub fn memory(clock: Arc<TestClock>) -> Self {
        let store = Arc::new(MemoryStore::new(clock.clone(), clock.now()));
        Self::over(clock, store)
    }

    pub fn over(clock: Arc<TestClock>, store: Arc<dyn Store>) -> Self {
        Self {
            clock,
            store,
            keys: KeyRing::new(1, TokenKey::new([7; 32])),
            broker: broker::Options::default(),
            grpc: grpc::Options::default(),
            window: 1 << 20,
            header_limit: 16 << 10,
            dir: None,
        }
    }

    pub fn sqlite(clock: Arc<TestClock>) -> Self {
        let dir = TempDir::new().expect("a directory");
        let options = sqlite::Options {
            clock: clock.clone(),
            ..sqlite::Options::new(dir.path())
        };
        let store = SqliteStore::open(&options).expect("opens");
        Self {
            keys: store.key_ring().clone(),
            dir: Some(dir),
            ..Self::over(clock, Arc::new(store))
        }
    }

    /// Puts a store in front of the store.
    #[must_use]
    pub fn wrap<S: Store>(mut self, wrap: impl FnOnce(Arc<dyn Store>) -> Arc<S>) -> Self {
        self.store = wrap(self.store);
        self
    }

    /// Starts the broker and connects to it.
    pub async fn start(self) -> Stage {
        let broker = Broker::new(self.store.clone(), self.keys.clone(), self.broker);
        let mut tasks = JoinSet::new();
        tasks.spawn(broker.expiry());
        tasks.spawn(broker.retention());
        let routes = grpc::routes(broker.clone(), self.grpc, TaskTracker::new());
        let calls = DeadlineLayer.layer(BareLayer.layer(routes));

        let (near, far) = tokio::io::duplex(1 << 20);
        tasks.spawn(async move {
            let mut http = server::conn::http2::Builder::new(TokioExecutor::new());
            http.max_concurrent_streams(200_000);
            // It fails when the client goes, which is how a test ends.
            let _ = http
                .serve_connection(TokioIo::new(far), TowerToHyperService::new(calls))
                .await;
        });
        let (line, connection) = client::conn::http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(self.window)
            .initial_connection_window_size(self.window.saturating_mul(8))
            .max_header_list_size(self.header_limit)
            .handshake(TokioIo::new(near))
            .await
            .expect("connects");
        tasks.spawn(async move {
            let _ = connection.await;
        });
        Stage {
            clock: self.clock,
            store: self.store,
            keys: self.keys,
            broker,
            line: Line(line),
            dir: self.dir,
            _tasks: tasks,
        }
    }
}

/// A broker that runs, and a connection to it.
pub struct Stage {
    pub clock: Arc<TestClock>,
    pub store: Arc<dyn Store>,
    pub keys: KeyRing,
    pub broker: Broker,
    pub line: Line,
    dir: Option<TempDir>,
    /// Aborted when the stage goes.
    _tasks: JoinSet<()>,
}

impl Stage {
    /// A memory store and a clock that stands still.
    pub async fn standing() -> Self {
        Setup::memory(TestClock::standing()).start().await
    }

    /// A memory store and a clock that goes with the runtime's time.
    pub async fn flowing() -> Self {
        Setup::memory(TestClock::flowing()).start().await
    }

    /// The embedded store and a clock that goes with the runtime's time.
    pub async fn sqlite() -> Self {
        Setup::sqlite(TestClock::flowing()).start().await
    }

    /// The data directory of an embedded store.
    pub fn dir(&self) -> &std::path::Path {
        self.dir.as_ref().expect("an embedded store").path()
    }

    pub fn worker(&self) -> WaitServiceClient<Line> {
        WaitServiceClient::with_origin(self.line.clone(), origin())
    }

    pub fn resolver(&self) -> ResolveServiceClient<Line> {
        ResolveServiceClient::with_origin(self.line.clone(), origin())
    }

    pub fn inbox(&self) -> InboxServiceClient<Line> {
        InboxServiceClient::with_origin(self.line.clone(), origin())
    }
}

pub fn origin() -> http::Uri {
    http::Uri::from_static("http://broker")
}

/// A connection, bare: unlike tonic's `Channel` it keeps no deadlines of its own, so that what is seen is what the broker does.
#[derive(Clone)]
pub struct Line(client::conn::http2::SendRequest<Body>);

impl Service<http::Request<Body>> for Line {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
