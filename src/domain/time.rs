//! Points in time and lengths of time, as the rules and the stores know them.

use std::{fmt::Write as _, time::Duration};

/// A point in time: microseconds since the Unix epoch, UTC. Stores keep exactly this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The earliest point in time.
    pub const MIN: Self = Self(i64::MIN);
    /// The latest point in time.
    pub const MAX: Self = Self(i64::MAX);

    /// From microseconds since the Unix epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This time and `length` more, cut to microseconds and to [`Timestamp::MAX`].
    pub fn after(self, length: Duration) -> Self {
        Self(self.0.saturating_add(to_micros(length)))
    }

    /// This time and `length` less, cut to microseconds and to [`Timestamp::MIN`].
    pub fn before(self, length: Duration) -> Self {
        Self(self.0.saturating_sub(to_micros(length)))
    }

    /// The time from `earlier` until this one; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        let micros = self.0.saturating_sub(earlier.0);
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }
}

/// A length in whole microseconds; what is below one is cut off, what does not fit is the largest that does.
pub fn to_micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
}

/// Writes a length the way Python's `timedelta` does, which is what workers of Pydantic AI know: `0:30:00`,
/// `1 day, 0:00:00.000001`. Source: `timeout_texts` in `tests/data/deferred_tool_results.json`.
pub fn text(length: Duration) -> String {
    let micros = length.as_micros();
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let (days, second_of_day) = (seconds / 86_400, seconds % 86_400);
    let mut text = match days {
        0 => String::new(),
        1 => "1 day, ".to_owned(),
        n => format!("{n} days, "),
    };
    let (hours, minutes, seconds) = (
        second_of_day / 3600,
        second_of_day / 60 % 60,
        second_of_day % 60,
    );
    // Writing to a `String` cannot fail.
    let _ = write!(text, "{hours}:{minutes:02}:{seconds:02}");
    if fraction != 0 {
        let _ = write!(text, ".{fraction:06}");
    }
    text
}
