//! The one table from our errors to what goes over the wire: code, reason, details.
//!
//! Every refusal carries `google.rpc.ErrorInfo`, and `BadRequest` or `RetryInfo` where they help. Trailers are limited (8 KiB by
//! default in Java), so an encoded status stays within [`MAX_DETAILS_BYTES`].

use std::{borrow::Cow, collections::HashMap, time::Duration};

use prost::Message as _;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt as _, pb};

use crate::{
    broker,
    domain::{Refusal, Timestamp, Violation, WaitId},
    proto::{ERROR_DOMAIN, v1::ErrorReason},
};

/// The largest encoded status, in bytes. In base64 that is 5.4 KiB of trailers.
pub const MAX_DETAILS_BYTES: usize = 4096;

/// The largest message of a status, in bytes: the message travels in a header of its own, percent-encoded, beside the details.
const MAX_MESSAGE_BYTES: usize = 512;

/// How long a caller should wait before it tries again what may soon work.
const RETRY_DELAY: Duration = Duration::from_millis(500);

impl From<broker::Error> for Status {
    fn from(error: broker::Error) -> Self {
        let message = error.to_string();
        match error {
            broker::Error::Refused(refusal) => refused(&refusal),
            broker::Error::ShuttingDown => shutting_down(),
            broker::Error::Unavailable(_) => {
                Refuse::new(Code::Unavailable, ErrorReason::StoreUnavailable)
                    .retry()
                    .status(&message)
            }
            broker::Error::Overloaded => {
                Refuse::new(Code::ResourceExhausted, ErrorReason::Overloaded)
                    .retry()
                    .status(&message)
            }
            broker::Error::Internal(_) => internal(&message),
        }
    }
}

/// The status of a refusal by the rules.
pub fn refused(refusal: &Refusal) -> Status {
    use ErrorReason as R;
    let message = refusal.to_string();
    let refuse_with = |reason| Refuse::new(Code::InvalidArgument, reason);
    let id = |id: &WaitId| ("wait_id", id.to_string());
    match refusal {
        Refusal::InvalidFields(faults) => {
            bad_request(refuse_with(R::InvalidField), &message, faults, faults.len())
        }
        Refusal::InvalidJson(fault) => {
            let faults = std::slice::from_ref(fault);
            bad_request(refuse_with(R::InvalidJson), &message, faults, 1)
        }
        Refusal::InvalidAnswer { wait_id, faults } => {
            let refuse = refuse_with(R::InvalidAnswer).with(id(wait_id));
            bad_request(refuse, &message, faults.first(), faults.total())
        }
        Refusal::AlreadyDecided { wait_id, call } => {
            Refuse::new(Code::FailedPrecondition, R::AlreadyDecided)
                .with(id(wait_id))
                .with(("tool_call_id", call.as_str().to_owned()))
                .status(&message)
        }
        Refusal::RequestIdReused { wait_id } => {
            let status = Refuse::new(Code::InvalidArgument, R::RequestIdReused);
            status.with(id(wait_id)).status(&message)
        }
        Refusal::TokenUnknown => Refuse::new(Code::NotFound, R::TokenUnknown).status(&message),
        Refusal::WaitUnknown => Refuse::new(Code::NotFound, R::WaitUnknown).status(&message),
        Refusal::WaitPurged { wait_id } => Refuse::new(Code::NotFound, R::WaitPurged)
            .with(id(wait_id))
            .status(&message),
        Refusal::KeyPurged => Refuse::new(Code::FailedPrecondition, R::WaitPurged).status(&message),
        Refusal::RecordMissing { wait_id } => Refuse::new(Code::DataLoss, R::RecordMissing)
            .with(id(wait_id))
            .status(&message),
        Refusal::KeyConflict { wait_id, field } => Refuse::new(Code::AlreadyExists, R::KeyConflict)
            .with(id(wait_id))
            .with(("field", (*field).to_owned()))
            .status(&message),
        Refusal::AlreadySettled {
            wait_id,
            state,
            settle_time,
        } => Refuse::new(Code::FailedPrecondition, R::AlreadySettled)
            .with(id(wait_id))
            .with(("state", state.name().to_owned()))
            .with(("settle_time", rfc3339(*settle_time)))
            .status(&message),
        Refusal::QuestionNotSet { wait_id } => {
            Refuse::new(Code::FailedPrecondition, R::QuestionNotSet)
                .with(id(wait_id))
                .retry()
                .status(&message)
        }
        Refusal::QuestionConflict { wait_id } => {
            Refuse::new(Code::FailedPrecondition, R::QuestionConflict)
                .with(id(wait_id))
                .status(&message)
        }
    }
}

