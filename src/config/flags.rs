//! The command line of `abeyance serve`: each flag is an environment variable too, with one default.

use std::{env, net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args;

use super::{
    Config, Connections, Error, Store,
    choices::{LogFormat, StoreKind, UnknownAnswerKeys},
    values::{self, ByteSize, OrOff, Workers},
};
use crate::{broker, domain::limits::Limits, grpc, store::sqlite, telemetry};

/// The flags of `serve`. Durations are written `250ms`, `25s`, `1h` or `30d`.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// Address to listen on; port 0 picks a free one. Loopback only
    #[arg(
        long,
        env = "ABEYANCE_LISTEN",
        default_value = "127.0.0.1:2239",
        value_name = "ADDR"
    )]
    pub listen: SocketAddr,

    /// Directory of the data [default: $XDG_DATA_HOME/abeyance, else ~/.local/share/abeyance]
    #[arg(long, env = "ABEYANCE_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// Where waits are kept; `memory` keeps nothing beyond the process
    #[arg(
        long,
        env = "ABEYANCE_STORE",
        default_value = "sqlite",
        value_name = "KIND"
    )]
    pub store: StoreKind,

    /// File of the token key, made on first start [default: token.key in the data directory]
    #[arg(long, env = "ABEYANCE_TOKEN_KEY_FILE", value_name = "FILE")]
    pub token_key_file: Option<PathBuf>,

    /// How long to wait for another process to let go of the data directory
    #[arg(long, env = "ABEYANCE_LOCK_WAIT", default_value = "15s", value_name = "TIME", value_parser = values::duration)]
    pub lock_wait: Duration,

    /// How often a stream says that it lives; keep it below the idle limit of every proxy on the way
    #[arg(long, env = "ABEYANCE_ALIVE_INTERVAL", default_value = "25s", value_name = "TIME", value_parser = values::duration)]
    pub alive_interval: Duration,

    /// How long a stream lives before its client attaches again, give or take 10 %
    #[arg(long, env = "ABEYANCE_STREAM_LIFETIME", default_value = "1h", value_name = "TIME", value_parser = values::duration)]
    pub stream_lifetime: Duration,

    /// How long a stop may take before connections are cut
    #[arg(long, env = "ABEYANCE_DRAIN_TIMEOUT", default_value = "10s", value_name = "TIME", value_parser = values::duration)]
    pub drain_timeout: Duration,

    /// Largest question, answer or details, in bytes of JSON
    #[arg(
        long,
        env = "ABEYANCE_MAX_PAYLOAD",
        default_value = "1MiB",
        value_name = "SIZE"
    )]
    pub max_payload: ByteSize,

    /// Keys in answers to tool calls that this version does not know
    #[arg(
        long,
        env = "ABEYANCE_UNKNOWN_ANSWER_KEYS",
        default_value = "refuse",
        value_name = "WHAT"
    )]
    pub unknown_answer_keys: UnknownAnswerKeys,

    /// Longest timeout of a wait, and the timeout of a wait without one
    #[arg(long, env = "ABEYANCE_MAX_TIMEOUT", default_value = "366d", value_name = "TIME", value_parser = values::duration)]
    pub max_timeout: Duration,

    /// How long before a call's deadline its wait expires, at most; a tenth of a short deadline
    #[arg(long, env = "ABEYANCE_DEADLINE_MARGIN", default_value = "250ms", value_name = "TIME", value_parser = values::duration)]
    pub deadline_margin: Duration,

    /// How long a wait is kept after it was settled
    #[arg(long, env = "ABEYANCE_RETENTION", default_value = "30d", value_name = "TIME", value_parser = values::duration)]
    pub retention: Duration,

    /// How long the key of a purged wait stays taken
    #[arg(long, env = "ABEYANCE_TOMBSTONE_TIME", default_value = "365d", value_name = "TIME", value_parser = values::duration)]
    pub tombstone_time: Duration,

    /// Threads that run the broker, beside the store's own; `auto`: all cores but one
    #[arg(
        long,
        env = "ABEYANCE_WORKER_THREADS",
        default_value = "auto",
        value_name = "N"
    )]
    pub worker_threads: Workers,

    /// How long a new connection may take to begin with HTTP/2
    #[arg(long, env = "ABEYANCE_HANDSHAKE_TIMEOUT", default_value = "10s", value_name = "TIME", value_parser = values::duration)]
    pub handshake_timeout: Duration,

    /// Most calls open at once on one connection
    #[arg(
        long,
        env = "ABEYANCE_MAX_STREAMS_PER_CONNECTION",
        default_value = "200000",
        value_name = "N"
    )]
    pub max_streams_per_connection: u32,

    /// How often an idle peer is asked for a sign of life (HTTP/2 PING), or `off`
    #[arg(
        long,
        env = "ABEYANCE_KEEPALIVE_INTERVAL",
        default_value = "30s",
        value_name = "TIME"
    )]
    pub keepalive_interval: OrOff,

    /// How long a peer may take to answer that
    #[arg(long, env = "ABEYANCE_KEEPALIVE_TIMEOUT", default_value = "10s", value_name = "TIME", value_parser = values::duration)]
    pub keepalive_timeout: Duration,

    /// How long a TCP connection is idle before TCP asks by itself, or `off`
    #[arg(
        long,
        env = "ABEYANCE_TCP_KEEPALIVE",
        default_value = "60s",
        value_name = "TIME"
    )]
    pub tcp_keepalive: OrOff,

    /// How long a peer may leave unread what it was sent before its connection is cut
    #[arg(long, env = "ABEYANCE_STALL_TIMEOUT", default_value = "60s", value_name = "TIME", value_parser = values::duration)]
    pub stall_timeout: Duration,

    /// How old a connection may grow before it is told to go (GOAWAY), give or take 10 %, or `off`
    #[arg(
        long,
        env = "ABEYANCE_CONNECTION_AGE",
        default_value = "off",
        value_name = "TIME"
    )]
    pub connection_age: OrOff,

    /// How long after that it is cut
    #[arg(long, env = "ABEYANCE_CONNECTION_GRACE", default_value = "30s", value_name = "TIME", value_parser = values::duration)]
    pub connection_grace: Duration,

    /// Form of the log on stderr
    #[arg(
        long,
        env = "ABEYANCE_LOG_FORMAT",
        default_value = "text",
        value_name = "FORM"
    )]
    pub log_format: LogFormat,

    /// What is logged: a level, or target=level parts divided by commas
    #[arg(
        long,
        env = "ABEYANCE_LOG",
        default_value = "info",
        value_name = "FILTER"
    )]
    pub log: telemetry::Filter,
}

