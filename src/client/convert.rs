//! From the wire to the client's types. What the contract promises and a message lacks is a [`Error::Protocol`].

use std::time::{Duration, SystemTime};

use super::{
    decided::Decided,
    error::Error,
    outcome::{ExpiryCause, Outcome, Verdict},
    question::Question,
    results::DeferredToolResults,
    token::Token,
    types::{Opened, Settled, State, TimeoutSource, WaitInfo},
};
use crate::proto::v1;

/// The wire's form of a length of time.
pub(super) fn to_wire(length: Duration) -> prost_types::Duration {
    prost_types::Duration {
        // Longer than any limit of a broker, so it is refused there and not cut here.
        seconds: i64::try_from(length.as_secs()).unwrap_or(i64::MAX),
        // Below 10^9, which fits.
        nanos: length.subsec_nanos() as i32,
    }
}

/// A length of time from the wire. Absent or negative counts as none.
pub(super) fn length(wire: Option<prost_types::Duration>) -> Duration {
    wire.and_then(|d| Duration::try_from(d).ok())
        .unwrap_or_default()
}

pub(super) fn time(field: &str, wire: Option<prost_types::Timestamp>) -> Result<SystemTime, Error> {
    optional_time(wire).ok_or_else(|| Error::protocol(format!("{field} is missing")))
}

pub(super) fn optional_time(wire: Option<prost_types::Timestamp>) -> Option<SystemTime> {
    wire.and_then(|t| SystemTime::try_from(t).ok())
}

