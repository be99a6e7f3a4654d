//! Which tool calls of a wait are decided so far.

use std::{fmt, time::SystemTime};

use super::{
    convert::{filled, time},
    error::Error,
};
use crate::proto::v1::{self, call_decision::Decision as Wire};

/// Which of a wait's tool calls are decided so far. It only grows: a decision stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decided {
    /// The calls that are decided, in the order in which they were. Empty in lists and in watches, which show the two numbers
    /// alone.
    pub decisions: Vec<CallDecision>,
    /// How many calls are decided.
    pub decided_calls: u32,
    /// How many calls are not decided yet.
    pub pending_calls: u32,
}

impl Decided {
    /// Whether this tells more than what was told before. Decisions stay, so their number says it.
    pub(super) fn is_news_after(&self, before: Option<&Self>) -> bool {
        before.is_none_or(|before| self.decided_calls > before.decided_calls)
    }

    pub(super) fn from_wire(wire: v1::Progress) -> Result<Self, Error> {
        // A count is never negative.
        let count = |calls| u32::try_from(calls).unwrap_or_default();
        Ok(Self {
            decisions: wire
                .decided
                .into_iter()
                .map(CallDecision::from_wire)
                .collect::<Result<_, _>>()?,
            decided_calls: count(wire.decided_calls),
            pending_calls: count(wire.pending_calls),
        })
    }
}

/// The decision on one tool call, without what was sent with it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallDecision {
    /// The call's id.
    pub tool_call_id: String,
    /// What was decided.
    pub decision: Decision,
    /// Who decided, as the resolver claimed.
    pub answered_by: Option<String>,
    /// When it was recorded, by the broker's clock.
    pub decide_time: SystemTime,
}

impl CallDecision {
    fn from_wire(wire: v1::CallDecision) -> Result<Self, Error> {
        Ok(Self {
            decision: match wire.decision() {
                Wire::Approved => Decision::Approved,
                Wire::ApprovedWithOverride => Decision::ApprovedWithOverride,
                Wire::Denied => Decision::Denied,
                Wire::Returned => Decision::Returned,
                Wire::Failed => Decision::Failed,
                Wire::Retry => Decision::Retry,
                Wire::Unspecified => Decision::Other,
            },
            decide_time: time("decided.decide_time", wire.decide_time)?,
            tool_call_id: wire.tool_call_id,
            answered_by: filled(wire.answered_by),
        })
    }
}

/// What was decided about a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Decision {
    /// The tool may run with the model's arguments.
    Approved,
    /// The tool may run with other arguments.
    ApprovedWithOverride,
    /// The tool must not run.
    Denied,
    /// The call has a result, or the question an answer.
    Returned,
    /// The call failed.
    Failed,
    /// The model is to try again.
    Retry,
    /// Something that this version of the client does not know.
    Other,
}

impl Decision {
    /// The decision's name, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::ApprovedWithOverride => "approved_with_override",
            Self::Denied => "denied",
            Self::Returned => "returned",
            Self::Failed => "failed",
            Self::Retry => "retry",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(calls: i32) -> Decided {
        let wire = v1::Progress {
            decided: (0..calls)
                .map(|n| v1::CallDecision {
                    tool_call_id: n.to_string(),
                    decision: Wire::Denied.into(),
                    answered_by: String::new(),
                    decide_time: Some(prost_types::Timestamp::default()),
                })
                .collect(),
            decided_calls: calls,
            pending_calls: 2 - calls,
        };
        Decided::from_wire(wire).unwrap()
    }

    #[test]
    fn what_was_told_is_never_taken_back() {
        let (none, one, two) = (decided(0), decided(1), decided(2));
        assert!(one.is_news_after(None) && two.is_news_after(Some(&one)));
        assert!(!one.is_news_after(Some(&one)));
        assert!(!none.is_news_after(Some(&one)) && !one.is_news_after(Some(&two)));
        assert_eq!((one.decided_calls, one.pending_calls), (1, 1));
        assert_eq!(one.decisions[0].decision, Decision::Denied);
        assert_eq!(one.decisions[0].answered_by, None);
    }

    #[test]
    fn a_decision_that_is_not_known_is_no_other() {
        let call = v1::CallDecision {
            decision: 77,
            decide_time: Some(prost_types::Timestamp::default()),
            ..v1::CallDecision::default()
        };
        assert_eq!(
            CallDecision::from_wire(call).unwrap().decision,
            Decision::Other
        );
    }
}
