//! The order in which we stop, and what makes us.
//!
//! 1. Health says NOT_SERVING, so that balancers look elsewhere.
//! 2. No connection is accepted any more.
//! 3. The broker tells its streams to end with `detached`, which they do spread over a second or so, and refuses new ones.
//! 4. Every connection gets a GOAWAY and ends with its last call. Calls in flight finish.
//! 5. After the drain timeout the connections that are left are cut.
//! 6. The background tasks end.
//! 7. The store finishes what was begun and closes.

use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::TaskTracker;

use super::{Error, connection::Stop, health::Status, tasks::Tasks};
use crate::broker::Broker;

/// How long health goes on to say NOT_SERVING to those who watch it, before their streams, which end by nothing else, are ended.
const HEALTH_LINGER: Duration = Duration::from_secs(2);

/// What is stopped.
pub(super) struct Drain {
    pub(super) health: Status,
    pub(super) stop: Stop,
    pub(super) tracker: TaskTracker,
    pub(super) tasks: Tasks,
    pub(super) broker: Broker,
    pub(super) timeout: Duration,
}

impl Drain {
    /// Stops in order. Takes the drain timeout and a moment at most, and what the store needs to close.
    pub(super) async fn run(self) {
        let end = Instant::now() + self.timeout;
        tracing::info!(timeout = ?self.timeout, "stopping");
        self.health.not_serving().await;
        self.stop.accept.cancel();
        self.broker.begin_drain();
        self.stop.drain.cancel();
        self.tracker.close();

        let linger = HEALTH_LINGER.min(self.timeout / 2);
        if timeout(linger, self.tracker.wait()).await.is_err() {
            self.health.end_watches().await;
        }
        if timeout_at(end, self.tracker.wait()).await.is_err() {
            tracing::warn!(
                left = self.tracker.len(),
                "the drain timeout is over; cutting the connections that are left"
            );
            self.stop.cut.cancel();
            // Their tasks end at their next poll, which is now. One that is caught in a poll must not hold us.
            let _ = timeout(Duration::from_secs(1), self.tracker.wait()).await;
        }
        self.tasks.stop().await;
        self.broker.close().await;
        tracing::info!("stopped");
    }
}

/// The signals that ask us to stop: SIGTERM and Ctrl-C.
#[derive(Debug)]
pub struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    /// Begins to listen, before anybody is told that the server is ready. From here on the signals no longer end the process by
    /// themselves, for as long as it lives.
    ///
    /// # Errors
    /// [`Error::Signals`] if the process cannot have handlers for them.
    pub fn new() -> Result<Self, Error> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let listen = |kind| signal(kind).map_err(Error::Signals);
            Ok(Self {
                terminate: listen(SignalKind::terminate())?,
                interrupt: listen(SignalKind::interrupt())?,
            })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    /// Waits for the next signal.
    ///
    /// # Cancel safety
    /// Cancel safe: no signal is lost.
    pub async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_err() {
            // There is no handler, so Ctrl-C ends the process.
            std::future::pending().await
        }
    }
}
