//! The rules, command by command, as a table.

use std::time::Duration;

use crate::store_fixture::{START, cancel, fail, new_wait, question, resolve, resolve_as};
use abeyance::domain::{
    self, Command, Effect, Ending, Moment, Record, Refusal, State, Timestamp, Verdict,
};

const HOUR: Duration = Duration::from_secs(3600);

/// What the wait is like when the command comes.
#[derive(Clone, Copy, Debug)]
enum Given {
    Pending,
    QuestionMissing,
    QuestionSet,
    Asked,
    Overdue,
    /// With the answer `1` and the request id `r`.
    Resolved,
    Failed,
    Cancelled,
}

/// What the caller is told.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Told {
    Done,
    Repeat,
    Nothing,
    AlreadySettled(State),
    QuestionNotSet,
    QuestionConflict,
    RequestIdReused,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Written {
    No,
    Update,
    Settle(State),
}

fn moment(now: Timestamp) -> Moment {
    Moment { now, ready: START }
}

fn record(given: Given) -> (Record, Timestamp) {
    let now = START.after(Duration::from_secs(10));
    let mut new = new_wait(START);
    new.heartbeat_timeout = Some(HOUR / 2);
    match given {
        Given::QuestionMissing => new.question_later = true,
        Given::QuestionSet => new.question = Some(question("1")),
        _ => {}
    }
    let open = new.create(START).record;
    let with_id = |text| resolve_as("r", text);
    let command = match given {
        Given::Pending | Given::QuestionMissing | Given::QuestionSet => return (open, now),
        Given::Overdue => return (open, START.after(HOUR)),
        Given::Asked => Command::MarkAsked,
        Given::Resolved => with_id("1"),
        Given::Failed => fail("no"),
        Given::Cancelled => cancel("no"),
    };
    let record = match domain::apply(&open, &command, moment(START)).effect {
        Effect::Update(record) => record,
        Effect::Settle(outcome) => Record {
            outcome: Some(outcome),
            ..open
        },
        Effect::None => panic!("{given:?} came to nothing"),
    };
    (record, now)
}

#[test]
fn every_command_on_every_kind_of_wait() {
    use Given as G;
    use State::{Cancelled, Expired, Failed, Resolved};
    use Told as T;
    use Written as W;
    let with_id = |text| resolve_as("r", text);
    let set = |text| Command::SetQuestion(question(text));
    let late = T::AlreadySettled;
    let table = [
        (G::Pending, resolve("1"), T::Done, W::Settle(Resolved)),
        (G::Pending, fail("no"), T::Done, W::Settle(Failed)),
        (G::Pending, cancel("no"), T::Done, W::Settle(Cancelled)),
        (G::Pending, Command::Expire, T::Nothing, W::No),
        (G::Pending, Command::MarkAsked, T::Done, W::Update),
        (G::Pending, Command::Heartbeat, T::Nothing, W::No),
        (G::Pending, set("1"), T::QuestionConflict, W::No),
        (G::QuestionMissing, resolve("1"), T::QuestionNotSet, W::No),
        (G::QuestionMissing, fail("no"), T::Done, W::Settle(Failed)),
        (
            G::QuestionMissing,
            cancel("no"),
            T::Done,
            W::Settle(Cancelled),
        ),
        (G::QuestionMissing, set("1"), T::Done, W::Update),
        (G::QuestionMissing, Command::MarkAsked, T::Done, W::Update),
        (G::QuestionSet, resolve("1"), T::Done, W::Settle(Resolved)),
        (G::QuestionSet, set(" 1 "), T::Repeat, W::No),
        (G::QuestionSet, set("1.0"), T::QuestionConflict, W::No),
        (G::Asked, Command::MarkAsked, T::Repeat, W::No),
        (G::Asked, Command::Heartbeat, T::Done, W::Update),
        (G::Asked, Command::Expire, T::Nothing, W::No),
        (G::Asked, resolve("1"), T::Done, W::Settle(Resolved)),
        (G::Overdue, resolve("1"), late(Expired), W::Settle(Expired)),
        (G::Overdue, fail("no"), late(Expired), W::Settle(Expired)),
        (G::Overdue, cancel("no"), T::Nothing, W::Settle(Expired)),
        (G::Overdue, Command::Expire, T::Done, W::Settle(Expired)),
        (
            G::Overdue,
            Command::MarkAsked,
            T::Nothing,
            W::Settle(Expired),
        ),
        (
            G::Overdue,
            Command::Heartbeat,
            late(Expired),
            W::Settle(Expired),
        ),
        (G::Overdue, set("1"), late(Expired), W::Settle(Expired)),
        (G::Resolved, resolve(" 1 "), T::Repeat, W::No),
        (G::Resolved, with_id("1"), T::Repeat, W::No),
        (G::Resolved, resolve("1.0"), late(Resolved), W::No),
        (G::Resolved, with_id("2"), T::RequestIdReused, W::No),
        (G::Resolved, fail("no"), late(Resolved), W::No),
        (G::Resolved, cancel("no"), T::Nothing, W::No),
        (G::Resolved, Command::Expire, T::Nothing, W::No),
        (G::Resolved, Command::MarkAsked, T::Nothing, W::No),
        (G::Resolved, Command::Heartbeat, late(Resolved), W::No),
        (G::Resolved, set("1"), late(Resolved), W::No),
        (G::Failed, fail("no"), T::Repeat, W::No),
        (G::Failed, fail("No"), late(Failed), W::No),
        (G::Failed, resolve("1"), late(Failed), W::No),
        (G::Failed, cancel("no"), T::Nothing, W::No),
        (G::Cancelled, cancel("other"), T::Nothing, W::No),
        (G::Cancelled, resolve("1"), late(Cancelled), W::No),
        (G::Cancelled, fail("no"), late(Cancelled), W::No),
        (G::Cancelled, Command::Heartbeat, late(Cancelled), W::No),
    ];
    for (given, command, told, written) in table {
        let (record, now) = record(given);
        let decision = domain::apply(&record, &command, moment(now));
        let found = (said(decision.verdict), wrote(decision.effect));
        assert_eq!(found, (told, written), "{given:?} {command:?}");
    }
}

