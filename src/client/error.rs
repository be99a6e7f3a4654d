//! What can go wrong, and what the broker said about it.

use std::{collections::BTreeMap, error::Error as StdError, fmt, time::Duration};

use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::outcome::ExpiryCause;

/// Why a call gave no result.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The broker's address cannot be used.
    #[error("{url:?} is no address of a broker: {why}")]
    InvalidUrl {
        /// The address, as it was given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The broker could not be reached, or could not serve the call, for as long as the client's patience lasted. Repeating
    /// the call later is safe: whether the last try was carried out or not is unknown, and does not matter.
    #[error("the broker cannot be reached: {0}")]
    Unavailable(Box<Refusal>),
    /// The broker refused the call. Repeating it as it is gives the same refusal, unless [`Error::retry_delay`] is set. What to
    /// do depends on [`Error::reason`]; among those that an answer meets:
    /// - `INVALID_JSON`, `INVALID_FIELD`, `INVALID_ANSWER`: mend what [`Error::violations`] name and send it again; the wait is as
    ///   it was.
    /// - `ALREADY_DECIDED`: somebody decided a tool call otherwise, and nothing of this answer was recorded. [`Error::metadata`]
    ///   has the first such call as `tool_call_id`. Answer without it; its decision stays.
    /// - `ALREADY_SETTLED`: the wait has another outcome, which stays. Show whoever answered that they were late.
    /// - `QUESTION_NOT_SET`: repeat it after [`Error::retry_delay`].
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// The broker sent what the contract does not allow, or what this version of the client does not know.
    #[error("the broker's answer cannot be understood: {0}")]
    Protocol(String),
    /// The runtime is shutting down, and took the task that followed the wait with it.
    #[error("the client was shut down")]
    Stopped,
}

impl Error {
    /// What the broker, or the transport, said. `None` if the error arose in the client.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Unavailable(refusal) | Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// The status code.
    pub fn code(&self) -> Option<Code> {
        self.refusal().map(|r| r.code)
    }

    /// The reason in the status's `ErrorInfo`: a name of `ErrorReason` without its prefix, for example `ALREADY_SETTLED`.
    pub fn reason(&self) -> Option<&str> {
        self.refusal().and_then(|r| r.reason.as_deref())
    }

    /// The faults of the request, one by one. Empty where the status carries none.
    pub fn violations(&self) -> &[Violation] {
        self.refusal().map_or(&[], |r| &r.violations)
    }

    /// One value of the `ErrorInfo`'s metadata, for example `state` of `ALREADY_SETTLED`.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.refusal()?.metadata.get(key).map(String::as_str)
    }

    /// How long the broker asks to wait before the call is repeated.
    pub fn retry_delay(&self) -> Option<Duration> {
        self.refusal().and_then(|r| r.retry_delay)
    }

    pub(super) fn protocol(what: impl Into<String>) -> Self {
        Self::Protocol(what.into())
    }
}

/// One fault of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The path of the field, as the contract names it, for example `spec.labels`. For `INVALID_ANSWER` the path in the answer,
    /// for example `approvals["call_2"].override_args`.
    pub field: String,
    /// What is wrong with it.
    pub description: String,
}

/// A status that is not OK, with its details decoded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Refusal {
    /// The status code.
    pub code: Code,
    /// The message, for people.
    pub message: String,
    /// The reason in `ErrorInfo`. `None` if the status did not come from the broker, or if a proxy dropped its details.
    pub reason: Option<String>,
    /// The metadata in `ErrorInfo`.
    pub metadata: BTreeMap<String, String>,
    /// The faults in `BadRequest`.
    pub violations: Vec<Violation>,
    /// The delay in `RetryInfo`.
    pub retry_delay: Option<Duration>,
}

impl Refusal {
    /// What the client itself found out about a connection.
    pub(super) fn local(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            reason: None,
            metadata: BTreeMap::new(),
            violations: Vec::new(),
            retry_delay: None,
        }
    }

    /// Whether the same call may succeed when it is simply repeated. A mesh may cut a call with any status, so everything that
    /// is not a clear verdict on the request counts as a cut.
    pub(super) fn is_passing(&self) -> bool {
        !matches!(
            self.code,
            Code::InvalidArgument
                | Code::NotFound
                | Code::FailedPrecondition
                | Code::AlreadyExists
                | Code::DataLoss
                | Code::Unimplemented
                | Code::Unauthenticated
                | Code::PermissionDenied
                | Code::OutOfRange
        )
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        let details = status.get_error_details();
        let info = details.error_info();
        Self {
            code: status.code(),
            message: message(&status),
            reason: info.map(|i| i.reason.clone()),
            metadata: info
                .map(|i| i.metadata.clone().into_iter().collect())
                .unwrap_or_default(),
            violations: details
                .bad_request()
                .iter()
                .flat_map(|b| &b.field_violations)
                .map(|v| Violation {
                    field: v.field.clone(),
                    description: v.description.clone(),
                })
                .collect(),
            retry_delay: details.retry_info().and_then(|r| r.retry_delay),
        }
    }
}