/// The broker stops; the same call works on a new connection, perhaps to another broker.
pub fn shutting_down() -> Status {
    Refuse::new(Code::Unavailable, ErrorReason::ShuttingDown)
        .retry()
        .status("the broker is shutting down; connect again")
}

/// The call's deadline passed.
pub fn deadline_exceeded() -> Status {
    Refuse::new(Code::DeadlineExceeded, ErrorReason::DeadlineExceeded)
        .status("the call's deadline passed; repeating the call is safe")
}

/// The `grpc-timeout` header is not one.
pub fn invalid_deadline(fault: &str) -> Status {
    Refuse::new(Code::InvalidArgument, ErrorReason::InvalidDeadline)
        .with(("header", "grpc-timeout".to_owned()))
        .status(&format!("the grpc-timeout header {fault}"))
}

/// The request cannot be read as a message of its rpc.
pub fn malformed_request(fault: &str) -> Status {
    Refuse::new(Code::InvalidArgument, ErrorReason::MalformedRequest).status(fault)
}

/// A fault of the broker itself.
pub fn internal(fault: &str) -> Status {
    Refuse::new(Code::Internal, ErrorReason::Internal).status(fault)
}

/// A refusal in the making.
struct Refuse {
    code: Code,
    reason: ErrorReason,
    metadata: HashMap<String, String>,
    retry: Option<Duration>,
}

impl Refuse {
    fn new(code: Code, reason: ErrorReason) -> Self {
        Self {
            code,
            reason,
            metadata: HashMap::new(),
            retry: None,
        }
    }

    fn with(mut self, (key, value): (&str, String)) -> Self {
        self.metadata.insert(key.to_owned(), value);
        self
    }

    fn retry(mut self) -> Self {
        self.retry = Some(RETRY_DELAY);
        self
    }

    fn details(self) -> (Code, ErrorDetails) {
        let reason = self
            .reason
            .as_str_name()
            .trim_start_matches("ERROR_REASON_");
        let mut details = ErrorDetails::with_error_info(reason, ERROR_DOMAIN, self.metadata);
        if self.retry.is_some() {
            details.set_retry_info(self.retry);
        }
        (self.code, details)
    }

    fn status(self, message: &str) -> Status {
        let (code, details) = self.details();
        Status::with_error_details(code, cut(message, MAX_MESSAGE_BYTES), details)
    }
}

/// Names all faults, in their order, as many as fit, and then how many more there are.
fn bad_request(refuse: Refuse, message: &str, faults: &[Violation], total: usize) -> Status {
    let message = cut(message, MAX_MESSAGE_BYTES);
    let (code, details) = refuse.details();
    // What every such status holds besides its violations, with room for the line that counts the rest.
    let frame = Status::with_error_details(code, message.clone(), details.clone());
    let mut room = MAX_DETAILS_BYTES.saturating_sub(frame.details().len() + 128);
    let mut violations = Vec::new();
    for fault in faults {
        let violation = pb::bad_request::FieldViolation {
            field: cut(&fault.field, 256),
            description: cut(&fault.description, 512),
            ..Default::default()
        };
        // Tag and length of the element come on top.
        let size = violation.encoded_len() + 4;
        if size > room {
            break;
        }
        room -= size;
        violations.push(FieldViolation::new(violation.field, violation.description));
    }
    let left = total - violations.len();
    if left > 0 {
        violations.push(FieldViolation::new("", format!("and {left} more")));
    }
    let mut details = details;
    details.set_bad_request(violations);
    Status::with_error_details(code, message, details)
}

/// Text that callers wrote may hold a token that stands in the wrong place, and proxies log refusals.
fn without_tokens(text: &str) -> Cow<'_, str> {
    const PREFIX: &str = "abey_";
    if !text.contains(PREFIX) {
        return text.into();
    }
    let mut parts = text.split(PREFIX);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let secret = part
            .bytes()
            .take_while(|b| b.is_ascii_alphanumeric() || b"-_".contains(b));
        let length = secret.count();
        // Shorter ones are no tokens, and some call may really be named so.
        let rest = if length < 32 { part } else { &part[length..] };
        shown.push_str(PREFIX);
        shown.push_str(if length < 32 { "" } else { "…" });
        shown.push_str(rest);
    }
    shown.into()
}

/// Cuts text to a number of bytes, between characters, and takes tokens out of it.
fn cut(text: &str, max: usize) -> String {
    let text = &*without_tokens(text);
    if text.len() <= max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(max - '…'.len_utf8());
    format!("{}…", &text[..end])
}

/// A point in time as RFC 3339 writes it.
fn rfc3339(time: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(time.as_micros())
        .map_or_else(|_| time.as_micros().to_string(), |t| t.to_string())
}