pub(super) fn filled(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// JSON text for a field in which empty means none. An empty text is no JSON, and goes as one that the broker refuses: a tool that
/// was approved with it must not run with the model's arguments.
pub(super) fn given(json: Option<String>) -> String {
    match json {
        Some(json) if json.is_empty() => " ".to_owned(),
        json => json.unwrap_or_default(),
    }
}

pub(super) fn state(wire: i32) -> Result<State, Error> {
    use v1::wait::State as Wire;
    Ok(match Wire::try_from(wire) {
        Ok(Wire::Pending) => State::Pending,
        Ok(Wire::Resolved) => State::Resolved,
        Ok(Wire::Failed) => State::Failed,
        Ok(Wire::Expired) => State::Expired,
        Ok(Wire::Cancelled) => State::Cancelled,
        Ok(Wire::Unspecified) | Err(_) => {
            return Err(Error::protocol(format!("unknown state {wire} of a wait")));
        }
    })
}

pub(super) fn state_to_wire(state: State) -> i32 {
    use v1::wait::State as Wire;
    match state {
        State::Pending => Wire::Pending,
        State::Resolved => Wire::Resolved,
        State::Failed => Wire::Failed,
        State::Expired => Wire::Expired,
        State::Cancelled => Wire::Cancelled,
    }
    .into()
}

fn timeout_source(wire: i32) -> TimeoutSource {
    use v1::TimeoutSource as Wire;
    match Wire::try_from(wire) {
        Ok(Wire::Timeout) => TimeoutSource::Timeout,
        Ok(Wire::Deadline) => TimeoutSource::Deadline,
        Ok(Wire::ServerMaximum) => TimeoutSource::ServerMaximum,
        Ok(Wire::Unspecified) | Err(_) => TimeoutSource::Other,
    }
}

pub(super) fn opened(wire: v1::Opened) -> Result<Opened, Error> {
    if wire.token.is_empty() || wire.wait_id.is_empty() {
        return Err(Error::protocol("opened without token or wait id"));
    }
    Ok(Opened {
        token: Token::new(wire.token),
        wait_id: wire.wait_id,
        timeout: length(wire.timeout),
        timeout_source: timeout_source(wire.timeout_source),
        expire_time: time("opened.expire_time", wire.expire_time)?,
        asked: wire.asked,
        resumed: wire.resumed,
        question_pending: wire.question_pending,
    })
}

/// An outcome that this client does not understand is an error and never an answer.
pub(super) fn outcome(wire: v1::Outcome) -> Result<Outcome, Error> {
    use v1::outcome::Result as Wire;
    let results_json = filled(wire.results_json);
    let verdict = match wire.result {
        Some(Wire::Resolved(r)) if r.payload_json.is_empty() && results_json.is_none() => {
            return Err(Error::protocol("a resolved wait without its answer"));
        }
        Some(Wire::Resolved(r)) => Verdict::Resolved {
            // Decisions on tool calls stand in one place for every ending; here they are the answer, too.
            payload_json: match &results_json {
                Some(results) => results.clone(),
                None => r.payload_json,
            },
            answered_by: filled(r.answered_by),
        },
        Some(Wire::Failed(f)) => Verdict::Failed {
            reason: f.reason,
            error_type: filled(f.error_type),
            details_json: filled(f.details_json),
        },
        Some(Wire::Expired(e)) => Verdict::Expired {
            cause: match e.cause() {
                v1::expired::Cause::Timeout => ExpiryCause::Timeout,
                v1::expired::Cause::Heartbeat => ExpiryCause::Heartbeat,
                v1::expired::Cause::Unspecified => ExpiryCause::Other,
            },
            reason: e.reason,
        },
        Some(Wire::Cancelled(c)) => Verdict::Cancelled { reason: c.reason },
        None => {
            return Err(Error::protocol(
                "the wait ended in a way that this version of the client does not know",
            ));
        }
    };
    let outcome = Outcome {
        wait_id: wire.wait_id,
        settle_time: time("outcome.settle_time", wire.settle_time)?,
        verdict,
        results: wire.results.map(DeferredToolResults::from_wire),
        results_json,
    };
    if state(wire.state)? != outcome.state() {
        return Err(Error::protocol("an outcome whose state is another"));
    }
    Ok(outcome)
}

pub(super) fn settled(
    wait_id: String,
    wire_state: i32,
    settle_time: Option<prost_types::Timestamp>,
    replayed: bool,
) -> Result<Settled, Error> {
    let state = state(wire_state)?;
    Ok(Settled {
        wait_id,
        state,
        settle_time: match state {
            State::Pending => None,
            _ => Some(time("settle_time", settle_time)?),
        },
        replayed,
        answered_by: None,
        decided: None,
    })
}

pub(super) fn resolved(wire: v1::ResolveResponse) -> Result<Settled, Error> {
    let settled = settled(wire.wait_id, wire.state, wire.settle_time, wire.replayed)?;
    Ok(Settled {
        answered_by: filled(wire.answered_by),
        decided: wire.progress.map(Decided::from_wire).transpose()?,
        ..settled
    })
}

pub(super) fn info(wire: Option<v1::Wait>) -> Result<WaitInfo, Error> {
    let wire = wire.ok_or_else(|| Error::protocol("a response without its wait"))?;
    Ok(WaitInfo {
        state: state(wire.state)?,
        timeout_source: timeout_source(wire.timeout_source),
        create_time: time("wait.create_time", wire.create_time)?,
        expire_time: time("wait.expire_time", wire.expire_time)?,
        timeout: length(wire.timeout),
        ask_time: optional_time(wire.ask_time),
        heartbeat_timeout: wire.heartbeat_timeout.map(|d| length(Some(d))),
        heartbeat_expire_time: optional_time(wire.heartbeat_expire_time),
        settle_time: optional_time(wire.settle_time),
        question: wire.question.map(Question::from_wire),
        decided: wire.progress.map(Decided::from_wire).transpose()?,
        decisions: wire.decided.map(DeferredToolResults::from_wire),
        outcome: wire.outcome.map(outcome).transpose()?,
        wait_id: wire.wait_id,
        namespace: wire.namespace,
        name: wire.name,
        key: filled(wire.key),
        labels: wire.labels,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(state: v1::wait::State, result: Option<v1::outcome::Result>) -> v1::Outcome {
        v1::Outcome {
            wait_id: "w".to_owned(),
            state: state.into(),
            settle_time: Some(prost_types::Timestamp::default()),
            result,
            ..v1::Outcome::default()
        }
    }

    #[test]
    fn an_outcome_without_a_known_result_is_no_answer() {
        assert!(outcome(wire(v1::wait::State::Resolved, None)).is_err());
        let failed = v1::outcome::Result::Failed(v1::Failed::default());
        assert!(outcome(wire(v1::wait::State::Resolved, Some(failed.clone()))).is_err());
        assert!(outcome(wire(v1::wait::State::Unspecified, Some(failed))).is_err());
    }

    #[test]
    fn c39_each_end_stays_what_it_is() {
        use v1::outcome::Result as Wire;
        let denied = Wire::Resolved(v1::Resolved {
            payload_json: "false".to_owned(),
            answered_by: "alice".to_owned(),
        });
        let answer = outcome(wire(v1::wait::State::Resolved, Some(denied)));
        let answer = answer.unwrap();
        let Verdict::Resolved { answered_by, .. } = &answer.verdict else {
            panic!("{answer:?}");
        };
        assert_eq!(answered_by.as_deref(), Some("alice"));
        assert_eq!(answer.into_answer().unwrap(), "false");
        for (state, result) in [
            (State::Failed, Wire::Failed(v1::Failed::default())),
            (State::Expired, Wire::Expired(v1::Expired::default())),
            (State::Cancelled, Wire::Cancelled(v1::Cancelled::default())),
        ] {
            let message = wire(v1::wait::State::Unspecified, Some(result));
            let message = v1::Outcome {
                state: state_to_wire(state),
                ..message
            };
            let outcome = outcome(message).unwrap();
            assert_eq!(outcome.state(), state);
            assert!(outcome.into_answer().is_err());
        }
    }

    #[test]
    fn a_partial_answer_leaves_the_wait_without_an_end() {
        let pending = v1::ResolveResponse {
            wait_id: "w".to_owned(),
            state: v1::wait::State::Pending.into(),
            progress: Some(v1::Progress {
                decided: Vec::new(),
                decided_calls: 1,
                pending_calls: 2,
            }),
            ..v1::ResolveResponse::default()
        };
        let settled = resolved(pending.clone()).unwrap();
        assert_eq!((settled.state, settled.settle_time), (State::Pending, None));
        let decided = settled.decided.unwrap();
        assert_eq!((decided.decided_calls, decided.pending_calls), (1, 2));
        // Only what is pending may lack it.
        let without_time = v1::ResolveResponse {
            state: v1::wait::State::Resolved.into(),
            ..pending
        };
        assert!(resolved(without_time).is_err());
    }
}