fn said(verdict: Result<Verdict, Refusal>) -> Told {
    match verdict {
        Ok(Verdict::Done) => Told::Done,
        Ok(Verdict::Repeat) => Told::Repeat,
        Ok(Verdict::Nothing) => Told::Nothing,
        Ok(Verdict::CheckForm) => panic!("no form is asked"),
        Err(Refusal::AlreadySettled { state, .. }) => Told::AlreadySettled(state),
        Err(Refusal::QuestionNotSet { .. }) => Told::QuestionNotSet,
        Err(Refusal::QuestionConflict { .. }) => Told::QuestionConflict,
        Err(Refusal::RequestIdReused { .. }) => Told::RequestIdReused,
        Err(other) => panic!("{other}"),
    }
}

fn wrote(effect: Effect) -> Written {
    match effect {
        Effect::None => Written::No,
        Effect::Update(_) => Written::Update,
        Effect::Settle(outcome) => Written::Settle(outcome.state()),
    }
}

#[test]
fn the_clock_that_ran_out_first_is_the_cause() {
    let cause = |lifetime, beat, seconds| {
        let mut new = new_wait(START);
        new.lifetime = Duration::from_secs(lifetime);
        new.heartbeat_timeout = Some(Duration::from_secs(beat));
        let open = new.create(START).record;
        let Effect::Update(asked) = domain::apply(&open, &Command::MarkAsked, moment(START)).effect
        else {
            panic!("not asked");
        };
        let now = START.after(Duration::from_secs(seconds));
        match domain::apply(&asked, &Command::Expire, moment(now)).effect {
            Effect::Settle(outcome) => match outcome.ending {
                Ending::Expired { cause, .. } => Some(cause),
                other => panic!("{other:?}"),
            },
            _ => None,
        }
    };
    use abeyance::domain::ExpiryCause::{Heartbeat, Timeout};
    assert_eq!(cause(100, 10, 9), None);
    assert_eq!(cause(100, 10, 10), Some(Heartbeat));
    assert_eq!(cause(100, 10, 1000), Some(Heartbeat));
    assert_eq!(cause(10, 100, 10), Some(Timeout));
    assert_eq!(cause(10, 100, 1000), Some(Timeout));
    assert_eq!(cause(10, 10, 10), Some(Timeout));
}
