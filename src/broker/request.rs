//! What the broker is set to, and what it is asked for.

use std::{collections::BTreeMap, time::Duration};

use crate::domain::{
    Question, Spec, State,
    deadline::Wish,
    limits::{Limits, Name, Namespace, RequestId},
};

/// The settings of a broker.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What callers may send.
    pub limits: Limits,
    /// How long a settled wait is kept. Default: 30 days. Short: workers that come back late find their outcome gone.
    pub retention: Duration,
    /// How long the key of a purged wait is kept from being asked again. Default: 365 days.
    pub tombstones: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            retention: Duration::from_secs(30 * 86_400),
            tombstones: Duration::from_secs(365 * 86_400),
        }
    }
}

/// What a worker wants to open, checked.
#[derive(Clone, Debug)]
pub struct Open {
    /// How it is named and found.
    pub spec: Spec,
    /// Until when.
    pub wish: Wish,
    /// How long the answering side may stay silent once asked.
    pub heartbeat_timeout: Option<Duration>,
    /// What is asked.
    pub question: Option<Question>,
    /// Whether the question comes later.
    pub question_later: bool,
    /// The worker's id for this request.
    pub request_id: Option<RequestId>,
}

/// Which waits to list or to watch.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Only of this namespace.
    pub namespace: Namespace,
    /// Only in one of these states. Empty: in any.
    pub states: Vec<State>,
    /// Only with this name.
    pub name: Option<Name>,
    /// Only with all of these labels.
    pub labels: BTreeMap<String, String>,
    /// Only opened at least this long ago.
    pub min_age: Option<Duration>,
    /// Only opened at most this long ago.
    pub max_age: Option<Duration>,
}
