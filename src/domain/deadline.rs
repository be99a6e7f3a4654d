//! When it is too late: which timeout a new wait gets, and how long it lives.

use std::time::Duration;

use super::{limits::Limits, wait::TimeoutSource};

/// What the worker said about time when it opened a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// This long, already checked against the maximum.
    Timeout(Duration),
    /// As long as the server allows.
    NoTimeout,
    /// Nothing; then the call's own deadline counts where it is a `Wait` call.
    Unsaid {
        /// The deadline of a `Wait` call, as the time from its start. `None` for other calls and where there is none.
        deadline: Option<Duration>,
    },
}

/// The timeout of a new wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// As it was given.
    pub timeout: Duration,
    /// Who gave it.
    pub source: TimeoutSource,
    /// When it really expires, from its start: a little earlier than a deadline, so that the worker reads a recorded outcome
    /// and not a bare DEADLINE_EXCEEDED.
    pub lifetime: Duration,
}

/// Decides the timeout of a new wait.
pub fn timeout(wish: Wish, limits: &Limits) -> Timeout {
    let whole = |timeout, source| Timeout {
        timeout,
        source,
        lifetime: timeout,
    };
    match wish {
        Wish::Timeout(timeout) => whole(timeout, TimeoutSource::Timeout),
        Wish::NoTimeout | Wish::Unsaid { deadline: None } => {
            whole(limits.max_timeout, TimeoutSource::ServerMaximum)
        }
        // A longer deadline is cut to the maximum, and then the wait ends long before it.
        Wish::Unsaid { deadline: Some(d) } if d > limits.max_timeout => {
            whole(limits.max_timeout, TimeoutSource::Deadline)
        }
        Wish::Unsaid { deadline: Some(d) } => Timeout {
            timeout: d,
            source: TimeoutSource::Deadline,
            lifetime: d.saturating_sub(limits.deadline_margin.min(d / 10)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_the_timeout_less_a_tenth_or_a_quarter_second() {
        let limits = Limits::default();
        let lifetime = |d| timeout(Wish::Unsaid { deadline: Some(d) }, &limits).lifetime;
        assert_eq!(
            lifetime(Duration::from_millis(100)),
            Duration::from_millis(90)
        );
        assert_eq!(
            lifetime(Duration::from_secs(2)),
            Duration::from_millis(1800)
        );
        assert_eq!(
            lifetime(Duration::from_secs(60)),
            Duration::from_millis(59_750)
        );
    }

    #[test]
    fn everything_has_an_end() {
        let limits = Limits::default();
        for wish in [Wish::NoTimeout, Wish::Unsaid { deadline: None }] {
            let t = timeout(wish, &limits);
            assert_eq!(
                (t.timeout, t.source),
                (limits.max_timeout, TimeoutSource::ServerMaximum)
            );
        }
        let long = Wish::Unsaid {
            deadline: Some(Duration::from_secs(99_999_999 * 3600)),
        };
        assert_eq!(timeout(long, &limits).lifetime, limits.max_timeout);
    }
}
