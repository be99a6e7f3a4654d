//! Answers in parts: who decides which tool call, what is kept of it, and who hears.
//!
//! `rules` and `model` ask the rules alone, `races` a broker over each store, `kills` the binary, `upgrade` a database from before there
//! were tool calls, and `streams` whoever listens. That stores keep decisions as they were is in `store_conformance`.

mod kills;
mod model;
mod races;
mod rules;
mod streams;
mod upgrade;

use abeyance::domain::{
    Command, Decided, Effect, Question, Record, Submission,
    limits::{AnsweredBy, CallId, Description, ToolName},
    question::{Call, CallKind, Requests},
    results::{Approval, CallResult, Decision},
};

use crate::store_fixture::{json, request_id};

/// Six calls, two of each kind. `a`: approvals, `e`: external calls, `q`: questions.
pub const CALLS: [&str; 6] = ["a1", "a2", "e1", "e2", "q1", "q2"];

/// A question about some of [`CALLS`], or others whose ids begin like theirs.
pub fn asks(ids: &[&str], may_leave_pending: bool) -> Question {
    let calls = ids.iter().map(|id| Call {
        id: call_id(id),
        tool: ToolName::new("refund").expect("a tool"),
        args: json(r#"{ "amount": 1.50 }"#),
        kind: match id.as_bytes()[0] {
            b'a' => CallKind::Approval,
            b'e' => CallKind::External,
            _ => CallKind::Question,
        },
        metadata: id.ends_with('1').then(|| json(r#"{"risk" : "high"}"#)),
        description: Description::new("\"moves\" money").expect("a description"),
    });
    let requests = Requests::new("question", calls.collect(), may_leave_pending);
    Question::Deferred(requests.expect("different ids"))
}

pub fn call_id(text: &str) -> CallId {
    CallId::new(text).expect("an id")
}

/// An answer that decides everything that is left.
pub fn full(text: &str) -> Submission {
    Submission::json(json(text))
}

/// An answer that decides what it names.
pub fn part(text: &str) -> Submission {
    Submission {
        partial: true,
        ..full(text)
    }
}

pub fn with_id(id: &str, submission: Submission) -> Submission {
    Submission {
        request_id: Some(request_id(id)),
        ..submission
    }
}

pub fn said_by(name: &str, submission: Submission) -> Submission {
    Submission {
        answered_by: Some(AnsweredBy::new(name).expect("a name")),
        ..submission
    }
}

pub fn answers(submission: Submission) -> Command {
    Command::Resolve(Box::new(submission))
}

/// The JSON of an answer that gives each of these calls a text: overrides to an approval, a result to any other.
pub fn gives<'a>(calls: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let (mut approvals, mut results) = (Vec::new(), Vec::new());
    for (id, text) in calls {
        if id.starts_with('a') {
            approvals.push(format!(
                r#""{id}":{{"kind":"tool-approved","override_args":{text}}}"#
            ));
        } else {
            results.push(format!(r#""{id}":{text}"#));
        }
    }
    let (approvals, results) = (approvals.join(","), results.join(","));
    format!(r#"{{"approvals":{{{approvals}}},"calls":{{{results}}}}}"#)
}

/// What [`gives`] gave a call, byte for byte; `None` where nobody did and the broker denied it.
pub fn given(decided: &Decided, id: &str) -> Option<String> {
    let id = call_id(id);
    let decision = decided.results().decision(&id);
    match decision? {
        Decision::Approval(Approval::Approved { override_args, .. }) => {
            override_args.as_ref().map(|json| json.as_str().to_owned())
        }
        Decision::Call(CallResult::Value(json)) => Some(json.as_str().to_owned()),
        _ => None,
    }
}

/// Whether the broker denied a call because nobody decided it.
pub fn is_denied(decided: &Decided, id: &str, reason: &str) -> bool {
    let told = format!("No decision on this tool call arrived: {reason}");
    match decided.results().decision(&call_id(id)) {
        Some(Decision::Approval(Approval::Denied { message, .. })) => {
            id.starts_with('a') && *message == told
        }
        Some(Decision::Call(CallResult::Failed(message))) => {
            !id.starts_with('a') && *message == told
        }
        _ => false,
    }
}

/// Who decided a call, as they said; empty if nobody.
pub fn decider(decided: &Decided, id: &str) -> String {
    let by = decided.results().answered_by_of(&call_id(id));
    by.map_or_else(String::new, |by| by.as_str().to_owned())
}

/// The ids of the calls that somebody decided, in order.
pub fn in_order(decided: &Decided) -> Vec<String> {
    let entries = decided.entries().iter();
    entries
        .map(|entry| entry.call.as_str().to_owned())
        .collect()
}

/// The record behind an effect, as stores keep it.
pub fn after(record: Record, effect: Effect) -> Record {
    match effect {
        Effect::None => record,
        Effect::Update(record) => record,
        Effect::Settle(outcome) => Record {
            last_time: outcome.settle_time,
            decided: None,
            outcome: Some(outcome),
            ..record
        },
    }
}
