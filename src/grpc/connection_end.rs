//! When the connection that a stream runs on will be told to go, so that the stream can end itself before it is cut.

use std::time::Duration;

use tokio::time::Instant;

/// In the extensions of each request on a connection whose age is limited; absent where it is not.
///
/// A stream ends itself at [`ConnectionEnd::stream_end`] as it does at the end of its own lifetime, whichever is earlier.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionEnd {
    /// When the connection gets its GOAWAY. From then on the peer opens its calls on another one.
    pub at: Instant,
    /// How long after that the connection is cut, whatever is still open on it.
    pub grace: Duration,
}

impl ConnectionEnd {
    /// When a stream on this connection ends itself: after the GOAWAY, so that the peer attaches again on another connection, and
    /// well before the cut. `spread` is a number of the stream's own from 0 to 1, by chance, so that not all of them come back at
    /// once.
    pub fn stream_end(&self, spread: f64) -> Instant {
        self.at + (self.grace / 2).mul_f64(spread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_end_between_the_goaway_and_half_of_the_grace() {
        let end = ConnectionEnd {
            at: Instant::now(),
            grace: Duration::from_secs(10),
        };
        assert_eq!(end.stream_end(0.0), end.at);
        assert_eq!(end.stream_end(1.0), end.at + Duration::from_secs(5));
    }
}
