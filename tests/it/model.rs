//! The rules against a model: a second, much plainer telling of them, in whole seconds, run side by side over random
//! commands and a clock that jumps both ways.

use std::time::Duration;

use abeyance::domain::{
    self, Answer, Command, Effect, Ending, ExpiryCause, Moment, Record, Refusal, State, Submission,
    Timestamp, Verdict,
};
use proptest::prelude::*;

use crate::store_fixture::{START, cancel, fail, json, new_wait, question, request_id};

/// A wait, as the model knows it. Times are seconds since the beginning.
#[derive(Clone, Debug)]
struct Model {
    expire: i64,
    beat_every: Option<i64>,
    question: Option<u8>,
    promised: bool,
    asked: bool,
    beat: Option<i64>,
    last: i64,
    end: Option<(End, i64)>,
}

#[derive(Clone, Debug, PartialEq)]
enum End {
    Resolved(u8, Option<u8>),
    Failed(u8, Option<u8>),
    Cancelled,
    Timeout,
    NoBeat,
}

impl End {
    fn state(&self) -> State {
        match self {
            Self::Resolved(..) => State::Resolved,
            Self::Failed(..) => State::Failed,
            Self::Cancelled => State::Cancelled,
            Self::Timeout | Self::NoBeat => State::Expired,
        }
    }
}

#[derive(Clone, Debug)]
enum Act {
    Resolve(u8, Option<u8>),
    Fail(u8, Option<u8>),
    Cancel,
    Expire,
    Question(u8),
    Ask,
    Beat,
}

/// One thing that happens: the clock jumps, perhaps the broker starts anew, somebody wants something.
#[derive(Clone, Debug)]
struct Step {
    jump: i64,
    restart: bool,
    act: Act,
}

#[derive(Debug, PartialEq)]
enum Told {
    Done,
    Repeat,
    Nothing,
    Late(State, i64),
    NoQuestion,
    OtherQuestion,
    IdReused,
}

impl Model {
    fn act(&mut self, clock: i64, ready: i64, act: &Act) -> Told {
        let now = clock.max(self.last);
        let mut just_ended = false;
        if self.end.is_none() {
            let silent_at = self.beat_at(ready);
            if now >= self.expire.min(silent_at) {
                let why = if silent_at < self.expire {
                    End::NoBeat
                } else {
                    End::Timeout
                };
                self.finish(why, now);
                just_ended = true;
            }
        }
        match self.end.clone() {
            Some((end, at)) => self.act_ended(&end, at, just_ended, act),
            None => self.act_open(now, ready, act),
        }
    }

    fn beat_at(&self, ready: i64) -> i64 {
        match (self.beat, self.beat_every) {
            (Some(beat), Some(every)) => beat.max(ready) + every,
            _ => i64::MAX,
        }
    }

    fn finish(&mut self, end: End, now: i64) {
        self.end = Some((end, now));
        self.last = now;
    }

    fn act_ended(&self, end: &End, at: i64, just_ended: bool, act: &Act) -> Told {
        let again = |same: bool, id: &Option<u8>, won: &Option<u8>| match () {
            () if same => Told::Repeat,
            () if id.is_some() && id == won => Told::IdReused,
            () => Told::Late(end.state(), at),
        };
        let won = match end {
            End::Resolved(_, id) | End::Failed(_, id) => id,
            _ => &None,
        };
        match act {
            Act::Resolve(n, id) => again(matches!(end, End::Resolved(m, _) if m == n), id, won),
            Act::Fail(n, id) => again(matches!(end, End::Failed(m, _) if m == n), id, won),
            Act::Expire if just_ended => Told::Done,
            Act::Cancel | Act::Expire | Act::Ask => Told::Nothing,
            Act::Question(n) if self.question == Some(*n) => Told::Repeat,
            Act::Question(_) | Act::Beat => Told::Late(end.state(), at),
        }
    }

