//! One of the client's connections: replaced when it froze, and left alone for a while when its server asks for that.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use tokio::{net::TcpStream, time::Instant};
use tonic::{
    Code,
    codegen::Service,
    transport::{Channel, Endpoint, Uri},
};

use super::{
    error::Refusal,
    overheard::{Overheard, Scoldings},
};

/// TCP's own test of an idle connection.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);
/// Each scolding doubles the time between two pings, up to this.
const LONGEST_KEEP_ALIVE: Duration = Duration::from_secs(3600);
/// How long a cause that was reported is not reported again.
const REPORTED: Duration = Duration::from_secs(3600);

/// A connection that many calls share. Clones are the same line.
#[derive(Clone, Debug)]
pub(super) struct Line(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// How to connect anew. `None` for a channel that was made elsewhere, which stays.
    endpoint: Option<Endpoint>,
    scoldings: Arc<Scoldings>,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    channel: Channel,
    /// How often the channel was replaced.
    number: u64,
    keep_alive_interval: Duration,
    reported: Option<Instant>,
}

/// The line as one try found it.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) channel: Channel,
    line: Line,
    number: u64,
    scoldings: u64,
}

impl Line {
    /// A line that connects when it is first used. Must be made within a Tokio runtime.
    pub(super) fn new(
        endpoint: Endpoint,
        connect_timeout: Duration,
        keep_alive_interval: Duration,
    ) -> Self {
        let endpoint = endpoint.connect_timeout(connect_timeout);
        let scoldings = Arc::<Scoldings>::default();
        let channel = connect(&endpoint, keep_alive_interval, &scoldings);
        Self::of(Some(endpoint), channel, keep_alive_interval, scoldings)
    }

    /// A channel that was made elsewhere.
    pub(super) fn fixed(channel: Channel) -> Self {
        Self::of(None, channel, Duration::ZERO, Arc::default())
    }

    fn of(
        endpoint: Option<Endpoint>,
        channel: Channel,
        keep_alive_interval: Duration,
        scoldings: Arc<Scoldings>,
    ) -> Self {
        let current = Current {
            channel,
            number: 0,
            keep_alive_interval,
            reported: None,
        };
        Self(Arc::new(Shared {
            endpoint,
            scoldings,
            current: Mutex::new(current),
        }))
    }

    /// The line for one try.
    pub(super) fn hold(&self) -> Hold {
        let current = self.current();
        Hold {
            channel: current.channel.clone(),
            line: self.clone(),
            number: current.number,
            scoldings: self.0.scoldings.count(),
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        let lock = self.0.current.lock();
        // Nothing in here can be left half done.
        lock.unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects anew for all tries to come, unless another try saw to that already.
    fn replace(&self, number: u64, lengthen: u32) {
        let mut current = self.current();
        if let Some(endpoint) = &self.0.endpoint
            && current.number == number
        {
            let longer = current.keep_alive_interval.saturating_mul(lengthen);
            // One that was set longer than that stays.
            current.keep_alive_interval =
                longer.min(LONGEST_KEEP_ALIVE.max(current.keep_alive_interval));
            current.channel = connect(endpoint, current.keep_alive_interval, &self.0.scoldings);
            current.number += 1;
        }
    }

    /// Tells people why the client holds back, once.
    fn report(&self, cause: &str) {
        let mut current = self.current();
        if current.reported.is_none_or(|at| at.elapsed() >= REPORTED) {
            current.reported = Some(Instant::now());
            tracing::warn!(
                cause,
                "the broker, or a proxy, asks for restraint; trying less often"
            );
        }
    }
}

impl Hold {
    /// Nothing arrived for so long that the connection must be taken for dead. What goes on with it stays on it; the next try is
    /// made on another.
    pub(super) fn went_silent(&self) {
        self.line.replace(self.number, 1);
    }

    /// Whether `refusal`, the end of this try, says that the client does too much.
    pub(super) fn is_scolded(&self, refusal: &Refusal) -> bool {
        if self.line.0.scoldings.count() > self.scoldings {
            let text = self.line.0.scoldings.text();
            self.line
                .report(&format!("GOAWAY ENHANCE_YOUR_CALM {text:?}"));
            self.line.replace(self.number, 2);
            return true;
        }
        if refusal.code == Code::ResourceExhausted {
            self.line.report(&refusal.to_string());
            return true;
        }
        false
    }
}

fn connect(
    endpoint: &Endpoint,
    keep_alive_interval: Duration,
    scoldings: &Arc<Scoldings>,
) -> Channel {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(TCP_KEEPALIVE));
    let connector = Connector {
        tcp,
        scoldings: scoldings.clone(),
    };
    endpoint
        .clone()
        .http2_keep_alive_interval(keep_alive_interval)
        .connect_with_connector_lazy(connector)
}

/// Connects with TCP, and overhears the connection.
#[derive(Clone)]
struct Connector {
    tcp: HttpConnector,
    scoldings: Arc<Scoldings>,
}

type Connecting = Pin<Box<dyn Future<Output = io::Result<TokioIo<Overheard<TcpStream>>>> + Send>>;

impl Service<Uri> for Connector {
    type Response = TokioIo<Overheard<TcpStream>>;
    type Error = io::Error;
    type Future = Connecting;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tcp.poll_ready(cx).map_err(io::Error::other)
    }

