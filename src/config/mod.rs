//! Every setting of the broker, checked.
//!
//! May import: the rooms' options. [`flags`] holds the command line's definitions; [`Config`] is what they come to, and what a
//! program that embeds the broker makes by hand.

mod connections;
pub mod flags;
mod values;

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

pub use connections::Connections;
pub use flags::ServeArgs;

use crate::domain::limits::Limits;

/// The port where nothing else is said.
pub const DEFAULT_PORT: u16 = 2239;

/// A setting that cannot be used. The program ends with status 64.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} is {value}: {accepted}")]
pub struct Error {
    /// The setting, as its flag.
    pub name: &'static str,
    /// The value that it has.
    pub value: String,
    /// What is accepted, or what to do.
    pub accepted: String,
}

impl Error {
    fn new(name: &'static str, value: impl fmt::Display, accepted: impl Into<String>) -> Self {
        Self {
            name,
            value: value.to_string(),
            accepted: accepted.into(),
        }
    }
}

/// Everything that an operator can set. [`crate::server::Server::bind`] checks it again.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen. Port 0 picks a free one. Default: `127.0.0.1:2239`.
    pub listen: SocketAddr,
    /// Where waits are kept.
    pub store: Store,
    /// What callers may send.
    pub limits: Limits,
    /// How streams live.
    pub streams: Streams,
    /// How long settled waits are kept.
    pub keep: Keep,
    /// How connections live.
    pub connections: Connections,
    /// How long a stop may take, from the signal until the last connection is cut. Default: 10 s. Longer than the orchestrator's
    /// grace time it is useless; at zero every call in flight is cut.
    pub drain_timeout: Duration,
}

/// Where waits are kept.
#[derive(Clone, Debug)]
pub enum Store {
    /// In memory, for tests: everything is lost when the process ends, tokens too.
    Memory,
    /// In an embedded SQLite database.
    Sqlite(Sqlite),
}

/// The embedded store.
#[derive(Clone, Debug)]
pub struct Sqlite {
    /// The directory of the database and its lock file. Made if it is not there.
    pub data_dir: PathBuf,
    /// The file of the token key, made on first start with mode 0600. Without it the database answers no token: back it up, and
    /// not where the data's backup is. Default: `token.key` in the data directory.
    pub token_key_file: PathBuf,
    /// How long to wait for another process to let go of the data directory, as in a rolling restart. Default: 15 s, which is
    /// longer than the drain of the process before takes.
    pub lock_wait: Duration,
}

/// How streams live.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    /// How often a stream says that it lives. Default: 25 s. It must stay below the idle limit of every proxy on the way (often
    /// 60 s); a tenth of it costs ten times the traffic.
    pub alive_interval: Duration,
    /// How long a stream lives before it asks to attach again, give or take 10 %. Default: 1 h.
    pub lifetime: Duration,
}

/// How long settled waits are kept.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// How long a wait is kept after it was settled; its outcome can be had that long. Default: 30 days.
    pub retention: Duration,
    /// How long the key of a purged wait stays taken after that. Default: 365 days.
    pub tombstones: Duration,
}

impl Config {
    /// The defaults, with a SQLite store in `data_dir`.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        let data_dir = data_dir.into();
        Self {
            store: Store::Sqlite(Sqlite {
                token_key_file: data_dir.join("token.key"),
                data_dir,
                lock_wait: Duration::from_secs(15),
            }),
            ..Self::in_memory()
        }
    }

    /// The defaults, with nothing kept.
    pub fn in_memory() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)),
            store: Store::Memory,
            limits: Limits::default(),
            streams: Streams {
                alive_interval: Duration::from_secs(25),
                lifetime: Duration::from_secs(3600),
            },
            keep: Keep {
                retention: values::days(30),
                tombstones: values::days(365),
            },
            connections: Connections::default(),
            drain_timeout: Duration::from_secs(10),
        }
    }

    /// Checks what the types do not.
    ///
    /// # Errors
    /// The first setting that cannot be used.
    pub fn check(&self) -> Result<(), Error> {
        use values::{at_least, days, within};
        let ms = Duration::from_millis;
        if !self.listen.ip().is_loopback() {
            return Err(Error::new(
                "--listen",
                self.listen,
                "callers cannot be authenticated yet, so only a loopback address is taken, for example 127.0.0.1:2239 or [::1]:2239",
            ));
        }
        let payload = self.limits.payload_bytes;
        if !(1..=values::MAX_PAYLOAD_BYTES).contains(&payload) {
            return Err(Error::new(
                "--max-payload",
                format!("{payload} bytes"),
                "1 byte to 64 MiB are accepted, for example 1MiB",
            ));
        }
        within(
            "--max-timeout",
            self.limits.max_timeout,
            ms(1),
            days(36_600),
        )?;
        within(
            "--deadline-margin",
            self.limits.deadline_margin,
            ms(0),
            ms(60_000),
        )?;
        within(
            "--alive-interval",
            self.streams.alive_interval,
            ms(10),
            ms(3_600_000),
        )?;
        within("--stream-lifetime", self.streams.lifetime, ms(10), days(30))?;
        within("--retention", self.keep.retention, ms(0), days(36_600))?;
        within(
            "--tombstone-time",
            self.keep.tombstones,
            ms(0),
            days(36_600),
        )?;
        within("--drain-timeout", self.drain_timeout, ms(0), ms(3_600_000))?;
        if let Store::Sqlite(sqlite) = &self.store {
            within("--lock-wait", sqlite.lock_wait, ms(0), ms(3_600_000))?;
        }
        at_least(
            "--max-streams-per-connection",
            self.connections.max_streams,
            1,
        )?;
        self.connections.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_accepted() {
        assert_eq!(Config::new("data").check(), Ok(()));
        assert_eq!(Config::in_memory().check(), Ok(()));
    }

    #[test]
    fn only_loopback_is_listened_on() {
        for (listen, taken) in [
            ("127.0.0.1:0", true),
            ("127.8.8.8:1", true),
            ("[::1]:2239", true),
            ("0.0.0.0:2239", false),
            ("[::]:2239", false),
            ("192.0.2.1:2239", false),
        ] {
            let config = Config {
                listen: listen.parse().expect("an address"),
                ..Config::in_memory()
            };
            assert_eq!(config.check().is_ok(), taken, "{listen}");
        }
    }

    #[test]
    fn a_bad_setting_is_told_by_name_value_and_what_is_accepted() {
        let mut config = Config::in_memory();
        config.streams.alive_interval = Duration::ZERO;
        let error = config.check().expect_err("zero").to_string();
        assert_eq!(error, "--alive-interval is 0s: 10ms to 1h are accepted");

        let mut config = Config::in_memory();
        config.limits.payload_bytes = 1 << 30;
        assert_eq!(config.check().expect_err("1 GiB").name, "--max-payload");
    }
}
