//! Every way in which the rules refuse.

use std::fmt;

use super::{
    limits::{CallId, quoted},
    outcome::State,
    time::Timestamp,
    wait::WaitId,
};

/// One fault of a request: where, and what is wrong there, in words that a person can act on. Never holds payload text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The path of the field in the request, for example `spec.labels["team"]`.
    pub field: String,
    /// What is wrong and what is accepted instead.
    pub description: String,
}

impl Violation {
    /// A fault of `field`.
    pub fn new(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            description: description.into(),
        }
    }
}

/// Why the rules refuse a request. One variant for each thing that a caller can do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Fields are missing, malformed or beyond a limit. The caller's fault: mend all of them.
    #[error("{}", told(.0, .0.len()))]
    InvalidFields(Vec<Violation>),
    /// A field that must hold JSON does not. The caller's fault.
    #[error("{}: {}", .0.field, .0.description)]
    InvalidJson(Violation),
    /// The answer does not fit the question. Nothing was recorded: mend all of it and send it again.
    #[error("the answer does not fit the question, and nothing was recorded: {}", .faults)]
    InvalidAnswer {
        /// The wait, as it was before.
        wait_id: WaitId,
        /// Every fault, by its place in the answer.
        faults: Faults,
    },
    /// A tool call that the answer names was decided otherwise. Nothing of the answer was recorded.
    #[error(
        "the tool call {} is decided already, and otherwise; its decision stays, DescribeWait shows it",
        quoted(.call.as_str())
    )]
    AlreadyDecided {
        /// The wait.
        wait_id: WaitId,
        /// The first such call of the answer.
        call: CallId,
    },
    /// A `request_id` that was accepted before came with another body.
    #[error("this request_id was used before with another body; use a fresh one for each request")]
    RequestIdReused {
        /// The wait that the id belongs to.
        wait_id: WaitId,
    },
    /// The token was never given out with a token key that this broker knows.
    #[error(
        "this token is not known here; check that the whole token was passed on, and to the right broker"
    )]
    TokenUnknown,
    /// There is no wait with this id or key.
    #[error("there is no such wait")]
    WaitUnknown,
    /// The token is genuine and its wait was purged.
    #[error("this wait was settled and its retention time is over")]
    WaitPurged {
        /// The wait that was.
        wait_id: WaitId,
    },
    /// The key belonged to a wait that was purged; its tombstone keeps the key from being asked a second time.
    #[error("this key belonged to a wait that was settled and purged; open with another key")]
    KeyPurged,
    /// The token is genuine and young, and yet its record is not there. The operator's fault: an old backup, lost data.
    #[error(
        "the record of this wait is missing though it should still be kept; tell whoever runs the broker"
    )]
    RecordMissing {
        /// The wait that should be there.
        wait_id: WaitId,
    },
    /// The key belongs to a wait with another name or question.
    #[error(
        "this key belongs to a wait with another {field}; use another key, or open with the same {field}"
    )]
    KeyConflict {
        /// The wait that holds the key.
        wait_id: WaitId,
        /// What differs: `name` or `question`.
        field: &'static str,
    },
    /// The wait has an outcome, and it is not the one that the caller brought.
    #[error("this wait is settled already: {state}; its outcome stays, DescribeWait shows it")]
    AlreadySettled {
        /// The wait.
        wait_id: WaitId,
        /// How it ended.
        state: State,
        /// When that was recorded.
        settle_time: Timestamp,
    },
    /// The worker has not yet set the question it promised, so no answer can be checked. Worth a retry.
    #[error("the question of this wait is not set yet; send the same answer again in a moment")]
    QuestionNotSet {
        /// The wait.
        wait_id: WaitId,
    },
    /// The wait has another question.
    #[error("this wait has another question; open another wait for this one")]
    QuestionConflict {
        /// The wait.
        wait_id: WaitId,
    },
}

impl Refusal {
    /// The refusal of a single field.
    pub fn field(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self::InvalidFields(vec![Violation::new(field, description)])
    }
}

/// Faults of a request in the order in which they were found. The first hundred are kept, more than any reply has room for, so
/// that a hostile request cannot make millions; the others are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    first: Vec<Violation>,
    total: usize,
}

impl Faults {
    const KEPT: usize = 100;

    /// Adds a fault of `field`. The words are made only if there is room for them.
    pub fn push(&mut self, field: impl FnOnce() -> String, description: impl Into<String>) {
        self.push_with(|| Violation::new(field(), description));
    }

    /// Adds a fault whose words take their time. They, too, are made only if there is room for them.
    pub fn push_with(&mut self, fault: impl FnOnce() -> Violation) {
        if self.first.len() < Self::KEPT {
            self.first.push(fault());
        }
        self.total += 1;
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The first of them.
    pub fn first(&self) -> &[Violation] {
        &self.first
    }

    /// How many there are.
    pub fn total(&self) -> usize {
        self.total
    }
}

impl From<Vec<Violation>> for Faults {
    fn from(mut first: Vec<Violation>) -> Self {
        let total = first.len();
        first.truncate(Self::KEPT);
        Self { first, total }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&told(&self.first, self.total))
    }
}

fn told(faults: &[Violation], total: usize) -> String {
    match (faults, total) {
        ([], _) => "the request is invalid".to_owned(),
        ([first, ..], 1) => format!("{}: {}", first.field, first.description),
        ([first, ..], n) => {
            let more = n - 1;
            format!("{}: {}; and {more} more", first.field, first.description)
        }
    }
}
