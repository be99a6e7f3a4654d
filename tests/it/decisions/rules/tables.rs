//! Answers to waits of every kind, as tables.

use abeyance::domain::{self, Command, Effect, State};

use super::{ALICE, BARE, BOTH, Given, OTHER, REST, Told, at, fail_as, record, said};
use crate::{
    decisions::{answers, full, part, with_id},
    store_fixture::{cancel, fail},
};

/// What is written.
#[derive(Debug, PartialEq)]
enum Written {
    No,
    Update,
    Settle(State),
}

fn wrote(effect: Effect) -> Written {
    match effect {
        Effect::None => Written::No,
        Effect::Update(_) => Written::Update,
        Effect::Settle(outcome) => Written::Settle(outcome.state()),
    }
}

fn run(table: Vec<(Given, Command, Told, Written)>) {
    for (state, command, told, written) in table {
        let (record, now) = record(state);
        let decision = domain::apply(&record, &command, at(now));
        let found = (said(decision.verdict), wrote(decision.effect));
        assert_eq!(found, (told, written), "{state:?} {command:?}");
    }
}

#[test]
fn answers_to_an_open_wait() {
    use Given::{Open, Part, PartOverdue};
    use State::{Cancelled, Expired, Failed, Resolved};
    use Told as T;
    use Written as W;
    let part = |text| answers(part(text));
    let full = |text| answers(full(text));
    let part_as = |id, text| answers(with_id(id, crate::decisions::part(text)));
    let full_as = |id, text| answers(with_id(id, crate::decisions::full(text)));
    run(vec![
        (Open, part(BARE), T::Done, W::Update),
        (Open, part(BOTH), T::Done, W::Settle(Resolved)),
        (Open, full(BOTH), T::Done, W::Settle(Resolved)),
        (Open, full(BARE), T::Invalid("calls[\"e1\"]"), W::No),
        (Open, part("{}"), T::Invalid("partial"), W::No),
        (
            Open,
            part(r#"{"approvals":{"a2":true}}"#),
            T::Invalid("approvals[\"a2\"]"),
            W::No,
        ),
        (
            Open,
            part(r#"{"approvals":{"a1":true},"metadata":{"e1":{}}}"#),
            T::Invalid("metadata[\"e1\"]"),
            W::No,
        ),
        (
            Open,
            part(r#"{"approvals":{"a1":true},"answered_by":{"e1":"Bob"}}"#),
            T::Invalid("answered_by[\"e1\"]"),
            W::No,
        ),
        (Part, part(ALICE), T::Repeat, W::No),
        (Part, part_as("p", ALICE), T::Repeat, W::No),
        (Part, part_as("new", ALICE), T::Repeat, W::No),
        (Part, part(BARE), T::Decided("a1"), W::No),
        (Part, part(OTHER), T::Decided("a1"), W::No),
        (Part, part_as("p", OTHER), T::IdReused, W::No),
        (Part, part_as("p", REST), T::IdReused, W::No),
        (Part, part_as("p", BOTH), T::IdReused, W::No),
        (Part, full_as("p", REST), T::IdReused, W::No),
        (Part, fail_as("p", "no"), T::IdReused, W::No),
        (Part, part_as("new", REST), T::Done, W::Settle(Resolved)),
        (Part, part(BOTH), T::Done, W::Settle(Resolved)),
        (Part, full(BOTH), T::Done, W::Settle(Resolved)),
        (Part, full(REST), T::Done, W::Settle(Resolved)),
        (Part, full(ALICE), T::Invalid("calls[\"e1\"]"), W::No),
        (
            Part,
            full(r#"{"approvals":{"a1":false},"calls":{"e1":1}}"#),
            T::Decided("a1"),
            W::No,
        ),
        (
            Part,
            full(r#"{"calls":{"e1":1},"metadata":{"a1":{"why":2}}}"#),
            T::Decided("a1"),
            W::No,
        ),
        (Part, fail_as("new", "no"), T::Done, W::Settle(Failed)),
        (Part, cancel("no"), T::Done, W::Settle(Cancelled)),
        (Part, Command::Expire, T::Nothing, W::No),
        (PartOverdue, part(ALICE), T::Repeat, W::Settle(Expired)),
        (
            PartOverdue,
            part(REST),
            T::Late(Expired),
            W::Settle(Expired),
        ),
        (
            PartOverdue,
            full(BOTH),
            T::Late(Expired),
            W::Settle(Expired),
        ),
        (
            PartOverdue,
            part_as("p", REST),
            T::IdReused,
            W::Settle(Expired),
        ),
        (
            PartOverdue,
            fail_as("p", "no"),
            T::IdReused,
            W::Settle(Expired),
        ),
        (PartOverdue, Command::Expire, T::Done, W::Settle(Expired)),
    ]);
}

#[test]
fn answers_to_a_settled_wait() {
    use Given::{ByFull, ByParts, Cancelled, Expired, Failed};
    use State::Resolved;
    use Told as T;
    let part = |text| answers(part(text));
    let full = |text| answers(full(text));
    let part_as = |id, text| answers(with_id(id, crate::decisions::part(text)));
    let full_as = |id, text| answers(with_id(id, crate::decisions::full(text)));
    let other = r#"{"calls":{"e1":{"n":1}}}"#;
    let mut table = vec![
        (ByParts, part(REST), T::Repeat),
        (ByParts, part(BOTH), T::Repeat),
        (ByParts, full(BOTH), T::Repeat),
        (ByParts, full(REST), T::Repeat),
        // It decides nothing, and so is not what settled the wait.
        (ByParts, full("{}"), T::Late(Resolved)),
        (ByFull, full("{}"), T::Late(Resolved)),
        (ByParts, part(other), T::Late(Resolved)),
        (
            ByParts,
            full(r#"{"approvals":{"a1":false},"calls":{"e1":{"n":1.0}}}"#),
            T::Late(Resolved),
        ),
        (ByParts, part_as("p", other), T::IdReused),
        (ByParts, part_as("q", other), T::IdReused),
        (ByParts, full_as("q", other), T::IdReused),
        (ByParts, fail_as("q", "no"), T::IdReused),
        (ByFull, full(REST), T::Repeat),
        (ByFull, full_as("f", REST), T::Repeat),
        (ByFull, full_as("new", BOTH), T::Repeat),
        (ByFull, part(REST), T::Repeat),
        (ByFull, full(ALICE), T::Late(Resolved)),
        (ByFull, full("{}"), T::Late(Resolved)),
        (ByFull, full(other), T::Late(Resolved)),
        (ByFull, full_as("f", other), T::IdReused),
        (ByFull, fail_as("f", "no"), T::IdReused),
        (Failed, fail_as("f", "no"), T::Repeat),
        (Failed, fail("no"), T::Repeat),
        (Failed, fail_as("f", "No"), T::IdReused),
        (Failed, full_as("f", BOTH), T::IdReused),
    ];
    for (given, state) in [
        (ByParts, State::Resolved),
        (ByFull, State::Resolved),
        (Failed, State::Failed),
        (Expired, State::Expired),
        (Cancelled, State::Cancelled),
    ] {
        table.push((given, part(ALICE), T::Repeat));
        table.push((given, part_as("p", ALICE), T::Repeat));
        table.push((given, part_as("new", ALICE), T::Repeat));
        table.push((given, part(OTHER), T::Late(state)));
        table.push((given, part(BARE), T::Late(state)));
        table.push((given, part("{}"), T::Late(state)));
        table.push((given, part_as("p", OTHER), T::IdReused));
        table.push((given, fail_as("p", "other"), T::IdReused));
        table.push((given, fail("other"), T::Late(state)));
        table.push((given, cancel("no"), T::Nothing));
        if state != State::Resolved {
            table.push((given, part(REST), T::Late(state)));
            table.push((given, part(BOTH), T::Late(state)));
            table.push((given, full(BOTH), T::Late(state)));
            table.push((given, full(REST), T::Late(state)));
            // The broker's denial is nobody's decision, so whoever says the same repeats nothing.
            let denial = r#"{"calls":{"e1":{"kind":"tool-failed","message":"No decision on this tool call arrived: no"}}}"#;
            table.push((given, part(denial), T::Late(state)));
        }
    }
    let nothing = |(given, command, told)| (given, command, told, Written::No);
    run(table.into_iter().map(nothing).collect());
}
