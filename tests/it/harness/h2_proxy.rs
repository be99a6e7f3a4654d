//! A proxy that knows of HTTP/2 streams, as a mesh's sidecar does: it can end one and leave the others.

use std::{
    future::poll_fn,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use h2::{Reason, RecvStream, SendStream, client, server};
use http::{HeaderMap, Request, Response};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep, sleep_until},
};
use tonic::Status;

/// What the proxy does. The default does nothing but forward.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// The stream limit that clients are told.
    pub max_streams: Option<u32>,
    /// Resets each stream that carried no DATA frame of the broker for this long.
    pub idle: Option<Duration>,
    /// Resets each stream when it is this old, whatever it carries.
    pub lifetime: Option<Duration>,
    /// What becomes of the trailers.
    pub trailers: Trailers,
    /// Sends whole calls again, as a mesh that retries does.
    pub resend: Option<Resend>,
}

/// What becomes of the trailers.
#[derive(Clone, Copy, Debug, Default)]
pub enum Trailers {
    /// They pass.
    #[default]
    Forward,
    /// The stream is reset in their place, this long after they came, with NO_ERROR.
    Reset(Duration),
}

/// Forwards a call, discards the reply, and sends the same bytes again. The client gets the last reply.
#[derive(Clone, Debug)]
pub struct Resend {
    /// The calls that are sent again: the end of their path.
    pub path: &'static str,
    /// How many times each is sent in all.
    pub copies: usize,
    /// The pause between two copies.
    pub pause: Duration,
}

/// A proxy on a free port of loopback. Dropping it cuts everything.
pub struct H2Proxy {
    /// Where it listens.
    pub addr: SocketAddr,
    shared: Arc<Shared>,
    accept: JoinHandle<()>,
}

struct Shared {
    upstream: SocketAddr,
    policy: Mutex<Policy>,
    /// Counts the orders to reset all streams, and names the reason of the last.
    order: watch::Sender<(u64, Reason)>,
    streams: Mutex<Vec<String>>,
    resets: AtomicUsize,
    accepted: AtomicUsize,
    discarded: Mutex<Vec<Reply>>,
}

/// A reply that was discarded: its bytes, and its trailers or, where there is nothing else, its head.
#[derive(Clone, Debug)]
pub struct Reply {
    head: HeaderMap,
    /// The message in its framing.
    pub body: Bytes,
    trailers: Option<HeaderMap>,
}

impl Reply {
    /// Its status.
    pub fn status(&self) -> Status {
        let headers = self.trailers.as_ref().unwrap_or(&self.head);
        Status::from_header_map(headers).expect("a status")
    }
}

impl H2Proxy {
    /// A proxy in front of `upstream`.
    pub async fn start(upstream: SocketAddr, policy: Policy) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            upstream,
            policy: Mutex::new(policy),
            order: watch::Sender::new((0, Reason::NO_ERROR)),
            streams: Mutex::default(),
            resets: AtomicUsize::new(0),
            accepted: AtomicUsize::new(0),
            discarded: Mutex::default(),
        });
        let accept = tokio::spawn(accept(listener, shared.clone()));
        Self {
            addr,
            shared,
            accept,
        }
    }

    /// Where clients find it.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Changes what it does with the streams to come.
    pub fn set(&self, change: impl FnOnce(&mut Policy)) {
        change(&mut self.shared.policy.lock().expect("whole"));
    }

    /// Resets every stream that is there, towards both sides.
    pub fn reset_streams(&self, reason: Reason) {
        self.shared.order.send_modify(|o| *o = (o.0 + 1, reason));
    }

    /// How many streams came whose path ends so.
    pub fn streams(&self, path: &str) -> usize {
        let streams = self.shared.streams.lock().expect("whole");
        streams.iter().filter(|p| p.ends_with(path)).count()
    }

    /// How many streams the proxy has reset.
    pub fn resets(&self) -> usize {
        self.shared.resets.load(Ordering::SeqCst)
    }

    /// How many connections came.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// The replies that were discarded.
    pub fn discarded(&self) -> Vec<Reply> {
        self.shared.discarded.lock().expect("whole").clone()
    }
}

impl Drop for H2Proxy {
    fn drop(&mut self) {
        self.accept.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Aborted with this task, and their streams with them.
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        shared.accepted.fetch_add(1, Ordering::SeqCst);
        connections.spawn(connection(socket, shared.clone()));
    }
}

/// One connection of a client, and one of its own to the broker.
async fn connection(socket: TcpStream, shared: Arc<Shared>) -> Option<()> {
    let broker = TcpStream::connect(shared.upstream).await.ok()?;
    let _ = (socket.set_nodelay(true), broker.set_nodelay(true));
    let mut to_client = server::Builder::new();
    if let Some(max) = shared.policy.lock().expect("whole").max_streams {
        to_client.max_concurrent_streams(max);
    }
    let mut clients = to_client.handshake::<_, Bytes>(socket).await.ok()?;
    let (send, connection) = client::Builder::new()
        .initial_connection_window_size(16 << 20)
        .max_concurrent_reset_streams(10_000)
        .handshake::<_, Bytes>(broker)
        .await
        .ok()?;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let _ = connection.await;
        None
    });
    while let Some(Ok((request, respond))) = clients.accept().await {
        tasks.spawn(stream(request, respond, send.clone(), shared.clone()));
    }
    Some(())
}