    fn call(&mut self, uri: Uri) -> Connecting {
        let connecting = self.tcp.call(uri);
        let scoldings = self.scoldings.clone();
        Box::pin(async move {
            let stream = connecting.await.map_err(io::Error::other)?.into_inner();
            Ok(TokioIo::new(Overheard::new(stream, scoldings)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: Duration = Duration::from_secs(300);

    fn line() -> Line {
        let endpoint = Endpoint::from_static("http://127.0.0.1:1");
        Line::new(endpoint, Duration::from_secs(5), PING)
    }

    fn passing() -> Refusal {
        Refusal::local(Code::Unknown, "a broken pipe")
    }

    #[tokio::test]
    async fn a_frozen_connection_is_replaced_once_by_whoever_notices_first() {
        let line = line();
        let (one, two) = (line.hold(), line.hold());
        one.went_silent();
        two.went_silent();
        assert_eq!(line.hold().number, 1);
        assert_eq!(line.current().keep_alive_interval, PING);
    }

    #[tokio::test]
    async fn c12_a_scolding_is_met_by_all_who_were_on_the_line_and_lengthens_the_pings() {
        let line = line();
        let (one, two) = (line.hold(), line.hold());
        assert!(!one.is_scolded(&passing()));
        line.0.scoldings.hear(b"\0\0\0\0\0\0\0\x0btoo_many_pings");
        assert!(one.is_scolded(&passing()) && two.is_scolded(&passing()));
        assert_eq!(line.current().keep_alive_interval, 2 * PING);
        assert!(line.current().reported.is_some());
        // The next try begins with a clean slate.
        assert!(!line.hold().is_scolded(&passing()));
        for _ in 0..10 {
            let hold = line.hold();
            line.0.scoldings.hear(b"\0\0\0\0\0\0\0\x0b");
            assert!(hold.is_scolded(&passing()));
        }
        assert_eq!(line.current().keep_alive_interval, LONGEST_KEEP_ALIVE);
    }

    #[tokio::test]
    async fn c12_restraint_begins_with_long_delays_and_a_healthy_stream_does_not_end_it() {
        let client = crate::client::Client::connect("http://127.0.0.1:1").unwrap();
        let hold = client.waits.hold();
        let exhausted = Refusal::local(Code::ResourceExhausted, "less");
        let mut attempt = 0;
        client.delay(&hold, &exhausted, &mut attempt, true);
        assert_eq!(attempt, 6);
        client.delay(&hold, &exhausted, &mut attempt, true);
        assert_eq!(attempt, 7);
        client.delay(&hold, &passing(), &mut attempt, false);
        assert_eq!(attempt, 8);
        client.delay(&hold, &passing(), &mut attempt, true);
        assert_eq!(attempt, 1);
    }

    #[tokio::test]
    async fn a_channel_that_was_made_elsewhere_stays() {
        let channel = Endpoint::from_static("http://127.0.0.1:1").connect_lazy();
        let line = Line::fixed(channel);
        line.hold().went_silent();
        assert_eq!(line.hold().number, 0);
    }
}
