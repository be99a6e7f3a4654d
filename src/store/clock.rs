//! The clock that stores decide by.

use std::{
    fmt,
    sync::{
        LazyLock,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crate::domain::{Timestamp, time::to_micros};

/// Tells the time of day.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time of day. May jump either way.
    fn now(&self) -> Timestamp;

    /// The time since some fixed moment. Does not jump when the time of day is corrected; as it stands here, for clocks that are never
    /// corrected.
    fn elapsed(&self) -> Duration {
        self.now().since(Timestamp::from_micros(0))
    }
}

/// When a broker was ready: kept as a length of time, so that a clock that was wrong then and was corrected since does no harm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready(Duration);

impl Ready {
    /// Ready at `time`, which is not later than now.
    pub(super) fn at(time: Timestamp, clock: &dyn Clock) -> Self {
        Self(clock.elapsed().saturating_sub(clock.now().since(time)))
    }

    /// When that was, by what the time of day is now.
    pub(super) fn time(self, now: Timestamp, clock: &dyn Clock) -> Timestamp {
        now.before(clock.elapsed().saturating_sub(self.0))
    }
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let micros = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => to_micros(since),
            Err(before) => -to_micros(before.duration()),
        };
        Timestamp::from_micros(micros)
    }

    fn elapsed(&self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }
}

/// A clock that stands still until it is told otherwise. For tests.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that stands at `now`.
    pub fn new(now: Timestamp) -> Self {
        Self(AtomicI64::new(now.as_micros()))
    }

    /// Puts the clock to `now`, forwards or backwards.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_micros(), Ordering::SeqCst);
    }

    /// Moves the clock forwards.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(to_micros(by), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}
