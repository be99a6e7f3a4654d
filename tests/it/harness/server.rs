//! A broker in this process.

use std::{net::SocketAddr, sync::Arc};

use abeyance::{
    config::{Config, Store as StoreConfig},
    domain::{KeyRing, token::TokenKey},
    server::Server,
    store::{
        Clock as _, Store, SystemClock,
        memory::MemoryStore,
        sqlite::{self, SqliteStore},
    },
};
use tempfile::TempDir;
use tokio::{sync::oneshot, task::JoinHandle};

use super::{Calls, Rig, rig::Rigged, soon};

/// Which store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In memory.
    Memory,
    /// The embedded store, in a directory that goes when its last server does.
    Sqlite,
}

impl Kind {
    /// Both, for tests that must hold on each.
    pub const BOTH: [Self; 2] = [Self::Memory, Self::Sqlite];
}

/// A broker in this process, on `127.0.0.1` and a free port. Dropping it ends it at once; [`TestServer::stop`] in order.
pub struct TestServer {
    /// Where it listens.
    pub addr: SocketAddr,
    /// Its store, to be made slow or to fail.
    pub rig: Rig,
    config: Config,
    dir: Option<Arc<TempDir>>,
    stop: oneshot::Sender<()>,
    run: JoinHandle<Result<(), abeyance::server::Error>>,
}

impl TestServer {
    /// A broker over a memory store, with the default settings.
    pub async fn start() -> Self {
        Self::start_with(Kind::Memory, |_| ()).await
    }

    /// A broker over either store, with some settings changed.
    pub async fn start_with(kind: Kind, set: impl FnOnce(&mut Config)) -> Self {
        let (mut config, dir) = match kind {
            Kind::Memory => (Config::in_memory(), None),
            Kind::Sqlite => {
                let dir = TempDir::new().expect("a directory");
                (Config::new(dir.path().join("data")), Some(Arc::new(dir)))
            }
        };
        config.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        set(&mut config);
        Self::launch(config, dir).await
    }

    async fn launch(config: Config, dir: Option<Arc<TempDir>>) -> Self {
        let (store, keys) = open(&config.store).await;
        let rig = Rig::default();
        let store = Arc::new(Rigged::new(store, rig.clone()));
        let server = Server::with_store(config.clone(), store, keys).await;
        let server = server.expect("the server binds");
        let addr = server.local_addr();
        let (stop, stopped) = oneshot::channel();
        let run = tokio::spawn(server.run(async move {
            // Dropped unsent together with the handle, which then also aborts the task.
            let _ = stopped.await;
        }));
        Self {
            addr,
            rig,
            config,
            dir,
            stop,
            run,
        }
    }

    /// Where clients find it.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The generated client, on a connection of its own.
    pub async fn calls(&self) -> Calls {
        Calls::connect(&self.url()).await
    }

    /// The client of this crate.
    pub fn client(&self) -> abeyance::client::Client {
        abeyance::client::Client::connect(&self.url()).expect("a URL")
    }

    /// Begins to stop, as on SIGTERM. Gives what its end says.
    pub fn begin_stop(self) -> JoinHandle<Result<(), abeyance::server::Error>> {
        // It may have ended by itself.
        let _ = self.stop.send(());
        tokio::spawn(async move {
            let _dir = self.dir;
            self.run.await.expect("the server does not panic")
        })
    }

    /// Stops in order, as on SIGTERM, and waits for the end.
    pub async fn stop(self) {
        let ended = soon("the server stops", self.begin_stop()).await;
        ended.expect("joined").expect("the server ends well");
    }

    /// Stops in order, and starts again with the same settings over the same data, on the same port.
    pub async fn restart(self) -> Self {
        let (mut config, dir) = (self.config.clone(), self.dir.clone());
        assert!(
            dir.is_some(),
            "a memory store keeps nothing to restart over"
        );
        config.listen = self.addr;
        self.stop().await;
        Self::launch(config, dir).await
    }
}

/// Opens the store that the settings name, with the token keys that belong to it.
async fn open(config: &StoreConfig) -> (Arc<dyn Store>, KeyRing) {
    match config {
        StoreConfig::Memory => memory_store(),
        StoreConfig::Sqlite(options) => {
            let options = options.clone();
            let opened = tokio::task::spawn_blocking(move || sqlite_store(&options));
            opened.await.expect("the store opens")
        }
    }
}

/// An empty memory store.
pub fn memory_store() -> (Arc<dyn Store>, KeyRing) {
    let store = MemoryStore::new(Arc::new(SystemClock), SystemClock.now());
    (Arc::new(store), KeyRing::new(1, TokenKey::new([7; 32])))
}

/// The embedded store. Blocks.
pub fn sqlite_store(options: &sqlite::Options) -> (Arc<dyn Store>, KeyRing) {
    let store = SqliteStore::open(options).expect("the store opens");
    let keys = store.key_ring().clone();
    (Arc::new(store), keys)
}
