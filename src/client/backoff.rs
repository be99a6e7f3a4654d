//! How long to wait before trying again.

use std::time::Duration;

/// Exponential backoff with full jitter: the n-th try waits a random time between nothing and `base * 2^n`, at most `cap`.
///
/// Full jitter, since all clients of a broker lose their streams in the same moment, and must not come back in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The bound of the first delay. Default: 250 ms.
    pub base: Duration,
    /// The bound of every delay. Default: 30 s.
    pub cap: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(250),
            cap: Duration::from_secs(30),
        }
    }
}

impl Backoff {
    /// The delay before try number `attempt` (the first is 0), where `random` is evenly spread over all of `u32`.
    ///
    /// Pure, so that a test can ask for its bounds.
    pub fn delay(&self, attempt: u32, random: u32) -> Duration {
        self.bound(attempt)
            .mul_f64(f64::from(random) / (f64::from(u32::MAX) + 1.0))
    }

    /// What the delay before try number `attempt` stays below.
    pub fn bound(&self, attempt: u32) -> Duration {
        // Beyond 2^31 any base of a nanosecond or more is above any sane cap; what overflows is the cap too.
        self.base
            .checked_mul(1 << attempt.min(31))
            .map_or(self.cap, |bound| bound.min(self.cap))
    }

    /// As [`Backoff::delay`], with fresh randomness.
    pub(super) fn jittered(&self, attempt: u32) -> Duration {
        // Without randomness from the system half the bound is a fair delay; waiting matters more than spreading.
        self.delay(attempt, getrandom::u32().unwrap_or(u32::MAX / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_double_up_to_the_cap() {
        let backoff = Backoff::default();
        let bounds: Vec<u128> = (0..10).map(|n| backoff.bound(n).as_millis()).collect();
        assert_eq!(
            bounds,
            [
                250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000
            ]
        );
        assert_eq!(backoff.bound(u32::MAX), backoff.cap);
    }

    #[test]
    fn a_delay_is_spread_over_all_of_its_bound() {
        let backoff = Backoff::default();
        for attempt in [0, 3, 40] {
            let bound = backoff.bound(attempt);
            assert_eq!(backoff.delay(attempt, 0), Duration::ZERO);
            assert_eq!(backoff.delay(attempt, 1 << 31), bound / 2);
            let most = backoff.delay(attempt, u32::MAX);
            assert!(most <= bound && most > bound.mul_f64(0.999));
        }
    }

    #[test]
    fn jitter_differs_from_call_to_call() {
        let backoff = Backoff::default();
        let delays: std::collections::BTreeSet<_> = (0..50).map(|_| backoff.jittered(7)).collect();
        assert!(delays.len() > 40, "only {} different delays", delays.len());
    }
}
