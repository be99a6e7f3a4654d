//! How values are written and read: lengths of time, sizes, and what may be off.

use std::{fmt, num::NonZeroUsize, str::FromStr, thread, time::Duration};

use super::Error;

/// The largest payload limit that can be set: above it, a single answer would fill the windows of a whole connection.
pub(super) const MAX_PAYLOAD_BYTES: usize = 64 << 20;

pub(super) const fn days(count: u64) -> Duration {
    Duration::from_secs(count * 86_400)
}

pub(super) fn within(
    name: &'static str,
    value: Duration,
    min: Duration,
    max: Duration,
) -> Result<(), Error> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(Error::new(
        name,
        humantime::format_duration(value),
        format!(
            "{} to {} are accepted",
            humantime::format_duration(min),
            humantime::format_duration(max)
        ),
    ))
}

pub(super) fn at_least(name: &'static str, value: u32, min: u32) -> Result<(), Error> {
    if value >= min {
        return Ok(());
    }
    Err(Error::new(
        name,
        value,
        format!("at least {min} is accepted"),
    ))
}

/// Reads a length of time such as `250ms`, `25s`, `1h 30m` or `366d`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| "a length of time is accepted, for example 250ms, 25s, 1h or 30d".to_owned())
}

/// A length of time, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrOff(pub Option<Duration>);

impl FromStr for OrOff {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self(None));
        }
        match duration(text) {
            Ok(length) if !length.is_zero() => Ok(Self(Some(length))),
            _ => Err("a length of time such as 30s is accepted, or off".to_owned()),
        }
    }
}

/// A number of bytes, such as `1MiB`, `512KiB` or `1000000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSize(pub usize);

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let factor = match text[digits.len()..].trim_start() {
            "" | "B" => Some(1),
            "KiB" => Some(1 << 10),
            "MiB" => Some(1 << 20),
            _ => None,
        };
        factor
            .zip(digits.parse::<usize>().ok())
            .and_then(|(factor, count)| count.checked_mul(factor))
            .map(Self)
            .ok_or_else(|| {
                "a size is accepted, for example 1MiB, 512KiB or 1000000 (bytes)".to_owned()
            })
    }
}

/// How many threads run the broker's tasks: a number, or `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers(Option<NonZeroUsize>);

impl Workers {
    /// The number of threads. Automatic: all cores but one, which is left to the store's writer, and at least one.
    pub fn count(self) -> usize {
        self.0.map_or_else(
            || {
                let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
                cores.saturating_sub(1).max(1)
            },
            NonZeroUsize::get,
        )
    }
}

impl FromStr for Workers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self(None));
        }
        match text.parse::<NonZeroUsize>() {
            Ok(count) if count.get() <= 1024 => Ok(Self(Some(count))),
            _ => Err("a number from 1 to 1024 is accepted, or auto".to_owned()),
        }
    }
}

impl fmt::Display for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in [
            ("1", Some(1)),
            ("1MiB", Some(1 << 20)),
            ("512 KiB", Some(512 << 10)),
            ("7B", Some(7)),
            ("", None),
            ("MiB", None),
            ("1MB", None),
            ("-1", None),
            ("1.5MiB", None),
            ("99999999999999999999", None),
            ("18446744073709551615MiB", None),
        ] {
            assert_eq!(text.parse().ok(), bytes.map(ByteSize), "{text}");
        }
    }

    #[test]
    fn what_can_be_off_is_off_by_that_word_alone() {
        assert_eq!("off".parse(), Ok(OrOff(None)));
        assert_eq!("30s".parse(), Ok(OrOff(Some(Duration::from_secs(30)))));
        for text in ["0s", "none", "", "-1s", "30"] {
            assert!(text.parse::<OrOff>().is_err(), "{text}");
        }
    }

    #[test]
    fn there_is_always_a_worker() {
        assert!("auto".parse::<Workers>().expect("auto").count() >= 1);
        assert_eq!("3".parse::<Workers>().expect("3").count(), 3);
        assert!("0".parse::<Workers>().is_err());
    }
}
