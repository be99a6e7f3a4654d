//! Flags that several commands share.

use std::time::Duration;

use clap::Args;

use super::{asked::Asked, exit::Failure, output::quoted, refusal};
use crate::client::{Client, Filter, OpenOptions, Settings, State};

/// Where the broker is.
#[derive(Debug, Args)]
#[command(next_help_heading = "Broker")]
pub(super) struct Broker {
    /// The broker's address, `http://host:port` or `host:port`
    #[arg(long, value_name = "URL", env = SERVER_VARIABLE, default_value = DEFAULT_SERVER)]
    pub(super) server: String,
    /// How long to keep trying while the broker cannot be reached. A wait that is attached tries for ever
    #[arg(
        long,
        value_name = "TIME",
        env = "ABEYANCE_CONNECT_TIMEOUT",
        default_value = "5s",
        value_parser = humantime::parse_duration
    )]
    pub(super) connect_timeout: Duration,
}

/// Names the broker where the command line does not.
const SERVER_VARIABLE: &str = "ABEYANCE_SERVER";
/// Where a broker listens unless it is told otherwise.
const DEFAULT_SERVER: &str = "http://127.0.0.1:2239";

impl Broker {
    pub(super) fn client(&self) -> Result<Client, Failure> {
        Settings::new()
            .connect_timeout(self.connect_timeout)
            .patience(self.connect_timeout)
            .connect(&self.server)
            .map_err(|e| Failure::usage(format!("--server: {e}")))
    }

    /// What a command that is shown needs so that it goes to the same broker: nothing, where the next shell command finds it by
    /// itself.
    pub(super) fn flag(&self) -> String {
        let found = std::env::var(SERVER_VARIABLE).ok();
        if found.as_deref().unwrap_or(DEFAULT_SERVER) == self.server {
            return String::new();
        }
        format!(" --server {}", quoted(&self.server))
    }

    /// As [`Broker::flag`], for a command that is pasted elsewhere, where the environment may be another.
    pub(super) fn flag_elsewhere(&self) -> String {
        if self.server == DEFAULT_SERVER {
            return String::new();
        }
        format!(" --server {}", quoted(&self.server))
    }

    /// Tells an error of a call.
    pub(super) fn failure(&self, error: crate::client::Error) -> Failure {
        refusal::failure(&self.server, error, "abeyance show")
    }
}

/// The namespace.
#[derive(Debug, Args)]
pub(super) struct Namespace {
    /// The namespace of the wait or waits [default: default]
    #[arg(long, value_name = "NAMESPACE", env = "ABEYANCE_NAMESPACE")]
    pub(super) namespace: Option<String>,
}

/// What to open.
#[derive(Debug, Args)]
#[command(next_help_heading = "The wait")]
pub(super) struct Spec {
    /// What kind of wait this is, for example `refund-approval`. Need not be unique
    #[arg(long)]
    pub(super) name: Option<String>,
    /// Your own name for this wait, unique in its namespace. The same key again gives the same wait, so that a worker that
    /// runs again asks nobody twice
    #[arg(long)]
    pub(super) key: Option<String>,
    /// Expire after this time, for example `30m` or `7d` [default: as long as the broker allows, 366 days]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    timeout: Option<Duration>,
    /// Expire when whoever answers, once asked, sends no heartbeat for this long [default: none is demanded]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    heartbeat_timeout: Option<Duration>,
    /// A label to find the wait by; may be given again
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    #[command(flatten)]
    pub(super) asked: Asked,
}

impl Spec {
    /// Whether anything is set that only an open can use.
    pub(super) fn needs_name(&self) -> bool {
        self.timeout.is_some()
            || self.heartbeat_timeout.is_some()
            || !self.labels.is_empty()
            || self.asked.is_given()
    }

    /// Reads the question, if it is elsewhere.
    pub(super) fn options(&self, namespace: &Namespace) -> Result<OpenOptions, Failure> {
        let mut options = OpenOptions::new().labels(self.labels.iter().cloned());
        if let Some(key) = &self.key {
            options = options.key(key);
        }
        if let Some(namespace) = &namespace.namespace {
            options = options.namespace(namespace);
        }
        if let Some(timeout) = self.timeout {
            options = options.timeout(timeout);
        }
        if let Some(timeout) = self.heartbeat_timeout {
            options = options.heartbeat_timeout(timeout);
        }
        if let Some(question) = self.asked.read()? {
            options = options.question(question);
        }
        Ok(options)
    }
}

/// Which waits.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which waits")]
pub(super) struct Which {
    /// In this state: pending, resolved, failed, expired or cancelled; may be given again
    #[arg(long = "state", value_name = "STATE", value_parser = state)]
    pub(super) states: Vec<State>,
    /// Of exactly this name
    #[arg(long)]
    name: Option<String>,
    /// With exactly this label; may be given again
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Opened at least this long ago, for example `1h`
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    older_than: Option<Duration>,
    /// Opened at most this long ago
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    newer_than: Option<Duration>,
    #[command(flatten)]
    namespace: Namespace,
}

impl Which {
    pub(super) fn filter(&self) -> Filter {
        let mut filter = Filter::new();
        if let Some(namespace) = &self.namespace.namespace {
            filter = filter.namespace(namespace);
        }
        for state in &self.states {
            filter = filter.state(*state);
        }
        if let Some(name) = &self.name {
            filter = filter.name(name);
        }
        for (key, value) in &self.labels {
            filter = filter.label(key, value);
        }
        if let Some(age) = self.older_than {
            filter = filter.min_age(age);
        }
        if let Some(age) = self.newer_than {
            filter = filter.max_age(age);
        }
        filter
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("KEY=VALUE is expected".to_owned()),
    }
}

fn state(text: &str) -> Result<State, String> {
    State::ALL
        .into_iter()
        .find(|s| s.name() == text)
        .ok_or_else(|| {
            let names = State::ALL.map(State::name).join(", ");
            format!("one of {names} is expected")
        })
}
