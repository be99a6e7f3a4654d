//! Resolve, fail and cancel: on an open wait they settle it, on a settled one they repeat it or are refused.

use super::{Decision, Verdict};
use crate::domain::{
    error::Refusal,
    limits::{Reason, RequestId},
    outcome::{Answer, Ending, Failure, Outcome},
    time::Timestamp,
    wait::Record,
};

pub(super) fn resolve(
    record: &Record,
    answer: &Answer,
    request_id: &Option<RequestId>,
    now: Timestamp,
) -> Decision {
    if record.question_pending() {
        return Decision::refuse(Refusal::QuestionNotSet { wait_id: record.id });
    }
    Decision::settle(Outcome {
        settle_time: now,
        ending: Ending::Resolved(answer.clone()),
        request_id: request_id.clone(),
    })
}

pub(super) fn fail(failure: &Failure, request_id: &Option<RequestId>, now: Timestamp) -> Decision {
    Decision::settle(Outcome {
        settle_time: now,
        ending: Ending::Failed(failure.clone()),
        request_id: request_id.clone(),
    })
}

pub(super) fn cancel(reason: &Reason, now: Timestamp) -> Decision {
    Decision::settle(Outcome {
        settle_time: now,
        ending: Ending::Cancelled {
            reason: reason.clone(),
        },
        request_id: None,
    })
}

pub(super) fn resolve_again(
    record: &Record,
    outcome: &Outcome,
    answer: &Answer,
    request_id: &Option<RequestId>,
) -> Decision {
    let same = matches!(&outcome.ending, Ending::Resolved(recorded) if recorded.same(answer));
    again(record, outcome, same, request_id)
}

pub(super) fn fail_again(
    record: &Record,
    outcome: &Outcome,
    failure: &Failure,
    request_id: &Option<RequestId>,
) -> Decision {
    let same = matches!(&outcome.ending, Ending::Failed(recorded) if recorded.same(failure));
    again(record, outcome, same, request_id)
}

/// A repeat is OK whatever id it carries: people double-click. An id that won with another body is a fault of its own.
fn again(
    record: &Record,
    outcome: &Outcome,
    same: bool,
    request_id: &Option<RequestId>,
) -> Decision {
    if same {
        Decision::ok(Verdict::Repeat)
    } else if request_id.is_some() && *request_id == outcome.request_id {
        Decision::refuse(Refusal::RequestIdReused { wait_id: record.id })
    } else {
        Decision::refuse(already_settled(record, outcome))
    }
}

pub(super) fn already_settled(record: &Record, outcome: &Outcome) -> Refusal {
    Refusal::AlreadySettled {
        wait_id: record.id,
        state: outcome.state(),
        settle_time: outcome.settle_time,
    }
}
