//! How a wait ends.

use std::{fmt, sync::Arc};

use super::{
    json::{JsonText, same_if_any},
    limits::{AnsweredBy, ErrorType, Reason, RequestId},
    results::Decided,
    time::Timestamp,
};

/// What has become of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Nobody has answered yet and the time is not up.
    Pending,
    /// Somebody answered.
    Resolved,
    /// Somebody ended it without an answer.
    Failed,
    /// Its time ran out.
    Expired,
    /// The worker withdrew it.
    Cancelled,
}

impl State {
    /// The state's name in upper case, as in the contract.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Resolved => "RESOLVED",
            Self::Failed => "FAILED",
            Self::Expired => "EXPIRED",
            Self::Cancelled => "CANCELLED",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "pending",
            Self::Resolved => "resolved",
            Self::Failed => "failed",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        })
    }
}

/// The outcome of a wait. Once recorded it never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// When it was recorded. Never earlier than anything else that was recorded of the same wait.
    pub settle_time: Timestamp,
    /// How the wait ended.
    pub ending: Ending,
    /// The resolver's id for the request that won, if it gave one.
    pub request_id: Option<RequestId>,
    /// Of a wait that asked about tool calls: what its worker goes on with, however it ended.
    pub decided: Option<Arc<Decided>>,
}

impl Outcome {
    /// The state that this outcome puts the wait in.
    pub fn state(&self) -> State {
        match self.ending {
            Ending::Resolved(_) => State::Resolved,
            Ending::Failed(_) => State::Failed,
            Ending::Expired { .. } => State::Expired,
            Ending::Cancelled { .. } => State::Cancelled,
        }
    }
}

/// How a wait ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Somebody answered.
    Resolved(Answer),
    /// Somebody ended it without an answer.
    Failed(Failure),
    /// Its time ran out.
    Expired {
        /// Which clock ran out.
        cause: ExpiryCause,
        /// The same for people.
        reason: String,
    },
    /// The worker withdrew it.
    Cancelled {
        /// Why, in the worker's words.
        reason: Reason,
    },
}

/// An answer, as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// JSON, byte for byte as it was sent: to a free question, or to a form.
    Json {
        /// The text.
        json: JsonText,
        /// Who answered, as they say.
        answered_by: Option<AnsweredBy>,
    },
    /// Decisions on tool calls: [`Outcome::decided`].
    Decisions,
}

/// The end of a wait without an answer, as the resolver told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why. May be empty.
    pub reason: Reason,
    /// A name that programs may branch on. May be empty.
    pub error_type: ErrorType,
    /// More about it.
    pub details: Option<JsonText>,
}

impl Failure {
    /// Whether a repeat says the same: the same reason and type, and details of the same JSON value.
    pub fn same(&self, other: &Self) -> bool {
        let same_details = same_if_any(self.details.as_ref(), other.details.as_ref());
        self.reason == other.reason && self.error_type == other.error_type && same_details
    }
}

/// Which clock ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiryCause {
    /// The wait's own timeout.
    Timeout,
    /// The heartbeat of the answering side.
    Heartbeat,
}
