//! Times and lengths of time, for people and for programs.

use std::time::{Duration, SystemTime};

use jiff::{Timestamp, tz::TimeZone};

/// A time in the local zone and beside it how far off it is: `2026-11-30 12:30:00 (in 29m 50s)`.
pub(super) fn at(time: SystemTime, now: SystemTime) -> String {
    format!("{} ({})", local(time), relative(time, now))
}

/// A time in the local zone: `2026-11-30 12:30:00`.
pub(super) fn local(time: SystemTime) -> String {
    match Timestamp::try_from(time) {
        Ok(time) => time
            .to_zoned(TimeZone::system())
            .strftime("%Y-%m-%d %H:%M:%S")
            .to_string(),
        // Beyond the year 9999, which only a broker with a broken clock tells.
        Err(_) => "?".to_owned(),
    }
}

/// The time of the day in the local zone: `12:30:00`.
pub(super) fn clock(time: SystemTime) -> String {
    local(time).split(' ').next_back().unwrap_or("?").to_owned()
}

/// How far off a time is: `in 29m 50s`, `2h ago`, `now`.
pub(super) fn relative(time: SystemTime, now: SystemTime) -> String {
    match (time.duration_since(now), now.duration_since(time)) {
        (Ok(left), _) if left.as_secs() > 0 => format!("in {}", length(left)),
        (_, Ok(gone)) if gone.as_secs() > 0 => format!("{} ago", length(gone)),
        _ => "now".to_owned(),
    }
}

/// A length of time by its two largest units, rounded down: `29m 50s`, `2d 3h`, `0s`.
pub(super) fn length(length: Duration) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let mut rest = length.as_secs();
    let first = UNITS
        .iter()
        .position(|(size, _)| rest >= *size)
        .unwrap_or(3);
    let mut parts = Vec::new();
    for (size, unit) in UNITS.iter().skip(first).take(2) {
        let count = rest / size;
        rest %= size;
        if count > 0 || parts.is_empty() {
            parts.push(format!("{count}{unit}"));
        }
    }
    parts.join(" ")
}

/// A time for programs: RFC 3339 in UTC, to the microsecond.
pub(super) fn rfc3339(time: SystemTime) -> String {
    match Timestamp::try_from(time) {
        Ok(time) => format!("{time:.6}"),
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_told_by_their_two_largest_units() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (1799, "29m 59s"),
            (3600, "1h"),
            (3601, "1h"),
            (86_400 * 60 + 7200, "60d 2h"),
        ] {
            assert_eq!(length(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn times_are_told_from_now() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let second = Duration::from_secs(1);
        assert_eq!(relative(now + 90 * second, now), "in 1m 30s");
        assert_eq!(relative(now - 90 * second, now), "1m 30s ago");
        assert_eq!(relative(now, now), "now");
    }

    #[test]
    fn programs_get_microseconds_in_utc() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_micros(1_500_000);
        assert_eq!(rfc3339(time), "1970-01-01T00:00:01.500000Z");
    }
}
