//! The real server in this process, and clients for it: stock ones, h2 for what those cannot send, and bare frames for what h2
//! will not do.

use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};

use abeyance::{
    config::{Config, Connections},
    domain::{KeyRing, token::TokenKey},
    proto::v1::{
        OpenWaitRequest, ResolveRequest, WaitRequest, WaitSpec,
        inbox_service_client::InboxServiceClient, resolve_request::Answer,
        resolve_service_client::ResolveServiceClient, wait_service_client::WaitServiceClient,
        wait_spec::Expiry,
    },
    server::{Error, Server},
    store::{Clock as _, Store, SystemClock, memory::MemoryStore},
};
use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message;
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};
use tonic::transport::Channel;

/// How long anything may take that should take no time. Generous, since machines that run tests are busy.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub const MS: Duration = Duration::from_millis(1);

/// Waits for something, but not for ever.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = timeout(PATIENCE, future).await;
    waited.unwrap_or_else(|_| panic!("waited too long for: {what}"))
}

/// The settings of a test: any port, nothing kept.
pub fn config() -> Config {
    Config {
        listen: ([127, 0, 0, 1], 0).into(),
        ..Config::in_memory()
    }
}

/// The same with settings of connections.
pub fn with_connections(change: impl FnOnce(&mut Connections)) -> Config {
    let mut config = config();
    change(&mut config.connections);
    config
}

pub fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(Arc::new(SystemClock), SystemClock.now()))
}

/// A server that runs.
pub struct Running {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), Error>>,
}

impl Running {
    pub async fn start(config: Config) -> Self {
        Self::over(config, memory()).await
    }

    pub async fn over(config: Config, store: Arc<dyn Store>) -> Self {
        let keys = KeyRing::new(1, TokenKey::new([7; 32]));
        let server = Server::with_store(config, store, keys).await;
        let server = server.expect("a server");
        let (stop, stopped) = oneshot::channel();
        Self {
            address: server.local_addr(),
            stop: Some(stop),
            task: tokio::spawn(server.run(async {
                let _ = stopped.await;
            })),
        }
    }

    /// Tells it to stop, as a signal does.
    pub fn begin_stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits until it has stopped.
    pub async fn stopped(self) {
        let result = soon("the end of the server", self.task).await;
        result.expect("no panic").expect("an orderly stop");
    }

    pub async fn stop(mut self) {
        self.begin_stop();
        self.stopped().await;
    }

    pub async fn channel(&self) -> Channel {
        let endpoint = Channel::from_shared(format!("http://{}", self.address));
        let connected = endpoint.expect("a URL").connect().await;
        connected.expect("a connection")
    }

    pub async fn clients(&self) -> Clients {
        let channel = self.channel().await;
        Clients {
            wait: WaitServiceClient::new(channel.clone()),
            resolve: ResolveServiceClient::new(channel.clone()).max_encoding_message_size(8 << 20),
            inbox: InboxServiceClient::new(channel),
        }
    }
}

/// Stock clients on one connection.
#[derive(Clone)]
pub struct Clients {
    pub wait: WaitServiceClient<Channel>,
    pub resolve: ResolveServiceClient<Channel>,
    pub inbox: InboxServiceClient<Channel>,
}

impl Clients {
    /// Opens a wait and gives its token.
    pub async fn open(&mut self) -> String {
        let request = OpenWaitRequest {
            spec: Some(spec()),
            ..Default::default()
        };
        let opened = soon("an open", self.wait.open_wait(request)).await;
        let opened = opened.expect("opened").into_inner().opened;
        opened.expect("opened").token
    }

    pub async fn resolve(&mut self, token: &str, json: String) {
        let answered = self.resolve.resolve(answer(token, json));
        soon("an answer", answered).await.expect("answered");
    }
}

pub fn spec() -> WaitSpec {
    WaitSpec {
        name: "test".to_owned(),
        expiry: Some(Expiry::Timeout(prost_types::Duration {
            seconds: 3600,
            nanos: 0,
        })),
        ..Default::default()
    }
}

pub fn wait_request() -> WaitRequest {
    WaitRequest {
        spec: Some(spec()),
        ..Default::default()
    }
}

pub fn answer(token: &str, json: String) -> ResolveRequest {
    ResolveRequest {
        token: token.to_owned(),
        answer: Some(Answer::PayloadJson(json)),
        ..Default::default()
    }
}

/// A message as gRPC frames it.
pub fn framed(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(message.encoded_len().try_into().expect("not that long"));
    message.encode(&mut bytes).expect("room");
    bytes.freeze()
}

/// Takes a framed message apart.
pub fn unframed<M: Message + Default>(bytes: &[u8]) -> M {
    M::decode(&bytes[5..]).expect("a message")
}
