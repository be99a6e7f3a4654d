//! The rules of answers to tool calls: `tables` say what is told and written, `meaning` what that is about.

mod meaning;
mod tables;

use std::time::Duration;

use abeyance::domain::{
    self, Command, Moment, Question, Record, Refusal, State, Timestamp, Verdict,
};

use super::{after, answers, asks, full, part, said_by, with_id};
use crate::store_fixture::{START, cancel, fail, new_wait, request_id};

const HOUR: Duration = Duration::from_secs(3600);
/// When the commands come.
const NOW: Timestamp = Timestamp::from_micros(START.as_micros() + 10_000_000);

/// Alice's decision on `a1`, and others of the same call.
const ALICE: &str = r#"{"approvals":{"a1":true},"metadata":{"a1":{"why":1}}}"#;
const BARE: &str = r#"{"approvals":{"a1":true}}"#;
const OTHER: &str = r#"{"approvals":{"a1":false},"metadata":{"a1":{"why":1}}}"#;
const REST: &str = r#"{"calls":{"e1":{"n":1.0}}}"#;
const BOTH: &str =
    r#"{"calls":{"e1":{"n":1.0}},"approvals":{"a1":true},"metadata":{"a1":{"why":1}}}"#;

/// What a wait about `a1` and `e1` is like when the command comes.
#[derive(Clone, Copy, Debug)]
enum Given {
    Open,
    /// Alice decided `a1`, with the request id `p`.
    Part,
    PartOverdue,
    /// Somebody decided the rest in part, with the request id `q`.
    ByParts,
    /// Somebody decided the rest, with the request id `f`.
    ByFull,
    /// Somebody failed the rest with the reason `no` and the request id `f`.
    Failed,
    Expired,
    Cancelled,
}

/// What the caller is told.
#[derive(Debug, PartialEq)]
enum Told {
    Done,
    Repeat,
    Nothing,
    Late(State),
    Decided(&'static str),
    IdReused,
    Invalid(&'static str),
}

fn at(now: Timestamp) -> Moment {
    Moment { now, ready: START }
}

fn tell(record: Record, command: &Command, now: Timestamp) -> Record {
    let effect = domain::apply(&record, command, at(now)).effect;
    after(record, effect)
}

fn open(question: Question) -> Record {
    let mut new = new_wait(START);
    new.question = Some(question);
    new.create(START).record
}

fn fail_as(id: &str, reason: &str) -> Command {
    let Command::Fail { failure, .. } = fail(reason) else {
        unreachable!("it fails")
    };
    Command::Fail {
        failure,
        request_id: Some(request_id(id)),
    }
}

fn record(state: Given) -> (Record, Timestamp) {
    let open = open(asks(&["a1", "e1"], false));
    let alice = || {
        let first = answers(said_by("Alice", with_id("p", part(ALICE))));
        tell(open.clone(), &first, START)
    };
    let then = |command| (tell(alice(), &command, NOW), NOW);
    match state {
        Given::Open => (open, NOW),
        Given::Part => (alice(), NOW),
        Given::PartOverdue => (alice(), START.after(HOUR)),
        Given::ByParts => then(answers(with_id("q", part(REST)))),
        Given::ByFull => then(answers(with_id("f", full(REST)))),
        Given::Failed => then(fail_as("f", "no")),
        Given::Cancelled => then(cancel("no")),
        Given::Expired => (tell(alice(), &Command::Expire, START.after(HOUR)), NOW),
    }
}

fn said(verdict: Result<Verdict, Refusal>) -> Told {
    match verdict {
        Ok(Verdict::Done) => Told::Done,
        Ok(Verdict::Repeat) => Told::Repeat,
        Ok(Verdict::Nothing) => Told::Nothing,
        Err(Refusal::AlreadySettled { state, .. }) => Told::Late(state),
        Err(Refusal::RequestIdReused { .. }) => Told::IdReused,
        Err(Refusal::AlreadyDecided { call, .. }) => {
            Told::Decided(String::leak(call.as_str().to_owned()))
        }
        Err(Refusal::InvalidAnswer { faults, .. }) => {
            assert_eq!(faults.total(), 1, "{faults}");
            Told::Invalid(String::leak(faults.first()[0].field.clone()))
        }
        other => panic!("{other:?}"),
    }
}
