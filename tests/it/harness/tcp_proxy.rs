//! A proxy that knows of bytes alone.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::{AbortHandle, JoinHandle},
};

/// What happens to the bytes. Holds for the connections that are there and for those to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They pass.
    Forward,
    /// They are read, both ways, and go nowhere.
    BlackHole,
    /// Nothing is read any more, either way, and the sockets stay open.
    Freeze,
    /// As `Freeze`, from the broker to the client alone.
    FreezeReplies,
    /// As `FreezeReplies`, on the first so many connections alone.
    FreezeOldReplies(usize),
    /// New connections are closed at once; those that are there pass.
    Refuse,
}

/// A proxy on a free port of loopback. Dropping it cuts everything.
pub struct TcpProxy {
    /// Where it listens.
    pub addr: SocketAddr,
    mode: watch::Sender<Mode>,
    connections: Arc<Connections>,
    accept: JoinHandle<()>,
}

#[derive(Default)]
struct Connections {
    accepted: AtomicUsize,
    open: AtomicUsize,
    replied: AtomicUsize,
    tasks: Mutex<Vec<AbortHandle>>,
}

impl TcpProxy {
    /// A proxy in front of `upstream`.
    pub async fn start(upstream: SocketAddr) -> Self {
        Self::cutting_after(upstream, Duration::MAX).await
    }

    /// A proxy that cuts each connection when it is `age` old.
    pub async fn cutting_after(upstream: SocketAddr, age: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("an address");
        let mode = watch::Sender::new(Mode::Forward);
        let connections = Arc::<Connections>::default();
        let accept = tokio::spawn(accept(
            listener,
            upstream,
            age,
            mode.clone(),
            connections.clone(),
        ));
        Self {
            addr,
            mode,
            connections,
            accept,
        }
    }

    /// Where clients find it.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// From now on, this happens to the bytes.
    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Cuts every connection that is there.
    pub fn cut(&self) {
        for task in self.connections.tasks.lock().expect("whole").drain(..) {
            task.abort();
        }
    }

    /// How many connections were accepted so far, refused ones included.
    pub fn accepted(&self) -> usize {
        self.connections.accepted.load(Ordering::SeqCst)
    }

    /// How many bytes went from the broker to clients so far.
    pub fn replied(&self) -> usize {
        self.connections.replied.load(Ordering::SeqCst)
    }

    /// How many connections are open.
    pub fn open(&self) -> usize {
        self.connections.open.load(Ordering::SeqCst)
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.accept.abort();
        self.cut();
    }
}

/// Counts a connection as open until it is dropped.
struct Open(Arc<Connections>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn accept(
    listener: TcpListener,
    upstream: SocketAddr,
    age: Duration,
    mode: watch::Sender<Mode>,
    connections: Arc<Connections>,
) {
    while let Ok((client, _)) = listener.accept().await {
        let number = connections.accepted.fetch_add(1, Ordering::SeqCst);
        if *mode.borrow() == Mode::Refuse {
            continue;
        }
        connections.open.fetch_add(1, Ordering::SeqCst);
        let open = Open(connections.clone());
        let mode = mode.subscribe();
        let task = tokio::spawn(async move {
            // Errors are the ends of connections, which is what a proxy lives on.
            let _ =
                tokio::time::timeout(age, join(client, upstream, mode, &open.0.replied, number))
                    .await;
        });
        let mut tasks = connections.tasks.lock().expect("whole");
        tasks.retain(|task| !task.is_finished());
        tasks.push(task.abort_handle());
    }
}

async fn join(
    client: TcpStream,
    upstream: SocketAddr,
    mode: watch::Receiver<Mode>,
    replied: &AtomicUsize,
    number: usize,
) {
    let Ok(broker) = TcpStream::connect(upstream).await else {
        return;
    };
    // Both ways leave as they come: a proxy must not be what makes a test slow.
    let _ = (client.set_nodelay(true), broker.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_broker, to_broker) = broker.into_split();
    let requests = Way {
        frozen: |m, _| m == Mode::Freeze,
        number,
        count: &AtomicUsize::new(0),
    };
    let replies = Way {
        frozen: |m, number| match m {
            Mode::Freeze | Mode::FreezeReplies => true,
            Mode::FreezeOldReplies(old) => number < old,
            _ => false,
        },
        number,
        count: replied,
    };
    // When one way ends, so does the connection.
    tokio::select! {
        () = pump(from_client, to_broker, mode.clone(), requests) => {}
        () = pump(from_broker, to_client, mode, replies) => {}
    }
}

/// One of the two ways.
struct Way<'a> {
    /// Whether it is frozen in a mode, on the connection of a number.
    frozen: fn(Mode, usize) -> bool,
    number: usize,
    count: &'a AtomicUsize,
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut mode: watch::Receiver<Mode>,
    way: Way<'_>,
) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        if mode
            .wait_for(|m| !(way.frozen)(*m, way.number))
            .await
            .is_err()
        {
            return;
        }
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            changed = mode.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
        };
        let Ok(count @ 1..) = read else { return };
        let now = *mode.borrow();
        if now == Mode::BlackHole {
            continue;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
        way.count.fetch_add(count, Ordering::SeqCst);
    }
}
