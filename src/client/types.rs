//! What a wait is, as clients see it.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, SystemTime},
};

use super::{
    decided::Decided, outcome::Outcome, question::Question, results::DeferredToolResults,
    token::Token,
};

/// What has become of a wait. It changes once, from pending to one of the others, and never again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum State {
    /// Nobody has answered yet and the time is not up.
    Pending,
    /// Somebody answered.
    Resolved,
    /// The answering side ended it without an answer.
    Failed,
    /// Its time ran out.
    Expired,
    /// The worker's side withdrew it.
    Cancelled,
}

impl State {
    /// All states.
    pub const ALL: [Self; 5] = [
        Self::Pending,
        Self::Resolved,
        Self::Failed,
        Self::Expired,
        Self::Cancelled,
    ];

    /// The state's name, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Resolved => "resolved",
            Self::Failed => "failed",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Where the effective timeout of a wait came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeoutSource {
    /// The worker gave it.
    Timeout,
    /// The gRPC deadline of the call that opened the wait. This client never opens one so.
    Deadline,
    /// The broker's maximum.
    ServerMaximum,
    /// A source that this version of the client does not know.
    Other,
}

impl TimeoutSource {
    /// The source's name, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Deadline => "deadline",
            Self::ServerMaximum => "server_maximum",
            Self::Other => "other",
        }
    }
}

/// What a wait was when it was opened or attached to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Opened {
    /// The bearer credential of this wait.
    pub token: Token,
    /// The wait's public name. Not a secret: safe in logs, lists and links.
    pub wait_id: String,
    /// The effective timeout of the wait, counted from when it was created.
    pub timeout: Duration,
    /// Where the timeout came from.
    pub timeout_source: TimeoutSource,
    /// When the wait expires, by the broker's clock.
    pub expire_time: SystemTime,
    /// Question and token were handed on already: do not ask again.
    pub asked: bool,
    /// The wait was there before this call. Always true after an attach. True after an open that was tried again because its
    /// first reply was lost, too.
    pub resumed: bool,
    /// The wait was opened with `question_later` and its question is not set yet.
    pub question_pending: bool,
}

/// What an accepted answer or failure did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settled {
    /// The wait's public name.
    pub wait_id: String,
    /// What has become of the wait. Pending after a partial answer that left calls undecided; after a repeat of one, whatever
    /// became of the wait since.
    pub state: State,
    /// When the wait was settled, by the broker's clock: for a repeat, the first time. `None` while it is pending.
    pub settle_time: Option<SystemTime>,
    /// The same was recorded before. Also true where the client itself had to repeat the call.
    pub replayed: bool,
    /// Who gave the answer that is recorded: for a repeat, whoever was first. `None` if nobody was named, and for tool calls:
    /// there [`Settled::decided`] says it.
    pub answered_by: Option<String>,
    /// For tool calls: what is decided by now, and by whom. For a repeat, by whoever was first.
    pub decided: Option<Decided>,
}

/// A wait, as it is shown to whoever may look at it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WaitInfo {
    /// The wait's public name.
    pub wait_id: String,
    /// The namespace it was opened in.
    pub namespace: String,
    /// What kind of wait this is.
    pub name: String,
    /// The worker's own key.
    pub key: Option<String>,
    /// The worker's labels.
    pub labels: BTreeMap<String, String>,
    /// What has become of it.
    pub state: State,
    /// When it was opened.
    pub create_time: SystemTime,
    /// When it expires, or would have expired.
    pub expire_time: SystemTime,
    /// The time it was given at open.
    pub timeout: Duration,
    /// Where the timeout came from.
    pub timeout_source: TimeoutSource,
    /// When question and token were handed on.
    pub ask_time: Option<SystemTime>,
    /// How long the answering side may stay silent once asked.
    pub heartbeat_timeout: Option<Duration>,
    /// When the heartbeat timeout runs out unless a heartbeat arrives.
    pub heartbeat_expire_time: Option<SystemTime>,
    /// When its outcome was recorded.
    pub settle_time: Option<SystemTime>,
    /// What is asked. `None` in lists and watches, and where there is no question.
    pub question: Option<Question>,
    /// The outcome. `None` while pending, and in lists and watches.
    pub outcome: Option<Outcome>,
    /// Which tool calls were decided, by whom and when. `None` for other questions; in lists and watches also once it is settled.
    pub decided: Option<Decided>,
    /// What is decided of the tool calls while the wait is pending. `None` for other questions, where nothing is decided yet, once it
    /// is settled (then the outcome has it), and in lists and watches.
    pub decisions: Option<DeferredToolResults>,
}

impl WaitInfo {
    /// What is asked, where that is free JSON: its text, byte for byte. `None` for any other question, and where there is none.
    pub fn question_json(&self) -> Option<&str> {
        match &self.question {
            Some(Question::Json(json)) => Some(json),
            _ => None,
        }
    }
}
