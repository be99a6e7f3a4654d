//! The rules of answers to tool calls against a model: a second, plainer telling of them, run side by side over random answers.

use std::{collections::BTreeMap, time::Duration};

use abeyance::domain::{self, Command, Effect, Moment, Record, Refusal, State, Timestamp, Verdict};
use proptest::prelude::*;

use super::{after, answers, asks, full, given, gives, is_denied, part, with_id};
use crate::store_fixture::{START, cancel, fail, new_wait, request_id};

const IDS: [&str; 3] = ["a1", "e1", "q1"];
/// Seconds until the wait expires.
const EXPIRE: i64 = 100;

/// Which call gets which value.
type Answer = BTreeMap<usize, u8>;

#[derive(Clone, Debug)]
struct Model {
    may_leave: bool,
    /// Call, value, seconds, and whether a partial answer decided it; in order.
    decided: Vec<(usize, u8, i64, bool)>,
    part_ids: Vec<u8>,
    last: i64,
    end: Option<(State, Option<u8>)>,
    reason: u8,
}

#[derive(Clone, Debug)]
enum Act {
    Part(Answer, Option<u8>),
    Full(Answer, Option<u8>),
    Fail(u8, Option<u8>),
    Cancel,
    Expire,
}

#[derive(Debug, PartialEq)]
enum Told {
    Done,
    Repeat,
    Nothing,
    Invalid,
    Decided(usize),
    IdReused,
    Late(State),
}

impl Model {
    fn value(&self, call: usize) -> Option<u8> {
        self.decided.iter().find(|d| d.0 == call).map(|d| d.1)
    }

    fn repeats(&self, answer: &Answer) -> bool {
        answer
            .iter()
            .all(|(call, value)| self.value(*call) == Some(*value))
    }

    fn knows(&self, id: &Option<u8>) -> bool {
        let won = self.end.and_then(|(_, id)| id);
        id.is_some_and(|id| self.part_ids.contains(&id) || won == Some(id))
    }

    fn act(&mut self, clock: i64, act: &Act) -> Told {
        let now = clock.max(self.last);
        let just_expired = self.end.is_none() && now >= EXPIRE;
        if just_expired {
            self.last = now;
            self.end = Some((State::Expired, None));
        }
        if let Some((state, _)) = self.end {
            return self.act_ended(state, just_expired, act);
        }
        match act {
            Act::Part(answer, _) if answer.is_empty() => Told::Invalid,
            Act::Part(answer, _) if self.repeats(answer) => Told::Repeat,
            Act::Full(answer, _) if !self.may_leave && !self.covers(answer) => Told::Invalid,
            Act::Part(_, id) | Act::Full(_, id) | Act::Fail(_, id) if self.knows(id) => {
                Told::IdReused
            }
            Act::Part(answer, id) => self.record(answer, *id, now, true),
            Act::Full(answer, id) => self.record(answer, *id, now, false),
            Act::Fail(reason, id) => {
                self.reason = *reason;
                self.finish(State::Failed, *id, now)
            }
            Act::Cancel => self.finish(State::Cancelled, None, now),
            Act::Expire => Told::Nothing,
        }
    }

    fn covers(&self, answer: &Answer) -> bool {
        (0..IDS.len()).all(|call| answer.contains_key(&call) || self.value(call).is_some())
    }

    fn finish(&mut self, state: State, id: Option<u8>, now: i64) -> Told {
        self.end = Some((state, id));
        self.last = now;
        Told::Done
    }

    fn record(&mut self, answer: &Answer, id: Option<u8>, now: i64, partial: bool) -> Told {
        let differs =
            |(call, value): &(&usize, &u8)| self.value(**call).is_some_and(|v| v != **value);
        if let Some((call, _)) = answer.iter().find(differs) {
            return Told::Decided(*call);
        }
        for (call, value) in answer {
            if self.value(*call).is_none() {
                self.decided.push((*call, *value, now, partial));
            }
        }
        self.last = now;
        if partial {
            self.part_ids.extend(id);
        }
        if !partial || self.decided.len() == IDS.len() {
            self.finish(State::Resolved, id, now);
        }
        Told::Done
    }

    fn act_ended(&self, state: State, just_expired: bool, act: &Act) -> Told {
        let (same, id) = match act {
            Act::Part(answer, id) => (!answer.is_empty() && self.repeats(answer), id),
            Act::Full(answer, id) => {
                let mut left_out = self.decided.iter().filter(|d| !answer.contains_key(&d.0));
                let by_parts = left_out.all(|d| d.3);
                // One that decides nothing settles only what leaves something open.
                let could = !answer.is_empty() || self.decided.len() < IDS.len();
                let same = self.repeats(answer) && by_parts && could;
                (state == State::Resolved && same, id)
            }
            Act::Fail(reason, id) => (state == State::Failed && *reason == self.reason, id),
            Act::Expire if just_expired => return Told::Done,
            Act::Cancel | Act::Expire => return Told::Nothing,
        };
        match () {
            () if same => Told::Repeat,
            () if self.knows(id) => Told::IdReused,
            () => Told::Late(state),
        }
    }
}

fn answer() -> impl Strategy<Value = Answer> {
    proptest::collection::btree_map(0..IDS.len(), 0..2u8, 0..=IDS.len())
}