/// The status's message, and beneath it what the transport says: "transport error" alone helps nobody.
fn message(status: &Status) -> String {
    let mut message = status.message().to_owned();
    let mut source = status.source();
    while let Some(error) = source {
        let text = error.to_string();
        // This one stands between the two that say something.
        if !message.contains(&text) && text != "transport error" {
            if !message.is_empty() {
                message.push_str(": ");
            }
            message.push_str(&text);
        }
        source = error.source();
    }
    if message.is_empty() {
        message = status.code().description().to_owned();
    }
    message
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.reason {
            Some(reason) => write!(f, " ({reason})"),
            None => write!(f, " ({:?})", self.code),
        }
    }
}

impl StdError for Refusal {}

/// Why a wait gave no answer: how it ended otherwise, or why its end is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The answering side ended the wait with `Fail`.
    #[error("the wait failed: {reason}")]
    Failed {
        /// The wait's public name.
        wait_id: String,
        /// Why, in the resolver's words. May be empty.
        reason: String,
        /// The resolver's name for the kind of failure.
        error_type: Option<String>,
        /// More about it: JSON text, byte for byte.
        details_json: Option<String>,
    },
    /// The wait's time ran out.
    #[error("the wait expired: {reason}")]
    Expired {
        /// The wait's public name.
        wait_id: String,
        /// Which clock ran out.
        cause: ExpiryCause,
        /// The same for people.
        reason: String,
    },
    /// The worker's side withdrew the wait.
    #[error("the wait was cancelled: {reason}")]
    Cancelled {
        /// The wait's public name.
        wait_id: String,
        /// Why, in the worker's words. May be empty.
        reason: String,
    },
    /// The ask failed. A wait without a key was cancelled; one with a key is open and not asked, so that running again asks
    /// again.
    #[error("the ask failed: {0}")]
    Ask(#[source] Box<dyn StdError + Send + Sync>),
    /// The client could not open, follow or answer the wait.
    #[error(transparent)]
    Client(#[from] Error),
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn details_of_a_status_are_decoded() {
        let mut details = ErrorDetails::new();
        details
            .set_error_info(
                "INVALID_JSON",
                "abeyance.v1",
                HashMap::from([("wait_id".to_owned(), "w".to_owned())]),
            )
            .add_bad_request_violation("payload_json", "line 1 column 1: no value")
            .set_retry_info(Some(Duration::from_millis(1500)));
        let status = Status::with_error_details(Code::InvalidArgument, "refused", details);
        let error = Error::Refused(Box::new(Refusal::from(status)));
        assert_eq!(error.code(), Some(Code::InvalidArgument));
        assert_eq!(error.reason(), Some("INVALID_JSON"));
        assert_eq!(error.metadata("wait_id"), Some("w"));
        assert_eq!(error.violations()[0].field, "payload_json");
        assert_eq!(error.retry_delay(), Some(Duration::from_millis(1500)));
        assert_eq!(error.to_string(), "refused (INVALID_JSON)");
    }

    #[test]
    fn only_a_clear_verdict_ends_the_trying() {
        let passing = |code| Refusal::local(code, "").is_passing();
        for code in [
            Code::Unavailable,
            Code::Internal,
            Code::Unknown,
            Code::Cancelled,
            Code::ResourceExhausted,
            Code::DeadlineExceeded,
            Code::Aborted,
        ] {
            assert!(passing(code), "{code:?}");
        }
        for code in [
            Code::InvalidArgument,
            Code::NotFound,
            Code::FailedPrecondition,
            Code::AlreadyExists,
            Code::DataLoss,
            Code::Unimplemented,
            Code::Unauthenticated,
            Code::PermissionDenied,
        ] {
            assert!(!passing(code), "{code:?}");
        }
    }
}
