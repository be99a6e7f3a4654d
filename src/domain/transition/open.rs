//! Opening again: whether what a worker opens is the wait that is there.

use crate::domain::{
    error::Refusal,
    question::Question,
    wait::{NewWait, Wait},
};

/// Judges an open that met a wait under the same key, or the same `request_id` where it has no key. Timeout and labels of the
/// new open are ignored; name and open-time question must be the same.
///
/// # Errors
/// [`Refusal::KeyConflict`] with a key, [`Refusal::RequestIdReused`] without.
pub fn reopen(existing: &Wait, new: &NewWait) -> Result<(), Refusal> {
    let wait_id = existing.record.id;
    let field = if existing.spec.name != new.spec.name {
        "name"
    } else if !same_open_question(existing, new) {
        "question"
    } else {
        return Ok(());
    };
    Err(match new.spec.key {
        Some(_) => Refusal::KeyConflict { wait_id, field },
        None => Refusal::RequestIdReused { wait_id },
    })
}

/// A question that was set later is not an open-time question: then only the promise must be the same.
fn same_open_question(existing: &Wait, new: &NewWait) -> bool {
    let recorded = &existing.record;
    if recorded.question_later || new.question_later {
        return recorded.question_later == new.question_later;
    }
    same_question(recorded.question.as_ref(), new.question.as_ref())
}

fn same_question(a: Option<&Question>, b: Option<&Question>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.same(b),
        (a, b) => a.is_none() && b.is_none(),
    }
}