/// One stream. `None` where one of the two sides went.
async fn stream(
    request: Request<RecvStream>,
    respond: server::SendResponse<Bytes>,
    send: client::SendRequest<Bytes>,
    shared: Arc<Shared>,
) -> Option<()> {
    let policy = shared.policy.lock().expect("whole").clone();
    let path = request.uri().path().to_owned();
    shared.streams.lock().expect("whole").push(path.clone());
    let (head, mut body) = request.into_parts();
    let body = collect(&mut body).await?;
    let request = || {
        let mut request = Request::new(());
        *request.method_mut() = head.method.clone();
        *request.uri_mut() = head.uri.clone();
        *request.headers_mut() = head.headers.clone();
        request
    };
    if let Some(resend) = policy.resend.as_ref().filter(|r| path.ends_with(r.path)) {
        for _ in 1..resend.copies {
            let reply = reply(&send, request(), &body).await?;
            shared.discarded.lock().expect("whole").push(reply);
            sleep(resend.pause).await;
        }
    }
    let (response, to_broker) = begin(&send, request(), &body).await?;
    Forward {
        shared,
        policy,
        to_broker,
        respond,
    }
    .run(response)
    .await
}

async fn begin(
    send: &client::SendRequest<Bytes>,
    request: Request<()>,
    body: &Bytes,
) -> Option<(client::ResponseFuture, SendStream<Bytes>)> {
    let mut send = send.clone().ready().await.ok()?;
    let (response, mut to_broker) = send.send_request(request, false).ok()?;
    to_broker.send_data(body.clone(), true).ok()?;
    Some((response, to_broker))
}

async fn reply(
    send: &client::SendRequest<Bytes>,
    request: Request<()>,
    body: &Bytes,
) -> Option<Reply> {
    let (response, _to_broker) = begin(send, request, body).await?;
    let (head, mut body) = response.await.ok()?.into_parts();
    Some(Reply {
        head: head.headers,
        body: collect(&mut body).await?,
        trailers: body.trailers().await.ok()?,
    })
}

async fn collect(body: &mut RecvStream) -> Option<Bytes> {
    let mut bytes = BytesMut::new();
    while let Some(data) = body.data().await {
        let data = data.ok()?;
        let _ = body.flow_control().release_capacity(data.len());
        bytes.extend_from_slice(&data);
    }
    Some(bytes.freeze())
}

/// The way back of one stream.
struct Forward {
    shared: Arc<Shared>,
    policy: Policy,
    to_broker: SendStream<Bytes>,
    respond: server::SendResponse<Bytes>,
}

impl Forward {
    async fn run(mut self, response: client::ResponseFuture) -> Option<()> {
        let begun = Instant::now();
        let mut order = self.shared.order.subscribe();
        let (head, mut from_broker) = response.await.ok()?.into_parts();
        let mut head_only = Response::new(());
        *head_only.headers_mut() = head.headers;
        let ended = from_broker.is_end_stream();
        let mut to_client = self.respond.send_response(head_only, ended).ok()?;
        if ended {
            return Some(());
        }
        let far = begun + Duration::from_secs(3600);
        let mut last_data = begun;
        loop {
            let idle = self.policy.idle.map_or(far, |idle| last_data + idle);
            let old = self.policy.lifetime.map_or(far, |age| begun + age);
            tokio::select! {
                biased;
                _ = order.changed() => {
                    let reason = order.borrow().1;
                    return self.reset(to_client, reason);
                }
                () = sleep_until(idle.min(old)) => return self.reset(to_client, Reason::CANCEL),
                _ = poll_fn(|cx| to_client.poll_reset(cx)) => {
                    self.to_broker.send_reset(Reason::CANCEL);
                    return None;
                }
                data = from_broker.data() => match data {
                    Some(Ok(data)) => {
                        let _ = from_broker.flow_control().release_capacity(data.len());
                        last_data = Instant::now();
                        to_client.send_data(data, false).ok()?;
                    }
                    Some(Err(error)) => {
                        to_client.send_reset(error.reason().unwrap_or(Reason::INTERNAL_ERROR));
                        return None;
                    }
                    None => break,
                },
            }
        }
        let trailers = from_broker.trailers().await.ok()??;
        match self.policy.trailers {
            Trailers::Forward => to_client.send_trailers(trailers).ok(),
            Trailers::Reset(after) => {
                sleep(after).await;
                self.reset(to_client, Reason::NO_ERROR)
            }
        }
    }

    fn reset(mut self, mut to_client: SendStream<Bytes>, reason: Reason) -> Option<()> {
        self.shared.resets.fetch_add(1, Ordering::SeqCst);
        to_client.send_reset(reason);
        self.to_broker.send_reset(reason);
        Some(())
    }
}