/// What the environment says beside the flags. A trait, so that tests need not change the environment of their process.
pub trait Environment {
    /// The variable's value, if it is set and not empty.
    fn var(&self, name: &str) -> Option<PathBuf>;
}

/// The environment of this process.
#[derive(Clone, Copy, Debug)]
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn var(&self, name: &str) -> Option<PathBuf> {
        env::var_os(name).filter(|v| !v.is_empty()).map(Into::into)
    }
}

impl ServeArgs {
    /// What the flags come to, checked.
    ///
    /// # Errors
    /// The first setting that cannot be used.
    pub fn config(&self, environment: &dyn Environment) -> Result<Config, Error> {
        let config = Config {
            listen: self.listen,
            store: self.store(environment)?,
            broker: broker::Options {
                limits: Limits {
                    payload_bytes: self.max_payload.0,
                    unknown_keys: self.unknown_answer_keys.into(),
                    max_timeout: self.max_timeout,
                    deadline_margin: self.deadline_margin,
                },
                retention: self.retention,
                tombstones: self.tombstone_time,
            },
            grpc: grpc::Options {
                alive_interval: self.alive_interval,
                stream_lifetime: self.stream_lifetime,
            },
            connections: self.connections(),
            drain_timeout: self.drain_timeout,
        };
        config.check()?;
        Ok(config)
    }

    /// How logs are written.
    pub fn telemetry(&self) -> telemetry::Options {
        telemetry::Options {
            format: match self.log_format {
                LogFormat::Text => telemetry::Format::Text,
                LogFormat::Json => telemetry::Format::Json,
            },
            filter: self.log.clone(),
        }
    }

    fn store(&self, environment: &dyn Environment) -> Result<Store, Error> {
        if self.store == StoreKind::Memory {
            return Ok(Store::Memory);
        }
        let data_dir = match &self.data_dir {
            Some(dir) => dir.clone(),
            None => default_data_dir(environment)?,
        };
        Ok(Store::Sqlite(sqlite::Options {
            key_file: self.token_key_file.clone(),
            lock_timeout: self.lock_wait,
            ..sqlite::Options::new(data_dir)
        }))
    }

    fn connections(&self) -> Connections {
        Connections {
            handshake_timeout: self.handshake_timeout,
            max_streams: self.max_streams_per_connection,
            keepalive_interval: self.keepalive_interval.0,
            keepalive_timeout: self.keepalive_timeout,
            tcp_keepalive: self.tcp_keepalive.0,
            stall_timeout: self.stall_timeout,
            age: self.connection_age.0,
            age_grace: self.connection_grace,
        }
    }
}

