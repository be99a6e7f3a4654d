//! Answers to a question about tool calls: who decides which call, and when that settles the wait.

use std::sync::Arc;

use super::{Body, Decision, Submission, Verdict};
use crate::domain::{
    error::{Faults, Refusal, Violation},
    limits::{RequestId, quoted},
    outcome::{Answer, Ending, Outcome, State},
    question::Requests,
    results::{self, Decided, Results},
    time::Timestamp,
    wait::Record,
};

pub(super) fn resolve(
    record: &Record,
    requests: &Requests,
    submission: &Submission,
    now: Timestamp,
) -> Decision {
    let mut faults = Faults::default();
    let answer = read(requests, submission, &mut faults);
    cover(record, requests, &answer, submission.partial, &mut faults);
    let recorded = record.decided.as_deref();
    if !faults.is_empty() {
        return Decision::refuse(Refusal::InvalidAnswer {
            wait_id: record.id,
            faults,
        });
    }
    if submission.partial && recorded.is_some_and(|decided| decided.records(&answer)) {
        return Decision::ok(Verdict::Repeat);
    }
    let id = submission.request_id.as_ref();
    if recorded.is_some_and(|decided| knows(decided, id)) {
        return Decision::refuse(Refusal::RequestIdReused { wait_id: record.id });
    }
    if let Some(call) = recorded.and_then(|decided| decided.conflict(&answer)) {
        return Decision::refuse(Refusal::AlreadyDecided {
            wait_id: record.id,
            call,
        });
    }
    if let Some(key) = recorded.and_then(|decided| decided.contradicted(&answer)) {
        faults.push(
            || quoted(&key),
            "was given with another value by an earlier answer",
        );
        return Decision::refuse(Refusal::InvalidAnswer {
            wait_id: record.id,
            faults,
        });
    }
    record_answer(record, requests, answer, submission, now)
}

fn record_answer(
    record: &Record,
    requests: &Requests,
    answer: Results,
    submission: &Submission,
    now: Timestamp,
) -> Decision {
    let before = record.decided.as_deref().cloned().unwrap_or_default();
    let id = submission.request_id.as_ref();
    let first = before.entries().is_empty();
    // The id of the answer that settles stands in the outcome.
    let kept = id.filter(|_| submission.partial);
    let decided = before.with(answer, now, submission.partial, kept);
    let max = submission.max_bytes;
    if !first && decided.bytes() > max {
        let mut faults = Faults::default();
        let text = format!(
            "comes to {} bytes with what is decided already; at most {max} are taken together",
            decided.bytes()
        );
        faults.push(|| field(submission).to_owned(), text);
        return Decision::refuse(Refusal::InvalidAnswer {
            wait_id: record.id,
            faults,
        });
    }
    let all = requests.calls().iter().all(|call| decided.has(&call.id));
    let decided = Some(Arc::new(decided));
    if submission.partial && !all {
        return Decision::update(Record {
            decided,
            last_time: now,
            ..record.clone()
        });
    }
    Decision::settle(Outcome {
        settle_time: now,
        ending: Ending::Resolved(Answer::Decisions),
        request_id: submission.request_id.clone(),
        decided,
    })
}

/// Reads an answer in either form, and fills in who decided.
fn read(requests: &Requests, submission: &Submission, faults: &mut Faults) -> Results {
    for Violation { field, description } in &submission.faults {
        faults.push(|| field.clone(), description.clone());
    }
    let mut answer = match &submission.body {
        Body::Json(json) => results::read(json, requests, submission.unknown_keys, faults),
        Body::Results(given) => results::place(given.clone(), requests, faults),
    };
    if let Some(by) = &submission.answered_by {
        let unnamed: Vec<_> = answer
            .decisions()
            .map(|(id, _)| id)
            .filter(|id| answer.answered_by_of(id).is_none())
            .cloned()
            .collect();
        let named = unnamed.into_iter().map(|id| (id, by.clone()));
        answer.answered_by.extend(named);
    }
    answer
}

/// Whether an answer decides what it must: all that is not decided yet, or, in part, something and nothing beside it.
fn cover(
    record: &Record,
    requests: &Requests,
    answer: &Results,
    partial: bool,
    faults: &mut Faults,
) {
    let decides = |id| answer.decision(id).is_some() || answer.faulty.contains(id);
    if partial {
        // Where something else is wrong, that is why it decides nothing.
        if answer.decisions().next().is_none() && faults.is_empty() {
            let fault = "must decide at least one tool call where it is partial";
            faults.push(|| "partial".to_owned(), fault);
        }
        let metadata = answer.metadata.iter().map(|(id, _)| ("metadata", id));
        let by = answer.answered_by.iter().map(|(id, _)| ("answered_by", id));
        for (section, id) in metadata.chain(by).filter(|(_, id)| !decides(id)) {
            let at = || format!("{section}[{}]", quoted(id.as_str()));
            faults.push(at, "is not decided by this answer, which is partial");
        }
        return;
    }
    if requests.may_leave_pending() {
        return;
    }
    let decided = |id| record.decided.as_ref().is_some_and(|d| d.has(id));
    for call in requests.calls() {
        if !decides(&call.id) && !decided(&call.id) {
            faults.push(
                || call.kind.section().at(call.id.as_str()),
                "is missing: an answer decides every tool call that waits, unless it says that it is partial",
            );
        }
    }
}

fn field(submission: &Submission) -> &'static str {
    match submission.body {
        Body::Json(_) => "payload_json",
        Body::Results(_) => "results",
    }
}

/// Whether an answer that came before had the same id.
pub(super) fn knows(decided: &Decided, id: Option<&RequestId>) -> bool {
    id.is_some_and(|id| decided.request_ids().contains(id))
}

/// Whether an answer to a settled wait says what is recorded. A partial one does if each of its decisions is, settled since or not;
/// a full one if it is what settled the wait.
pub(super) fn is_repeat(record: &Record, outcome: &Outcome, submission: &Submission) -> bool {
    let requests = record
        .question
        .as_ref()
        .and_then(|question| question.requests());
    let (Some(requests), Some(decided)) = (requests, &outcome.decided) else {
        return false;
    };
    let mut faults = Faults::default();
    let answer = read(requests, submission, &mut faults);
    if !faults.is_empty() {
        return false;
    }
    let decides = answer.decisions().next().is_some();
    if submission.partial {
        return decides && decided.records(&answer);
    }
    // One that decides nothing settles only what may be left pending, or asks about nothing.
    let calls = requests.calls();
    let left = calls.is_empty() || calls.iter().any(|call| !decided.has(&call.id));
    outcome.state() == State::Resolved && (decides || left) && decided.was_settled_by(&answer)
}