fn act() -> impl Strategy<Value = Act> {
    let id = || proptest::option::of(0..3u8);
    prop_oneof![
        8 => (answer(), id()).prop_map(|(answer, id)| Act::Part(answer, id)),
        3 => (answer(), id()).prop_map(|(answer, id)| Act::Full(answer, id)),
        1 => (0..2u8, id()).prop_map(|(n, id)| Act::Fail(n, id)),
        1 => Just(Act::Cancel),
        1 => Just(Act::Expire),
    ]
}

fn step() -> impl Strategy<Value = (i64, Act)> {
    let jump = prop_oneof![4 => Just(0), 5 => 0..10i64, 1 => -60..60i64];
    (jump, act())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_rules_and_the_model_agree(
        may_leave in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..16),
    ) {
        let mut new = new_wait(START);
        new.timeout = Duration::from_secs(EXPIRE.unsigned_abs());
        new.lifetime = new.timeout;
        new.question = Some(asks(&IDS, may_leave));
        let mut record = new.create(START).record;
        let mut model = Model {
            may_leave,
            decided: Vec::new(),
            part_ids: Vec::new(),
            last: 0,
            end: None,
            reason: 0,
        };
        let mut clock = 0;
        for (jump, act) in steps {
            clock += jump;
            let before = record.clone();
            let told = model.act(clock, &act);
            let moment = Moment { now: at(clock), ready: START };
            let decision = domain::apply(&record, &command(&act), moment);
            prop_assert_eq!(said(&decision.verdict), told, "{:?}", act);
            if !matches!(decision.verdict, Ok(Verdict::Done)) {
                let expired = matches!(&decision.effect, Effect::Settle(o) if o.state() == State::Expired);
                prop_assert!(decision.effect == Effect::None || expired);
            }
            record = after(record, decision.effect);
            check_same(&record, &model)?;
            check_always(&before, &record)?;
        }
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(START.as_micros() + seconds * 1_000_000)
}

fn command(act: &Act) -> Command {
    let text = |answer: &Answer| {
        let calls = answer
            .iter()
            .map(|(call, value)| (IDS[*call], ["{}", "{\"v\":1}"][usize::from(*value)]));
        gives(calls)
    };
    let named = |submission, id: &Option<u8>| match id {
        Some(id) => with_id(&id.to_string(), submission),
        None => submission,
    };
    match act {
        Act::Part(answer, id) => answers(named(part(&text(answer)), id)),
        Act::Full(answer, id) => answers(named(full(&text(answer)), id)),
        Act::Fail(reason, id) => match fail(&reason.to_string()) {
            Command::Fail { failure, .. } => Command::Fail {
                failure,
                request_id: id.map(|id| request_id(&id.to_string())),
            },
            other => other,
        },
        Act::Cancel => cancel("c"),
        Act::Expire => Command::Expire,
    }
}

fn said(verdict: &Result<Verdict, Refusal>) -> Told {
    match verdict {
        Ok(Verdict::Done) => Told::Done,
        Ok(Verdict::Repeat) => Told::Repeat,
        Ok(Verdict::Nothing) => Told::Nothing,
        Err(Refusal::InvalidAnswer { .. }) => Told::Invalid,
        Err(Refusal::AlreadyDecided { call, .. }) => Told::Decided(
            IDS.iter()
                .position(|id| *id == call.as_str())
                .expect("asked"),
        ),
        Err(Refusal::RequestIdReused { .. }) => Told::IdReused,
        Err(Refusal::AlreadySettled { state, .. }) => Told::Late(*state),
        other => panic!("{other:?}"),
    }
}

fn check_same(record: &Record, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(record.last_time, at(model.last));
    prop_assert_eq!(
        record.state(),
        model.end.map_or(State::Pending, |(state, _)| state)
    );
    let empty = domain::Decided::default();
    let decided = record.decided().map_or(&empty, |decided| &**decided);
    let entries = decided
        .entries()
        .iter()
        .map(|e| (e.call.as_str(), e.time, e.partial));
    let expected = model.decided.iter().map(|d| (IDS[d.0], at(d.2), d.3));
    prop_assert_eq!(entries.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    let reason = match record.state() {
        State::Failed => model.reason.to_string(),
        State::Cancelled => "c".to_owned(),
        _ => "No resolution arrived within 0:01:40.".to_owned(),
    };
    for (call, id) in IDS.iter().enumerate() {
        let value = model
            .value(call)
            .map(|v| ["{}", "{\"v\":1}"][usize::from(v)].to_owned());
        let denied = !matches!(record.state(), State::Pending | State::Resolved) && value.is_none();
        prop_assert_eq!(given(decided, id), value);
        prop_assert_eq!(is_denied(decided, id, &reason), denied);
    }
    Ok(())
}

/// What holds whatever happens.
fn check_always(before: &Record, after: &Record) -> Result<(), TestCaseError> {
    if before.outcome.is_some() {
        prop_assert_eq!(before, after, "one outcome, for ever");
    }
    if let Some(earlier) = before.decided() {
        let later = after.decided().expect("nothing is forgotten");
        prop_assert!(later.entries().starts_with(earlier.entries()));
        prop_assert!(later.request_ids().starts_with(earlier.request_ids()));
    }
    prop_assert!(after.outcome.is_none() || after.decided.is_none());
    Ok(())
}