/// Where data lies by the XDG base directory specification, which has relative paths ignored.
fn default_data_dir(environment: &dyn Environment) -> Result<PathBuf, Error> {
    let absolute = |name| environment.var(name).filter(|path| path.is_absolute());
    absolute("XDG_DATA_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".local/share")))
        .map(|base| base.join("abeyance"))
        .ok_or_else(|| {
            Error::new(
                "--data-dir",
                "not set",
                "neither XDG_DATA_HOME nor HOME tells where data lies; give a directory",
            )
        })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use clap::{CommandFactory as _, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        serve: ServeArgs,
    }

    impl Environment for HashMap<&str, &str> {
        fn var(&self, name: &str) -> Option<PathBuf> {
            self.get(name).map(Into::into)
        }
    }

    fn parse(args: &[&str]) -> Result<ServeArgs, clap::Error> {
        let args = [&["abeyance"], args].concat();
        Cli::try_parse_from(args).map(|cli| cli.serve)
    }

    fn data_dir(
        args: &[&str],
        environment: &HashMap<&str, &str>,
    ) -> Result<sqlite::Options, Error> {
        match parse(args).expect("flags").config(environment)?.store {
            Store::Sqlite(sqlite) => Ok(sqlite),
            Store::Memory => panic!("not the SQLite store"),
        }
    }

    #[test]
    fn the_flags_defaults_are_the_configs() {
        let flags = parse(&["--data-dir", "/data"]).expect("flags");
        let config = flags.config(&HashMap::new()).expect("a config");
        assert_eq!(format!("{config:?}"), format!("{:?}", Config::new("/data")));
        assert_eq!(
            format!("{:?}", flags.telemetry()),
            format!("{:?}", telemetry::Options::default())
        );
    }

    #[test]
    fn every_flag_has_a_variable_by_its_name_and_a_help() {
        for arg in Cli::command().get_arguments() {
            let flag = arg.get_long().expect("a flag");
            let variable = format!("ABEYANCE_{}", flag.to_uppercase().replace('-', "_"));
            assert_eq!(arg.get_env().expect(flag), variable.as_str());
            assert!(arg.get_help().is_some(), "{flag}");
            let default = !arg.get_default_values().is_empty()
                || arg
                    .get_help()
                    .is_some_and(|h| h.to_string().contains("[default:"));
            assert!(default, "{flag} has no documented default");
        }
    }

    #[test]
    fn data_lies_where_the_environment_says() {
        let env = HashMap::from([("XDG_DATA_HOME", "/xdg"), ("HOME", "/home/me")]);
        let sqlite = data_dir(&[], &env).expect("a directory");
        assert_eq!(sqlite.dir, PathBuf::from("/xdg/abeyance"));

        for env in [
            HashMap::from([("HOME", "/home/me")]),
            HashMap::from([("XDG_DATA_HOME", "relative"), ("HOME", "/home/me")]),
        ] {
            let sqlite = data_dir(&[], &env).expect("a directory");
            assert_eq!(sqlite.dir, PathBuf::from("/home/me/.local/share/abeyance"));
        }
        let error = data_dir(&[], &HashMap::new()).expect_err("nowhere");
        assert_eq!(error.name, "--data-dir");
    }

    #[test]
    fn bad_values_are_told_with_name_value_and_accepted_form() {
        for (flag, value, accepted) in [
            ("--alive-interval", "25", "for example 250ms"),
            ("--keepalive-interval", "never", "or off"),
            ("--max-payload", "1MB", "for example 1MiB"),
            ("--worker-threads", "0", "or auto"),
            ("--store", "postgres", "sqlite"),
            ("--log", "abeyance=loud", ""),
            ("--listen", "localhost", ""),
        ] {
            let error = parse(&[flag, value]).expect_err(flag).to_string();
            for part in [flag, value, accepted] {
                assert!(error.contains(part), "{error}");
            }
        }
        let flags = parse(&["--data-dir", "/d", "--listen", "0.0.0.0:1"]).expect("flags");
        let error = flags.config(&HashMap::new()).expect_err("not loopback");
        assert_eq!(
            (error.name, error.value.as_str()),
            ("--listen", "0.0.0.0:1")
        );
    }

    #[test]
    fn what_is_set_arrives() {
        let flags = parse(&[
            "--store=memory",
            "--keepalive-interval=off",
            "--connection-age=1h",
            "--max-payload=2KiB",
            "--log-format=json",
        ]);
        let flags = flags.expect("flags");
        let config = flags.config(&HashMap::new()).expect("a config");
        assert!(matches!(config.store, Store::Memory));
        assert_eq!(config.connections.keepalive_interval, None);
        assert_eq!(config.connections.age, Some(Duration::from_secs(3600)));
        assert_eq!(config.broker.limits.payload_bytes, 2048);
        assert_eq!(flags.telemetry().format, telemetry::Format::Json);
    }
}