    fn act_open(&mut self, now: i64, ready: i64, act: &Act) -> Told {
        match act {
            Act::Resolve(..) if self.promised && self.question.is_none() => {
                return Told::NoQuestion;
            }
            Act::Resolve(n, id) => self.finish(End::Resolved(*n, *id), now),
            Act::Fail(n, id) => self.finish(End::Failed(*n, *id), now),
            Act::Cancel => self.finish(End::Cancelled, now),
            Act::Expire => {
                // Only a silence that the restart forgives is written down.
                if self.beat_at(i64::MIN) > now {
                    return Told::Nothing;
                }
                self.beat = self.beat.map(|b| b.max(ready));
            }
            Act::Question(n) => match self.question {
                Some(m) if m == *n => return Told::Repeat,
                None if self.promised => {
                    self.question = Some(*n);
                    self.last = now;
                }
                _ => return Told::OtherQuestion,
            },
            Act::Ask if self.asked => return Told::Repeat,
            Act::Ask => {
                self.asked = true;
                self.beat = self.beat_every.map(|_| now);
                self.last = now;
            }
            Act::Beat if self.beat.is_none() => return Told::Nothing,
            Act::Beat => {
                self.beat = Some(now);
                self.last = now;
            }
        }
        Told::Done
    }
}

fn act() -> impl Strategy<Value = Act> {
    let id = || proptest::option::of(0..2u8);
    prop_oneof![
        2 => (0..3u8, id()).prop_map(|(n, id)| Act::Resolve(n, id)),
        2 => (0..3u8, id()).prop_map(|(n, id)| Act::Fail(n, id)),
        1 => Just(Act::Cancel),
        3 => Just(Act::Expire),
        2 => (0..3u8).prop_map(Act::Question),
        3 => Just(Act::Ask),
        4 => Just(Act::Beat),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let jump = prop_oneof![3 => Just(0), 5 => 0..40i64, 2 => -200..200i64];
    (jump, prop::bool::weighted(0.15), act()).prop_map(|(jump, restart, act)| Step {
        jump,
        restart,
        act,
    })
}

prop_compose! {
    fn wait()(
        expire in 0..300i64,
        beat_every in proptest::option::of(1..60i64),
        question in proptest::option::of(0..3u8),
        promised in any::<bool>(),
    ) -> Model {
        Model {
            expire,
            beat_every,
            question: question.filter(|_| !promised),
            promised,
            asked: false,
            beat: None,
            last: 0,
            end: None,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_rules_and_the_model_agree(
        mut model in wait(),
        steps in proptest::collection::vec(step(), 1..30),
    ) {
        let mut record = open(&model);
        let (mut clock, mut ready) = (0, -1_000);
        for step in steps {
            clock += step.jump;
            if step.restart {
                ready = clock;
            }
            let before = record.clone();
            let told = model.act(clock, ready, &step.act);
            let moment = Moment { now: at(clock), ready: at(ready) };
            let decision = domain::apply(&record, &command(&step.act), moment);

            prop_assert_eq!(said(&decision.verdict), told, "{:?}", step);
            check_effect(&before, &decision)?;
            record = after(record, decision.effect);
            check_same(&record, &model)?;
            check_always(&before, &record)?;
        }
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(START.as_micros() + seconds * 1_000_000)
}

fn seconds(time: Timestamp) -> i64 {
    (time.as_micros() - START.as_micros()) / 1_000_000
}

fn open(model: &Model) -> Record {
    let mut new = new_wait(START);
    new.lifetime = Duration::from_secs(model.expire.unsigned_abs());
    new.heartbeat_timeout = model
        .beat_every
        .map(|s| Duration::from_secs(s.unsigned_abs()));
    new.question = model.question.map(|n| question(&n.to_string()));
    new.question_later = model.promised;
    new.create(START).record
}

fn command(act: &Act) -> Command {
    let id = |id: &Option<u8>| id.map(|n| request_id(&n.to_string()));
    match act {
        Act::Resolve(n, request) => Command::Resolve(Box::new(Submission {
            request_id: id(request),
            ..Submission::json(json(&n.to_string()))
        })),
        Act::Fail(n, request) => match fail(&n.to_string()) {
            Command::Fail { failure, .. } => Command::Fail {
                failure,
                request_id: id(request),
            },
            other => other,
        },
        Act::Cancel => cancel(""),
        Act::Expire => Command::Expire,
        Act::Question(n) => Command::SetQuestion(question(&n.to_string())),
        Act::Ask => Command::MarkAsked,
        Act::Beat => Command::Heartbeat,
    }
}

fn after(record: Record, effect: Effect) -> Record {
    match effect {
        Effect::None => record,
        Effect::Update(record) => record,
        // As stores keep it.
        Effect::Settle(outcome) => Record {
            last_time: outcome.settle_time,
            outcome: Some(outcome),
            ..record
        },
    }
}

fn said(verdict: &Result<Verdict, Refusal>) -> Told {
    match verdict {
        Ok(Verdict::Done) => Told::Done,
        Ok(Verdict::Repeat) => Told::Repeat,
        Ok(Verdict::Nothing) => Told::Nothing,
        Ok(Verdict::CheckForm) => panic!("no form is asked"),
        Err(Refusal::AlreadySettled {
            state, settle_time, ..
        }) => Told::Late(*state, seconds(*settle_time)),
        Err(Refusal::QuestionNotSet { .. }) => Told::NoQuestion,
        Err(Refusal::QuestionConflict { .. }) => Told::OtherQuestion,
        Err(Refusal::RequestIdReused { .. }) => Told::IdReused,
        Err(other) => panic!("{other}"),
    }
}

/// What is refused writes nothing, save that it meets an overdue wait.
fn check_effect(before: &Record, decision: &domain::Decision) -> Result<(), TestCaseError> {
    match (&decision.verdict, &decision.effect) {
        (Ok(Verdict::Done), effect) => prop_assert_ne!(effect, &Effect::None),
        (_, Effect::Update(_)) => prop_assert!(false, "refused and yet updated"),
        (_, Effect::Settle(outcome)) => prop_assert_eq!(outcome.state(), State::Expired),
        (_, Effect::None) => {}
    }
    if before.outcome.is_some() {
        prop_assert_eq!(&decision.effect, &Effect::None);
    }
    Ok(())
}

fn check_same(record: &Record, model: &Model) -> Result<(), TestCaseError> {
    let end = record.outcome.as_ref().map(|outcome| {
        let id = (outcome.request_id.as_ref()).and_then(|id| id.as_str().parse().ok());
        let end = match &outcome.ending {
            Ending::Resolved(Answer::Json { json, .. }) => {
                End::Resolved(json.as_str().parse().expect("a number"), id)
            }
            Ending::Resolved(Answer::Decisions) => panic!("no tool calls are asked"),
            Ending::Failed(failure) => {
                End::Failed(failure.reason.as_str().parse().expect("a number"), id)
            }
            Ending::Cancelled { .. } => End::Cancelled,
            Ending::Expired { cause, .. } => match cause {
                ExpiryCause::Timeout => End::Timeout,
                ExpiryCause::Heartbeat => End::NoBeat,
            },
        };
        (end, seconds(outcome.settle_time))
    });
    prop_assert_eq!(&end, &model.end);
    prop_assert_eq!(record.ask_time.is_some(), model.asked);
    prop_assert_eq!(record.heartbeat_time.map(seconds), model.beat);
    prop_assert_eq!(record.question.is_some(), model.question.is_some());
    prop_assert_eq!(seconds(record.last_time), model.last);
    Ok(())
}

/// What holds whatever happens.
fn check_always(before: &Record, after: &Record) -> Result<(), TestCaseError> {
    if let Some(outcome) = &before.outcome {
        prop_assert_eq!(
            Some(outcome),
            after.outcome.as_ref(),
            "one outcome, for ever"
        );
        prop_assert_eq!(before, after);
    }
    if let Some(outcome) = &after.outcome {
        for earlier in [
            Some(after.create_time),
            after.ask_time,
            Some(before.last_time),
        ] {
            prop_assert!(earlier <= Some(outcome.settle_time));
        }
    }
    prop_assert!(
        before.last_time <= after.last_time,
        "time never runs backwards"
    );
    prop_assert!(before.ask_time.is_none() || before.ask_time == after.ask_time);
    prop_assert!(before.question.is_none() || before.question == after.question);
    prop_assert_eq!(before.expire_time, after.expire_time);
    Ok(())
}
