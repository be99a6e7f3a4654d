//! Every setting of the broker, checked.
//!
//! May import: the rooms' options. [`flags`] holds the command line's definitions; [`Config`] is what they come to, and what a
//! program that embeds the broker makes by hand.

pub mod choices;
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

use crate::{broker, grpc, store::sqlite};

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
    /// What callers may send, and how long settled waits are kept.
    pub broker: broker::Options,
    /// How streams live.
    pub grpc: grpc::Options,
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
    Sqlite(sqlite::Options),
}

/// How long to wait for another process to let go of the data directory: longer than its drain may take.
const LOCK_WAIT: Duration = Duration::from_secs(15);

impl Config {
    /// The defaults, with a SQLite store in `data_dir`.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        let sqlite = sqlite::Options {
            lock_timeout: LOCK_WAIT,
            ..sqlite::Options::new(data_dir)
        };
        Self {
            store: Store::Sqlite(sqlite),
            ..Self::in_memory()
        }
    }

    /// The defaults, with nothing kept.
    pub fn in_memory() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)),
            store: Store::Memory,
            broker: broker::Options::default(),
            grpc: grpc::Options::default(),
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
        let payload = self.broker.limits.payload_bytes;
        if !(1..=values::MAX_PAYLOAD_BYTES).contains(&payload) {
            return Err(Error::new(
                "--max-payload",
                format!("{payload} bytes"),
                "1 byte to 64 MiB are accepted, for example 1MiB",
            ));
        }
        within(
            "--max-timeout",
            self.broker.limits.max_timeout,
            ms(1),
            days(36_600),
        )?;
        within(
            "--deadline-margin",
            self.broker.limits.deadline_margin,
            ms(0),
            ms(60_000),
        )?;
        within(
            "--alive-interval",
            self.grpc.alive_interval,
            ms(10),
            ms(3_600_000),
        )?;
        within(
            "--stream-lifetime",
            self.grpc.stream_lifetime,
            ms(10),
            days(30),
        )?;
        within("--retention", self.broker.retention, ms(0), days(36_600))?;
        within(
            "--tombstone-time",
            self.broker.tombstones,
            ms(0),
            days(36_600),
        )?;
        within("--drain-timeout", self.drain_timeout, ms(0), ms(3_600_000))?;
        if let Store::Sqlite(sqlite) = &self.store {
            within("--lock-wait", sqlite.lock_timeout, ms(0), ms(3_600_000))?;
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
        config.grpc.alive_interval = Duration::ZERO;
        let error = config.check().expect_err("zero").to_string();
        assert_eq!(error, "--alive-interval is 0s: 10ms to 1h are accepted");

        let mut config = Config::in_memory();
        config.broker.limits.payload_bytes = 1 << 30;
        assert_eq!(config.check().expect_err("1 GiB").name, "--max-payload");
    }
}
