//! What answers to tool calls mean, one thing at a time.

use std::sync::Arc;

use abeyance::domain::{
    self, Command, Effect, Question, Refusal, State, Submission,
    limits::Description,
    question::{Form, Requests},
};

use super::{ALICE, BARE, BOTH, Given, NOW, REST, Told, at, open, record, said, tell};
use crate::{
    decisions::{
        answers, asks, decider, full, given, gives, in_order, is_denied, part, said_by, with_id,
    },
    store_fixture::{START, fail, new_wait, question, request_id},
};

#[test]
fn an_equal_decision_by_somebody_else_names_whoever_was_first() {
    let (record, now) = record(Given::Part);
    let bob = answers(said_by("Bob", part(ALICE)));
    assert_eq!(tell(record.clone(), &bob, now), record);
    let both = answers(said_by("Bob", full(BOTH)));
    let settled = tell(record, &both, now);
    let decided = settled.decided().expect("decisions");
    assert_eq!(decider(decided, "a1"), "Alice");
    assert_eq!(decider(decided, "e1"), "Bob");
    let entries = decided.entries().iter();
    let entries: Vec<_> = entries
        .map(|e| (e.call.as_str(), e.time, e.partial))
        .collect();
    assert_eq!(entries, [("a1", START, true), ("e1", NOW, false)]);
}

#[test]
fn who_answers_stands_for_each_call_that_names_nobody() {
    let text = r#"{"approvals":{"a1":true,"a2":true},"answered_by":{"a2":"Carol"}}"#;
    let record = open(asks(&["a1", "a2", "e1"], false));
    let record = tell(record, &answers(said_by("Bob", part(text))), NOW);
    let decided = record.decided().expect("decisions");
    assert_eq!(decider(decided, "a1"), "Bob");
    assert_eq!(decider(decided, "a2"), "Carol");
    assert_eq!(decider(decided, "e1"), "");
}

#[test]
fn decided_calls_keep_their_decision_however_the_wait_ends() {
    for (state, reason) in [
        (Given::Failed, "no"),
        (Given::Cancelled, "no"),
        (Given::Expired, "No resolution arrived within 1:00:00."),
    ] {
        let (record, _) = record(state);
        let decided = record.decided().expect("decisions");
        assert_eq!(in_order(decided), ["a1"], "{state:?}");
        assert!(is_denied(decided, "e1", reason), "{state:?} {decided:?}");
        assert!(!is_denied(decided, "a1", reason), "{state:?}");
        assert_eq!(decided.request_ids(), [request_id("p")]);
    }
}

#[test]
fn of_a_refused_answer_nothing_is_recorded() {
    let mut record = open(asks(&["a1", "a2", "e1"], false));
    record = tell(record, &answers(with_id("p", part(ALICE))), START);
    let mixed = r#"{"approvals":{"a1":false,"a2":true},"calls":{"e1":1}}"#;
    for refused in [part(mixed), full(mixed), with_id("p", part(mixed))] {
        let decision = domain::apply(&record, &answers(refused), at(NOW));
        assert_eq!(decision.effect, Effect::None);
    }
    // And the id of what was refused may be used for what is mended.
    let mended = r#"{"approvals":{"a2":true}}"#;
    let id = |text| answers(with_id("m", part(text)));
    assert_eq!(
        domain::apply(&record, &id(mixed), at(NOW)).effect,
        Effect::None
    );
    let record = tell(record, &id(mended), NOW);
    assert_eq!(in_order(record.decided().expect("decisions")), ["a1", "a2"]);
}

#[test]
fn only_tool_calls_are_answered_in_parts() {
    let form = Question::Form(Form {
        message: Description::new("").expect("short"),
        payload: None,
        schema: None,
    });
    for asked in [question("1"), form] {
        let record = open(asked);
        for fits_form in [false, true] {
            let answer = Submission {
                fits_form,
                ..part("1")
            };
            let decision = domain::apply(&record, &answers(answer), at(NOW));
            assert_eq!(decision.effect, Effect::None);
            let Err(Refusal::InvalidFields(faults)) = decision.verdict else {
                panic!("{:?}", decision.verdict);
            };
            assert_eq!(faults[0].field, "partial");
        }
    }
}

