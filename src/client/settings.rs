//! How a client connects and how patient it is.

use std::time::Duration;

use tonic::transport::{Channel, Endpoint};

use super::{backoff::Backoff, error::Error, line::Line};

/// The sizes of HTTP/2 on the channel that carries the waits. A connection window that one slow reader fills stalls every wait
/// on it, so it is far wider than any payload.
const WAITS_CONNECTION_WINDOW: u32 = 64 << 20;
const STREAM_WINDOW: u32 = 2 << 20;

/// Details of a refusal travel in trailers; 4 KiB of status are about 6 KiB of header. Wide, so that no proxy's additions
/// turn a refusal into a protocol error.
const HEADER_LIST_BYTES: u32 = 64 << 10;

/// How many streams that this side gave up are remembered. Frames that were under way for a forgotten one count as an error
/// of the peer, and too many of them end the connection with all the waits on it.
const REMEMBERED_RESETS: usize = 10_000;

/// How a [`Client`](super::Client) connects and how patient it is. Every value has a default that fits most.
///
/// ```no_run
/// # fn main() -> Result<(), abeyance::client::Error> {
/// use abeyance::client::Settings;
/// let client = Settings::new()
///     .patience(std::time::Duration::from_secs(5))
///     .connect("http://127.0.0.1:2239")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Settings {
    pub(super) connect_timeout: Duration,
    pub(super) attempt_timeout: Duration,
    pub(super) patience: Duration,
    pub(super) backoff: Backoff,
    pub(super) keep_alive_interval: Duration,
    pub(super) keep_alive_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            attempt_timeout: Duration::from_secs(15),
            patience: Duration::from_secs(30),
            backoff: Backoff::default(),
            keep_alive_interval: Duration::from_secs(300),
            keep_alive_timeout: Duration::from_secs(20),
        }
    }
}

impl Settings {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long a TCP connection may take to come about. Default: 5 s.
    pub fn connect_timeout(mut self, time: Duration) -> Self {
        self.connect_timeout = time;
        self
    }

    /// How long one try of a call may take, and how long a stream may take to its first event, before it is dropped and tried
    /// again. Sent to the broker as the call's deadline, except for streams. Default: 15 s.
    pub fn attempt_timeout(mut self, time: Duration) -> Self {
        self.attempt_timeout = time;
        self
    }

    /// For how long a call that fails for want of a connection is tried again before it gives up with
    /// [`Error::Unavailable`]; a try that has begun is not cut by it. Zero: one try. It does not bound an attached wait, which
    /// attaches again for as long as somebody waits. Default: 30 s.
    pub fn patience(mut self, time: Duration) -> Self {
        self.patience = time;
        self
    }

    /// The delays between tries. Default: [`Backoff::default`].
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// How long a connection with open streams may be silent before it is tested with an HTTP/2 ping. Default: 5 minutes, the
    /// least that servers of the gRPC family take without calling it abuse. Shorten it only where the server is known to allow
    /// that: the broker's own `alive` events show a dead stream much sooner. Doubled by itself, up to an hour, whenever a server asks for
    /// calm.
    pub fn keep_alive_interval(mut self, time: Duration) -> Self {
        self.keep_alive_interval = time;
        self
    }

    /// How long the answer to such a ping may take. Default: 20 s.
    pub fn keep_alive_timeout(mut self, time: Duration) -> Self {
        self.keep_alive_timeout = time;
        self
    }

    /// Makes a client for the broker at `url`, `http://host:port` or `host:port`. Connects when the first call needs it. Must be
    /// called within a Tokio runtime.
    ///
    /// # Errors
    /// [`Error::InvalidUrl`].
    pub fn connect(self, url: &str) -> Result<super::Client, Error> {
        let endpoint = self.endpoint(url)?;
        let waits = endpoint
            .clone()
            .initial_connection_window_size(WAITS_CONNECTION_WINDOW);
        let line = |endpoint| Line::new(endpoint, self.keep_alive_interval);
        Ok(super::Client::with_lines(
            line(waits),
            line(endpoint.clone()),
            line(endpoint),
            self,
        ))
    }

