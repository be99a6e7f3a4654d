//! What is recorded of an open wait without ending it.

use super::{Decision, Verdict};
use crate::domain::{error::Refusal, question::Question, time::Timestamp, wait::Record};

pub(super) fn set_question(record: &Record, question: &Question, now: Timestamp) -> Decision {
    if is_set_to(record, question) {
        return Decision::ok(Verdict::Repeat);
    }
    if !record.question_pending() {
        return Decision::refuse(Refusal::QuestionConflict { wait_id: record.id });
    }
    Decision::update(Record {
        question: Some(question.clone()),
        last_time: now,
        ..record.clone()
    })
}

pub(super) fn is_set_to(record: &Record, question: &Question) -> bool {
    matches!(&record.question, Some(recorded) if recorded.same(question))
}

/// The first ask counts, and starts the heartbeat clock.
pub(super) fn mark_asked(record: &Record, now: Timestamp) -> Decision {
    if record.ask_time.is_some() {
        return Decision::ok(Verdict::Repeat);
    }
    Decision::update(Record {
        ask_time: Some(now),
        heartbeat_time: record.heartbeat_timeout.map(|_| now),
        last_time: now,
        ..record.clone()
    })
}

pub(super) fn heartbeat(record: &Record, now: Timestamp) -> Decision {
    // The clock starts with the ask, and only where a heartbeat is demanded.
    if record.heartbeat_time.is_none() {
        return Decision::ok(Verdict::Nothing);
    }
    Decision::update(Record {
        heartbeat_time: Some(now),
        last_time: now,
        ..record.clone()
    })
}
