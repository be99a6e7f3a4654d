//! Until when a stream may live, whatever becomes of its wait.

use tokio::time::Instant;

use super::{Options, connection_end::ConnectionEnd, deadline::Deadline};

/// What bounds a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The call's own deadline: the stream ends with DEADLINE_EXCEEDED.
    pub(super) deadline: Option<Instant>,
    /// When the broker lets go, and the client attaches again.
    pub(super) let_go: Instant,
}

impl Bounds {
    /// Of a stream that begins now. The broker lets go after the stream's lifetime, give or take a tenth, or sooner if its
    /// connection ends before.
    pub(super) fn new(
        deadline: Option<Deadline>,
        connection: Option<ConnectionEnd>,
        options: &Options,
    ) -> Self {
        let lifetime = options.stream_lifetime.mul_f64(0.9 + 0.2 * chance());
        let let_go = Instant::now() + lifetime;
        Self {
            deadline: deadline.map(|d| d.at),
            let_go: connection.map_or(let_go, |end| let_go.min(end.stream_end(chance()))),
        }
    }
}

/// A number from 0 up to but not including 1, by chance.
pub(super) fn chance() -> f64 {
    // Without random bytes there is only no spread.
    getrandom::u32().map_or(0.5, |random| f64::from(random) / 4_294_967_296.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stream_is_let_go_before_its_connection_is_cut() {
        let (now, hour) = (Instant::now(), Duration::from_secs(3600));
        let options = Options {
            stream_lifetime: hour,
            ..Options::default()
        };
        let old = ConnectionEnd {
            at: now + Duration::from_secs(60),
            grace: Duration::from_secs(20),
        };
        for _ in 0..100 {
            let free = Bounds::new(None, None, &options).let_go - now;
            assert!((hour.mul_f64(0.9)..hour.mul_f64(1.1)).contains(&free));
            let bound = Bounds::new(None, Some(old), &options).let_go;
            assert!((old.at..=old.at + old.grace / 2).contains(&bound));
        }
    }
}