    /// Makes a client for channels that were made elsewhere: over a Unix socket, in memory, behind a layer. The first carries
    /// the streams of waits, the second all other calls, the third watches. They should be three connections, so that waits
    /// held by the thousand, or a watcher that reads slowly, keep nothing else from its turn.
    ///
    /// Such channels stay as they are: where [`Settings::connect`] replaces a connection that froze, here the channel's own keepalive
    /// must end it; and the word by which a server asks for fewer pings is not heard.
    pub fn with_channels(self, waits: Channel, calls: Channel, watches: Channel) -> super::Client {
        let [waits, calls, watches] = [waits, calls, watches].map(Line::fixed);
        super::Client::with_lines(waits, calls, watches, self)
    }

    fn endpoint(&self, url: &str) -> Result<Endpoint, Error> {
        let full = checked(url).map_err(|why| Error::InvalidUrl {
            url: url.to_owned(),
            why,
        })?;
        let endpoint = Endpoint::from_shared(full)
            .and_then(|e| e.user_agent(concat!("abeyance-rust/", env!("CARGO_PKG_VERSION"))))
            .map_err(|e| Error::InvalidUrl {
                url: url.to_owned(),
                why: e.to_string(),
            })?;
        Ok(endpoint
            .connect_timeout(self.connect_timeout)
            .keep_alive_timeout(self.keep_alive_timeout)
            // Pings on an idle connection are what servers punish; there is nothing to lose on one.
            .keep_alive_while_idle(false)
            .initial_stream_window_size(STREAM_WINDOW)
            .http2_max_header_list_size(HEADER_LIST_BYTES)
            .http2_max_concurrent_reset_streams(REMEMBERED_RESETS)
            // A peer's frame for a stream that was given up is no reason to lose all the others.
            .http2_max_local_error_reset_streams(None))
    }
}

/// The URL in full.
fn checked(url: &str) -> Result<String, String> {
    // The form in which brokers print where they listen, and which the clients of other languages take too.
    let full = match url.contains("://") {
        true => url.to_owned(),
        false => format!("http://{url}"),
    };
    let uri: tonic::transport::Uri = full
        .parse()
        .map_err(|_| "http://host:port or host:port is expected".to_owned())?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => {
            return Err(
                "TLS is not supported yet; use http:// to a broker on this machine, or a proxy that speaks TLS"
                    .to_owned(),
            );
        }
        _ => return Err("must begin with http://, as in http://127.0.0.1:2239".to_owned()),
    }
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err("must be http://host:port without a path".to_owned());
    }
    if full != url && uri.port().is_none() {
        return Err("must name its port, as in 127.0.0.1:2239".to_owned());
    }
    Ok(full)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_url_is_checked_before_anything_connects() {
        for url in [
            "http://127.0.0.1:2239",
            "http://localhost",
            "http://[::1]:1/",
            "127.0.0.1:2239",
            "localhost:2239",
            "[::1]:1",
        ] {
            assert!(Settings::new().connect(url).is_ok(), "{url}");
        }
        for (url, why) in [
            ("https://a:1", "TLS is not supported yet"),
            ("ftp://a:1", "must begin with http://"),
            ("localhost", "must name its port"),
            ("a:1/b", "without a path"),
            ("a:x", "must name its port"),
            ("http://a:1/b", "without a path"),
            ("", "is expected"),
        ] {
            let error = Settings::new().connect(url).expect_err(url).to_string();
            assert!(error.contains(why), "{url}: {error}");
        }
    }

    #[test]
    fn the_ping_is_none_that_servers_punish() {
        assert!(Settings::new().keep_alive_interval >= Duration::from_secs(300));
    }
}
