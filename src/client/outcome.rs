//! How a wait ended.

use std::time::SystemTime;

use super::{error::WaitError, results::DeferredToolResults, types::State};

/// The one outcome of a wait. Once recorded it never changes.
///
/// Outcomes are delivered at least once and to everybody attached: act on one idempotently, by its wait id.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// The wait that ended.
    pub wait_id: String,
    /// When the outcome was recorded, by the broker's clock.
    pub settle_time: SystemTime,
    /// How it ended.
    pub verdict: Verdict,
    /// Of a wait that asked about tool calls, however it ended: the results that a run goes on with. Where it ended without an
    /// answer, the calls that were decided keep their decision, and every other is denied or failed. `None` for other waits.
    pub results: Option<DeferredToolResults>,
    pub(super) results_json: Option<String>,
}

/// How a wait ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Somebody answered.
    Resolved {
        /// The answer: JSON text. To a free question and to a form, byte for byte as it was sent. For tool calls the JSON form of
        /// [`Outcome::results`].
        payload_json: String,
        /// Who answered, as the resolver claimed. `None` if it did not say, and for tool calls: there [`Outcome::results`] say it.
        answered_by: Option<String>,
    },
    /// The answering side ended it without an answer.
    Failed {
        /// Why, in the resolver's words. May be empty.
        reason: String,
        /// The resolver's name for the kind of failure.
        error_type: Option<String>,
        /// More about it: JSON text, byte for byte.
        details_json: Option<String>,
    },
    /// Its time ran out.
    Expired {
        /// Which clock ran out.
        cause: ExpiryCause,
        /// The same for people.
        reason: String,
    },
    /// The worker's side withdrew it.
    Cancelled {
        /// Why, in the worker's words. May be empty.
        reason: String,
    },
}

/// Which clock of an expired wait ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExpiryCause {
    /// The wait's timeout passed.
    Timeout,
    /// The answering side's heartbeat stopped.
    Heartbeat,
    /// A clock that this version of the client does not know.
    Other,
}

impl Outcome {
    /// The state that the outcome gave the wait. Never pending.
    pub fn state(&self) -> State {
        match self.verdict {
            Verdict::Resolved { .. } => State::Resolved,
            Verdict::Failed { .. } => State::Failed,
            Verdict::Expired { .. } => State::Expired,
            Verdict::Cancelled { .. } => State::Cancelled,
        }
    }

    /// [`Outcome::results`] in the JSON form of Pydantic AI's `DeferredToolResults`, however the wait ended. `None` for waits that
    /// did not ask about tool calls.
    pub fn results_json(&self) -> Option<&str> {
        self.results_json.as_deref()
    }

    /// The answer, as JSON text; any other outcome as an error.
    ///
    /// # Errors
    /// [`WaitError::Failed`], [`WaitError::Expired`] and [`WaitError::Cancelled`]. Nothing but an answer is ever taken for one.
    pub fn into_answer(self) -> Result<String, WaitError> {
        let wait_id = self.wait_id;
        Err(match self.verdict {
            Verdict::Resolved { payload_json, .. } => return Ok(payload_json),
            Verdict::Failed {
                reason,
                error_type,
                details_json,
            } => WaitError::Failed {
                wait_id,
                reason,
                error_type,
                details_json,
            },
            Verdict::Expired { cause, reason } => WaitError::Expired {
                wait_id,
                cause,
                reason,
            },
            Verdict::Cancelled { reason } => WaitError::Cancelled { wait_id, reason },
        })
    }
}
