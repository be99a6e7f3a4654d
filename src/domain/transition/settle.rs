//! Resolve, fail and cancel: on an open wait they settle it, on a settled one they repeat it or are refused.

use std::sync::Arc;

use super::{Body, Decision, Submission, Verdict, decide};
use crate::domain::{
    error::Refusal,
    json::quote,
    limits::{Reason, RequestId},
    outcome::{Answer, Ending, Failure, Outcome},
    question::Question,
    results::{Decided, denial},
    time::Timestamp,
    wait::Record,
};

pub(super) fn resolve(record: &Record, submission: &Submission, now: Timestamp) -> Decision {
    if record.question_pending() {
        return Decision::refuse(Refusal::QuestionNotSet { wait_id: record.id });
    }
    match &record.question {
        Some(Question::Deferred(requests)) => decide::resolve(record, requests, submission, now),
        Some(Question::Form(_)) if !submission.fits_form => match json(submission) {
            Ok(_) => Decision::ok(Verdict::CheckForm),
            Err(refusal) => Decision::refuse(refusal),
        },
        Some(Question::Form(_) | Question::FreeJson(_)) | None => match json(submission) {
            Ok(answer) => Decision::settle(Outcome {
                settle_time: now,
                ending: Ending::Resolved(answer),
                request_id: submission.request_id.clone(),
                decided: None,
            }),
            Err(refusal) => Decision::refuse(refusal),
        },
    }
}

/// The answer to a question that is not about tool calls.
fn json(submission: &Submission) -> Result<Answer, Refusal> {
    if submission.partial {
        let fault = "must be false: only deferred tool calls can be answered in parts, and this wait asks for one answer";
        return Err(Refusal::field("partial", fault));
    }
    match &submission.body {
        Body::Json(json) => Ok(Answer::Json {
            json: json.clone(),
            answered_by: submission.answered_by.clone(),
        }),
        Body::Results(_) => Err(Refusal::field(
            "results",
            "answers deferred tool calls, and this wait asks about none; answer with payload_json",
        )),
    }
}

pub(super) fn fail(
    record: &Record,
    failure: &Failure,
    request_id: &Option<RequestId>,
    now: Timestamp,
) -> Decision {
    let id = request_id.as_ref();
    if (record.decided.as_deref()).is_some_and(|decided| decide::knows(decided, id)) {
        return Decision::refuse(Refusal::RequestIdReused { wait_id: record.id });
    }
    let fits = denials_fit(record, &failure.reason).and_then(|()| details_fit(record, failure));
    if let Err(refusal) = fits {
        return Decision::refuse(refusal);
    }
    Decision::settle(Outcome {
        settle_time: now,
        ending: Ending::Failed(failure.clone()),
        request_id: request_id.clone(),
        decided: denied(record, failure.reason.as_str()),
    })
}

pub(super) fn cancel(record: &Record, reason: &Reason, now: Timestamp) -> Decision {
    if let Err(refusal) = denials_fit(record, reason) {
        return Decision::refuse(refusal);
    }
    Decision::settle(Outcome {
        settle_time: now,
        ending: Ending::Cancelled {
            reason: reason.clone(),
        },
        request_id: None,
        decided: denied(record, withdrawn(reason)),
    })
}

/// What is told of a withdrawal for which the worker gave no reason.
fn withdrawn(reason: &Reason) -> &str {
    match reason.as_str() {
        "" => "The wait was cancelled.",
        reason => reason,
    }
}

/// What the worker of a wait about tool calls goes on with, if it ends for this reason: each call that nobody decided is denied.
pub(super) fn denied(record: &Record, reason: &str) -> Option<Arc<Decided>> {
    let requests = record.question.as_ref()?.requests()?;
    let decided = match &record.decided {
        Some(decided) => decided.denying_the_rest(requests, reason),
        None => Decided::default().denying_the_rest(requests, reason),
    };
    Some(Arc::new(decided))
}

/// The most bytes that the denials of a wait may come to, as they are told: as text, and once more as JSON. An outcome must not
/// outgrow what a gRPC client takes, 4 MiB unless it is set otherwise. A reason of 4096 ASCII characters fits for 64 calls.
const MAX_DENIALS: usize = 832 << 10;

fn denials_fit(record: &Record, reason: &Reason) -> Result<(), Refusal> {
    let pending = record.progress().map_or(0, |progress| progress.pending);
    let told = denial(reason.as_str());
    let bytes = pending * (told.len() + quote(&told).len());
    if bytes <= MAX_DENIALS {
        return Ok(());
    }
    Err(Refusal::field(
        "reason",
        format!(
            "is told to each of {pending} tool calls, {bytes} bytes together; at most {MAX_DENIALS} are taken: shorten it"
        ),
    ))
}

/// The most bytes of details that fit beside a question, decisions and denials of the largest kind, in the same message.
const MAX_DETAILS: usize = 64 << 10;

/// Details of a wait about tool calls share a message with what is decided, which stands there as a message and in JSON.
fn details_fit(record: &Record, failure: &Failure) -> Result<(), Refusal> {
    let asks = record.question.as_ref().and_then(Question::requests);
    let decided = record.decided.as_ref().map_or(0, |decided| decided.bytes());
    let bytes = failure
        .details
        .as_ref()
        .map_or(0, |json| json.as_str().len());
    // Where little is decided there is room for more.
    let most = MAX_DETAILS.max((1_usize << 20).saturating_sub(2 * decided));
    if asks.is_none() || bytes <= most {
        return Ok(());
    }
    let fault = format!("is {bytes} bytes long; beside what is decided at most {most} are taken");
    Err(Refusal::field("details_json", fault))
}

pub(super) fn resolve_again(
    record: &Record,
    outcome: &Outcome,
    submission: &Submission,
) -> Decision {
    let same = match (&outcome.ending, &submission.body) {
        (Ending::Resolved(Answer::Json { json: recorded, .. }), Body::Json(json)) => {
            !submission.partial && recorded.same_value(json)
        }
        _ => decide::is_repeat(record, outcome, submission),
    };
    again(record, outcome, same, &submission.request_id)
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

/// A repeat is OK whatever id it carries: people double-click. An id that was accepted with another body is a fault of its own.
fn again(
    record: &Record,
    outcome: &Outcome,
    same: bool,
    request_id: &Option<RequestId>,
) -> Decision {
    let won = request_id.is_some() && *request_id == outcome.request_id;
    let decided = outcome.decided.as_deref();
    let known = || decided.is_some_and(|decided| decide::knows(decided, request_id.as_ref()));
    if same {
        Decision::ok(Verdict::Repeat)
    } else if won || known() {
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
