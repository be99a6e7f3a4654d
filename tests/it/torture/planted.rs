//! The judge is judged: a sound history has no fault, and each kind of fault planted into it is found.

use abeyance::proto::v1::wait::State;

use super::{
    checker::{Kind, check},
    history::{Event, Said, Seen, Told},
};

const LAST_START: u64 = 100;
const EXPIRE: i64 = 5_000;

fn event(began: u64, seen: Seen) -> Event {
    Event {
        wait: 7,
        began,
        ended: began + 1,
        began_micros: i64::try_from(began).expect("small"),
        seen,
    }
}

fn opened(began: u64, resumed: bool, asked: bool) -> Event {
    let seen = Seen::Opened {
        token: "abey_a".to_owned(),
        wait_id: "a".to_owned(),
        resumed,
        asked,
        expire_micros: EXPIRE,
    };
    event(began, seen)
}

fn resolve(payload: &str) -> Said {
    Said::Resolve(payload.to_owned())
}

fn accepted(began: u64, payload: &str, replayed: bool) -> Event {
    let seen = Seen::Accepted {
        said: resolve(payload),
        replayed,
        settle_micros: 30,
    };
    event(began, seen)
}

fn refused(began: u64, payload: &str, state: State) -> Event {
    let seen = Seen::Refused {
        said: resolve(payload),
        state,
        settle_micros: 30,
    };
    event(began, seen)
}

fn told(began: u64, state: State, content: &str) -> Event {
    let told = Told {
        state,
        content: content.to_owned(),
        settle_micros: 30,
    };
    event(began, Seen::Told(told))
}

/// Opened, asked, looked at, answered, repeated in other words, refused, told to two, and told once more after the last start.
fn sound() -> Vec<Event> {
    vec![
        opened(1, false, false),
        event(5, Seen::Asked),
        opened(9, true, true),
        event(20, Seen::Pending),
        event(28, Seen::Trying(resolve(r#"{"a":1,"b":2}"#))),
        event(29, Seen::Trying(resolve("2"))),
        accepted(30, r#"{"a":1,"b":2}"#, false),
        accepted(40, r#"{"b":2, "a":1}"#, true),
        refused(50, "2", State::Resolved),
        told(31, State::Resolved, r#"{"a":1,"b":2}"#),
        opened(110, true, true),
        told(110, State::Resolved, r#"{"a":1,"b":2}"#),
    ]
}

fn kinds(events: &[Event]) -> Vec<Kind> {
    let mut kinds: Vec<_> = (check(events, LAST_START).iter())
        .map(|fault| fault.kind)
        .collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

#[test]
fn a_sound_history_has_no_fault() {
    assert_eq!(check(&sound(), LAST_START), []);
}

#[test]
fn every_planted_fault_is_found() {
    let other = || {
        let mut other = opened(111, true, true);
        if let Seen::Opened { token, .. } = &mut other.seen {
            *token = "abey_b".to_owned();
        }
        other
    };
    let plants: Vec<(Kind, Event)> = vec![
        (Kind::OpenLost, opened(60, false, true)),
        (Kind::TokenChanged, other()),
        (Kind::TwoOutcomes, told(60, State::Resolved, "2")),
        (Kind::TwoOutcomes, told(60, State::Cancelled, "why")),
        (Kind::TwoOutcomes, refused(60, "2", State::Expired)),
        (Kind::TwoWinners, accepted(60, r#"{"a":1,"b":2}"#, false)),
        (Kind::OkNotKept, accepted(60, "2", true)),
        // Equal but not the same bytes, and yet the first.
        (Kind::OkNotKept, accepted(60, r#"{"b":2,"a":1}"#, false)),
        (
            Kind::EqualRefused,
            refused(60, r#"{"b":2,"a":1}"#, State::Resolved),
        ),
        (Kind::AnswerLost, event(60, Seen::Pending)),
        (Kind::AskedForgotten, opened(60, true, false)),
        (Kind::WrongTime, event(6_000, Seen::Pending)),
        (Kind::Unknown, event(60, Seen::Unknown("who?".to_owned()))),
        (Kind::Hung, event(60, Seen::Hung("for ever".to_owned()))),
        (
            Kind::Unexpected,
            event(60, Seen::Unexpected("INTERNAL".to_owned())),
        ),
    ];
    for (kind, plant) in plants {
        let mut events = sound();
        events.push(plant.clone());
        let found = kinds(&events);
        assert!(
            found.contains(&kind),
            "{kind:?} planted by {plant:?}, found {found:?}"
        );
    }
}

#[test]
fn an_outcome_that_nobody_asked_for_is_found() {
    let mut events = sound();
    events.retain(|e| !matches!(&e.seen, Seen::Trying(_)));
    assert_eq!(kinds(&events), [Kind::Invented]);
}

#[test]
fn an_answer_that_did_not_become_the_outcome_is_found() {
    let mut events = sound();
    for event in &mut events {
        if let Seen::Told(told) = &mut event.seen {
            told.content = "2".to_owned();
        }
    }
    assert!(kinds(&events).contains(&Kind::OkNotKept));
}

#[test]
fn a_wait_that_expires_early_is_found() {
    let events = [
        opened(1, false, false),
        told(110, State::Expired, "Ok(Timeout)"),
    ];
    assert_eq!(kinds(&events), [Kind::WrongTime]);
}

#[test]
fn a_wait_that_stays_silent_after_the_last_start_is_found() {
    let mut events = sound();
    events.retain(|e| !(e.began > LAST_START && matches!(e.seen, Seen::Told(_))));
    assert_eq!(kinds(&events), [Kind::Silent]);
}

#[test]
fn what_overlaps_may_be_told_in_either_order() {
    let mut events = sound();
    // Asked before the answer was acknowledged, answered after.
    events.push(Event {
        ended: 90,
        ..event(30, Seen::Pending)
    });
    events.push(Event {
        ended: 90,
        ..opened(5, true, false)
    });
    assert_eq!(check(&events, LAST_START), []);
}
