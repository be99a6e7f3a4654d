//! From domain values to messages.

use std::time::Duration;

use super::{answer, question};
use crate::{
    domain::{
        Answer, Ending, ExpiryCause, Outcome, State, Summary, TimeoutSource, Timestamp, Token,
        Wait, WaitId, limits::AnsweredBy,
    },
    proto::v1,
};

/// A state as the contract has it.
pub(super) fn to_state(state: State) -> v1::wait::State {
    match state {
        State::Pending => v1::wait::State::Pending,
        State::Resolved => v1::wait::State::Resolved,
        State::Failed => v1::wait::State::Failed,
        State::Expired => v1::wait::State::Expired,
        State::Cancelled => v1::wait::State::Cancelled,
    }
}

/// A point in time as the contract has it.
pub(super) fn to_timestamp(time: Timestamp) -> prost_types::Timestamp {
    let micros = time.as_micros();
    prost_types::Timestamp {
        seconds: micros.div_euclid(1_000_000),
        // Below a billion.
        nanos: (micros.rem_euclid(1_000_000) * 1000) as i32,
    }
}

/// A length of time as the contract has it.
pub(super) fn to_duration(length: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(length.as_secs()).unwrap_or(i64::MAX),
        // Below a billion.
        nanos: length.subsec_nanos() as i32,
    }
}

fn to_source(source: TimeoutSource) -> v1::TimeoutSource {
    match source {
        TimeoutSource::Timeout => v1::TimeoutSource::Timeout,
        TimeoutSource::Deadline => v1::TimeoutSource::Deadline,
        TimeoutSource::ServerMaximum => v1::TimeoutSource::ServerMaximum,
    }
}

/// The first event of a stream, and the answer to an open.
pub(super) fn opened(
    wait: &Wait,
    token: &Token,
    resumed: bool,
    alive_interval: Option<Duration>,
) -> v1::Opened {
    let record = &wait.record;
    v1::Opened {
        token: token.expose().to_owned(),
        wait_id: record.id.to_string(),
        timeout: Some(to_duration(record.timeout)),
        timeout_source: to_source(record.timeout_source).into(),
        expire_time: Some(to_timestamp(record.expire_time)),
        asked: record.ask_time.is_some(),
        resumed,
        alive_interval: alive_interval.map(to_duration),
        question_pending: record.question_pending(),
    }
}

/// An outcome as workers get it.
pub(super) fn outcome(wait_id: WaitId, outcome: &Outcome) -> v1::Outcome {
    use v1::outcome::Result as R;
    let decided = outcome.decided.as_deref();
    v1::Outcome {
        results: decided.map(|decided| answer::message(decided.results())),
        results_json: decided.map_or_else(String::new, |d| d.json().as_str().to_owned()),
        wait_id: wait_id.to_string(),
        state: to_state(outcome.state()).into(),
        settle_time: Some(to_timestamp(outcome.settle_time)),
        result: Some(match &outcome.ending {
            Ending::Resolved(Answer::Json { json, answered_by }) => R::Resolved(v1::Resolved {
                payload_json: json.as_str().to_owned(),
                answered_by: by(answered_by.as_ref()),
            }),
            Ending::Resolved(Answer::Decisions) => R::Resolved(v1::Resolved::default()),
            Ending::Failed(failure) => R::Failed(v1::Failed {
                reason: failure.reason.as_str().to_owned(),
                error_type: failure.error_type.as_str().to_owned(),
                details_json: failure
                    .details
                    .as_ref()
                    .map_or_else(String::new, |json| json.as_str().to_owned()),
            }),
            Ending::Expired { cause, reason } => R::Expired(v1::Expired {
                cause: match cause {
                    ExpiryCause::Timeout => v1::expired::Cause::Timeout,
                    ExpiryCause::Heartbeat => v1::expired::Cause::Heartbeat,
                }
                .into(),
                reason: reason.clone(),
            }),
            Ending::Cancelled { reason } => R::Cancelled(v1::Cancelled {
                reason: reason.as_str().to_owned(),
            }),
        }),
    }
}

/// Who answered, as they say.
pub(super) fn by(answered_by: Option<&AnsweredBy>) -> String {
    answered_by.map_or_else(String::new, |by| by.as_str().to_owned())
}

/// A wait as lists and watches show it.
pub(super) fn summary(wait: &Summary) -> v1::Wait {
    let (spec, record) = (&wait.spec, &wait.record);
    v1::Wait {
        wait_id: record.id.to_string(),
        namespace: spec.namespace.as_str().to_owned(),
        name: spec.name.as_str().to_owned(),
        key: spec
            .key
            .as_ref()
            .map_or_else(String::new, |key| key.as_str().to_owned()),
        labels: spec.labels.as_map().clone(),
        state: to_state(wait.state()).into(),
        create_time: Some(to_timestamp(record.create_time)),
        expire_time: Some(to_timestamp(record.expire_time)),
        timeout: Some(to_duration(record.timeout)),
        timeout_source: to_source(record.timeout_source).into(),
        ask_time: record.ask_time.map(to_timestamp),
        heartbeat_timeout: record.heartbeat_timeout.map(to_duration),
        heartbeat_expire_time: match wait.settled {
            None => record.heartbeat_expire_time().map(to_timestamp),
            Some(_) => None,
        },
        settle_time: wait.settled.map(|(_, time)| to_timestamp(time)),
        question: None,
        outcome: None,
        progress: wait
            .progress
            .map(|progress| answer::progress(None, progress)),
        decided: None,
    }
}

/// A wait as whoever may see all of it sees it.
pub(super) fn whole(wait: Wait) -> v1::Wait {
    let record = &wait.record;
    let question = record.question.as_ref().map(question::message);
    let progress = answer::progress_of(record);
    let decided = (record.decided.as_ref()).map(|decided| answer::message(decided.results()));
    let ended = (wait.record.outcome.as_ref()).map(|ended| outcome(wait.record.id, ended));
    v1::Wait {
        question,
        outcome: ended,
        progress,
        decided,
        ..summary(&Summary::from(wait))
    }
}