#[test]
fn leave_to_stay_pending_lets_one_answer_settle() {
    let record = || open(asks(&["a1", "e1"], true));
    let settled = |text| tell(record(), &answers(full(text)), NOW);
    for text in ["{}", BARE, REST, BOTH] {
        let settled = settled(text);
        assert_eq!(settled.state(), State::Resolved, "{text}");
        let told = |text| said(domain::apply(&settled, &answers(full(text)), at(NOW)).verdict);
        for again in ["{}", BARE, REST] {
            let expected = match text == again {
                true => Told::Repeat,
                false => Told::Late(State::Resolved),
            };
            assert_eq!(told(again), expected, "{text} and then {again}");
        }
    }
    // A note on a call that stays pending is part of the answer.
    let noted = r#"{"approvals":{"a1":true},"metadata":{"e1":{"later":true}}}"#;
    let told =
        |first, then| said(domain::apply(&settled(first), &answers(full(then)), at(NOW)).verdict);
    assert_eq!(told(noted, noted), Told::Repeat);
    assert_eq!(told(noted, BARE), Told::Late(State::Resolved));
    assert_eq!(told(BARE, noted), Told::Late(State::Resolved));
    // In part it leaves the wait open.
    let in_part = tell(record(), &answers(part(BARE)), NOW);
    assert_eq!(in_part.state(), State::Pending);
    let rest = tell(in_part, &answers(full("{}")), NOW);
    assert_eq!(in_order(rest.decided().expect("decisions")), ["a1"]);
    assert_eq!(rest.state(), State::Resolved);
}

#[test]
fn before_a_promised_question_is_set_nothing_is_answered() {
    let mut new = new_wait(START);
    new.question_later = true;
    let promised = new.create(START).record;
    for answer in [part(ALICE), full(BOTH), full("{}"), part("{}")] {
        let decision = domain::apply(&promised, &answers(answer), at(NOW));
        assert_eq!(decision.effect, Effect::None);
        assert_eq!(
            decision.verdict,
            Err(Refusal::QuestionNotSet {
                wait_id: promised.id
            })
        );
    }
    let failed = tell(promised.clone(), &fail("no"), NOW);
    assert_eq!((failed.state(), failed.decided()), (State::Failed, None));
    let set = Command::SetQuestion(asks(&["a1", "e1"], false));
    let asked = tell(promised, &set, NOW);
    let decided = tell(asked, &answers(part(ALICE)), NOW);
    assert_eq!(
        decided.progress().map(|p| (p.decided, p.pending)),
        Some((1, 1))
    );
}

#[test]
fn a_decision_is_never_earlier_than_the_one_before() {
    let record = open(asks(&["a1", "e1", "q1"], false));
    let record = tell(record, &answers(part(BARE)), NOW);
    let record = tell(record, &answers(part(REST)), START);
    let times: Vec<_> = record
        .decided()
        .expect("decisions")
        .entries()
        .iter()
        .map(|e| e.time)
        .collect();
    assert_eq!(times, [NOW, NOW]);
}

#[test]
fn the_answers_to_one_wait_are_bounded_together() {
    let bounded = |submission| Submission {
        max_bytes: 100,
        ..submission
    };
    let long = |id: &str| gives([(id, format!(r#"{{"text":"{}"}}"#, "x".repeat(40)).as_str())]);
    let mut record = open(asks(&["e1", "e2", "q1", "q2"], false));
    record = tell(record, &answers(bounded(part(&long("e1")))), NOW);
    let decision = domain::apply(&record, &answers(bounded(part(&long("e2")))), at(NOW));
    assert_eq!(decision.effect, Effect::None);
    assert_eq!(said(decision.verdict), Told::Invalid("payload_json"));
    let decided = Arc::clone(record.decided().expect("decisions"));
    assert!(given(&decided, "e1").is_some() && given(&decided, "e2").is_none());
}

#[test]
fn nothing_waits_where_no_call_is_asked_about() {
    let record = open(Question::Deferred(Requests::from_store(Vec::new(), false)));
    assert_eq!(record.progress(), None);
    let settled = tell(record, &answers(full("{}")), NOW);
    assert_eq!(settled.state(), State::Resolved);
}
