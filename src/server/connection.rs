//! The accept loop, and the life of one connection.
//!
//! tonic's own server cannot do what is needed here: it ends a late call with CANCELLED, sends no GOAWAY when a connection's age
//! and grace are over, waits without limit when it stops, and never lets go of a peer that stopped reading.

use std::{future::Future, io, pin::pin, sync::Arc, time::Duration};

use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{service::Routes, transport::server::Connected as _};

use super::{
    door::Door,
    intake::Intake,
    life::{Event, Life},
    stall::{Backlog, Spoken, Watched},
};
use crate::{config::Connections, telemetry::names};

/// What a peer may send of one message before it has to wait for us to read. Holds a payload of the default limit.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;

/// The same for all calls of a connection together, at the least. Four times as much, so that a few large answers do not hold up the
/// rest.
const MIN_CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// h2 takes small frames that wait to be read for an attack, and closes the connection with all that it holds, once they come to half of
/// the connection's window, where each counts for this much.
const SMALL_FRAME_BYTES: u64 = 256;

/// The most that a call's headers may come to.
const HEADER_LIST_BYTES: u32 = 16 << 10;

/// How many calls may be given up before we have seen them. A client whose opens time out behind a stream limit sends them later
/// as pairs of open and reset; h2 takes twenty of those for an attack, and closes the connection with all that it holds.
const GIVEN_UP_CALLS: usize = 1000;

/// The first and the longest pause after an accept failed, as it does when file descriptors run out.
const ACCEPT_PAUSE: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];

/// How connections are told to end. Each step includes those before it.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop {
    /// No new connections.
    pub(super) accept: CancellationToken,
    /// Each connection gets a GOAWAY and ends with its last call.
    pub(super) drain: CancellationToken,
    /// Each connection is cut.
    pub(super) cut: CancellationToken,
}

/// Everything that connections share.
pub(super) struct Acceptor {
    settings: Connections,
    routes: Routes,
    http: http2::Builder<Tracked>,
    stop: Stop,
    tracker: TaskTracker,
    intake: Arc<Intake>,
}

/// The window of a connection on which each stream may send one small request at the same moment, as a worker does that attaches all
/// its waits again after a restart.
fn connection_window(max_streams: u32) -> u32 {
    let window = 2 * SMALL_FRAME_BYTES * u64::from(max_streams);
    // HTTP/2 knows no larger window (RFC 9113, section 6.9.1).
    let largest = i32::MAX.unsigned_abs();
    u32::try_from(window).map_or(largest, |window| {
        window.clamp(MIN_CONNECTION_WINDOW_BYTES, largest)
    })
}

impl Acceptor {
    pub(super) fn new(
        settings: Connections,
        routes: Routes,
        stop: Stop,
        tracker: TaskTracker,
    ) -> Self {
        let mut http = http2::Builder::new(Tracked(tracker.clone()));
        http.timer(TokioTimer::new())
            .max_concurrent_streams(settings.max_streams)
            .max_pending_accept_reset_streams(GIVEN_UP_CALLS)
            .max_header_list_size(HEADER_LIST_BYTES)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(connection_window(settings.max_streams))
            .keep_alive_interval(settings.keepalive_interval)
            .keep_alive_timeout(settings.keepalive_timeout)
            // gRPC has no use for it, and it would be in every response.
            .auto_date_header(false);
        Self {
            settings,
            routes: routes.prepare(),
            http,
            stop,
            tracker,
            intake: Arc::default(),
        }
    }

    /// Accepts connections until it is told to stop. Each is served in a task of its own.
    pub(super) async fn run(self: Arc<Self>, listener: TcpListener) {
        let mut pause = ACCEPT_PAUSE[0];
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.stop.accept.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((socket, _)) => {
                    pause = ACCEPT_PAUSE[0];
                    self.tracker.spawn(Arc::clone(&self).serve(socket));
                }
                // The peer went before we came.
                Err(error) if is_the_peers(&error) => {}
                Err(error) => {
                    // Most likely out of file descriptors. To try again at once would burn a core until one is free.
                    tracing::warn!({ names::ERROR } = %error, ?pause, "cannot accept connections");
                    let _ = timeout(pause, self.stop.accept.cancelled()).await;
                    pause = (pause * 2).min(ACCEPT_PAUSE[1]);
                }
            }
        }
    }

    /// Serves one connection until it ends or has to.
    async fn serve(self: Arc<Self>, socket: TcpStream) {
        self.set_options(&socket);
        let info = socket.connect_info();
        let peer = info.remote_addr.map(|a| a.to_string());
        let peer = peer.as_deref().unwrap_or("unknown");

        let (spoken, backlog) = (Arc::<Spoken>::default(), Arc::<Backlog>::default());
        let mut life = Life::new(&self.settings, &self.stop, &spoken, &backlog);
        let (counts, intake) = (Arc::clone(&backlog), Arc::clone(&self.intake));
        let door = Door::new(self.routes.clone(), info, life.end(), counts, intake);
        let socket = TokioIo::new(Watched::new(socket, spoken, backlog));
        let mut connection = pin!(self.http.serve_connection(socket, door));
        loop {
            let event = tokio::select! {
                biased;
                result = connection.as_mut() => {
                    if let Err(error) = result {
                        tracing::debug!({ names::PEER } = peer, { names::ERROR } = %error, "connection failed");
                    }
                    return;
                }
                event = life.next() => event,
            };
            match event {
                Event::GoAway => connection.as_mut().graceful_shutdown(),
                // Dropped here, which resets every stream that is left.
                Event::Cut(cause) => {
                    tracing::info!({ names::PEER } = peer, cause, "connection cut");
                    return;
                }
                Event::Stopped => return,
            }
        }
    }

    fn set_options(&self, socket: &TcpStream) {
        // Neither is worth a connection: without them it is slower, or its death is noticed later.
        let _ = socket.set_nodelay(true);
        if let Some(time) = self.settings.tcp_keepalive {
            let keepalive = socket2::TcpKeepalive::new().with_time(time);
            let _ = socket2::SockRef::from(socket).set_tcp_keepalive(&keepalive);
        }
    }
}

fn is_the_peers(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(
        error.kind(),
        K::ConnectionAborted | K::ConnectionReset | K::ConnectionRefused
    )
}

/// Spawns the tasks of streams, which end with their connection.
#[derive(Clone)]
struct Tracked(TaskTracker);

impl<F> hyper::rt::Executor<F> for Tracked
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        self.0.spawn(task);
    }
}
