//! How connections live.

use std::time::Duration;

use super::{
    Error,
    values::{days, within},
};

/// How connections live, from the accept to the cut.
#[derive(Clone, Copy, Debug)]
pub struct Connections {
    /// How long a new peer may take until it has sent the preface of HTTP/2. Default: 10 s. One that never speaks is dropped then.
    pub handshake_timeout: Duration,
    /// The most calls open at once on one connection, which peers are told. Default: 200,000, so that one channel can hold 100,000
    /// waits. Calls beyond it wait within the client, without any error: a small limit makes waits hang.
    pub max_streams: u32,
    /// How often an idle peer is asked for a sign of life by an HTTP/2 PING. Default: 30 s. `None`: never, and then dead peers are
    /// noticed by TCP alone.
    pub keepalive_interval: Option<Duration>,
    /// How long a peer may take to answer that before its connection is closed. Default: 10 s.
    pub keepalive_timeout: Duration,
    /// How long a TCP connection is idle before TCP asks by itself. Default: 60 s. `None`: never. The HTTP/2 keepalive is quicker;
    /// this one keeps entries in firewalls alive where that is off.
    pub tcp_keepalive: Option<Duration>,
    /// How long a peer may leave unread what it was sent. Between once and twice this time after it stopped reading one of its
    /// streams, or the connection, its connection is cut: a stuck stream cannot end itself. Default: 60 s. Below a few seconds,
    /// peers on slow links are cut too.
    pub stall_timeout: Duration,
    /// How old a connection may grow, give or take 10 %, before its peer is told to open another (GOAWAY). `None`, the default:
    /// without limit. Short ages cost a new connection and an attach for each wait; behind a balancer that only sees connections,
    /// an hour or so spreads the load again after replicas were added.
    pub age: Option<Duration>,
    /// How long after that the connection is cut, whatever is still open. Default: 30 s. Streams end themselves in its first half.
    pub age_grace: Duration,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            handshake_timeout: Duration::from_secs(10),
            max_streams: 200_000,
            keepalive_interval: Some(Duration::from_secs(30)),
            keepalive_timeout: Duration::from_secs(10),
            tcp_keepalive: Some(Duration::from_secs(60)),
            stall_timeout: Duration::from_secs(60),
            age: None,
            age_grace: Duration::from_secs(30),
        }
    }
}

impl Connections {
    pub(super) fn check(&self) -> Result<(), Error> {
        let (short, hour) = (Duration::from_millis(10), Duration::from_secs(3600));
        within("--handshake-timeout", self.handshake_timeout, short, hour)?;
        if let Some(interval) = self.keepalive_interval {
            within("--keepalive-interval", interval, short, days(1))?;
        }
        within("--keepalive-timeout", self.keepalive_timeout, short, hour)?;
        if let Some(time) = self.tcp_keepalive {
            // The kernel counts in seconds and takes up to 32,767 of them.
            within("--tcp-keepalive", time, Duration::from_secs(1), 9 * hour)?;
        }
        within("--stall-timeout", self.stall_timeout, short, days(1))?;
        if let Some(age) = self.age {
            within("--connection-age", age, short, days(366))?;
        }
        within(
            "--connection-grace",
            self.age_grace,
            Duration::ZERO,
            days(1),
        )
    }
}
