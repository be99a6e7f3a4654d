//! Tool calls, as whoever decides them reads them.

use std::time::SystemTime;

use super::page::Page;
use crate::{
    cli::{
        json::{pretty, pretty_arguments},
        output, progress, time,
        way::Way,
    },
    client::{
        Approval, CallDecision, CallKind, CallResult, DeferredToolCall, DeferredToolRequests,
        DeferredToolResults, State, WaitInfo,
    },
};

/// Adds a part for each call: what it is, and what is decided about it or how it is decided.
pub(super) fn describe(
    page: &mut Page,
    wait: &WaitInfo,
    requests: &DeferredToolRequests,
    way: &Way,
    now: SystemTime,
) {
    if requests.calls.is_empty() {
        page.row("question", "asks about no tool calls");
        if wait.state == State::Pending {
            page.row("to end it", &format!("{} '{{}}'", way.command("resolve")));
        }
        return;
    }
    let decided = wait.decided.clone().unwrap_or_default();
    let results = match &wait.outcome {
        Some(outcome) => outcome.results.as_ref(),
        None => wait.decisions.as_ref(),
    };
    let mut pending = Pending::default();
    for (at, call) in requests.calls.iter().enumerate() {
        let id = &call.tool_call_id;
        let decision = decided.decisions.iter().find(|d| d.tool_call_id == *id);
        let status = match (decision, results) {
            (Some(decision), _) => of_decision(decision),
            (None, Some(results)) if wait.state != State::Pending => {
                of_results(results, id, wait.decided.is_some())
            }
            (None, _) => progress::needs(call.kind).to_owned(),
        };
        page.part(&format!(
            "call {} of {}: {}, {status}",
            at + 1,
            requests.calls.len(),
            // As an id, so that it cannot pass for what is said behind it.
            output::id(&call.tool_name),
        ));
        row_of_call(page, call);
        if let Some(decision) = decision {
            page.row("decided", &time::at(decision.decide_time, now));
        }
        if let Some(results) = results {
            row_of_results(page, results, id);
        }
        if decision.is_none() && wait.state == State::Pending {
            pending.count(call.kind);
            for (head, command) in ["to decide", ""].iter().zip(way.decide(call)) {
                page.row(head, &command);
            }
        }
    }
    if pending.all > 1 {
        page.part("all that is pending");
        let mut head = "to decide";
        if pending.approvals > 0 {
            page.row(
                head,
                &format!("{}   # every approval", way.command("approve")),
            );
            head = "";
        }
        page.row(head, &format!("{}      # every call", way.command("deny")));
    }
}

/// How many calls are pending.
#[derive(Default)]
struct Pending {
    all: usize,
    approvals: usize,
}

impl Pending {
    fn count(&mut self, kind: CallKind) {
        self.all += 1;
        self.approvals += usize::from(kind == CallKind::Approval);
    }
}

fn row_of_call(page: &mut Page, call: &DeferredToolCall) {
    page.row("id", &output::id(&call.tool_call_id));
    if !call.description.is_empty() {
        page.words("about", &call.description);
    }
    page.json("arguments", &pretty_arguments(&call.args_json));
    if let Some(metadata) = &call.metadata_json {
        page.json("metadata", &pretty(metadata));
    }
}

fn of_decision(decision: &CallDecision) -> String {
    progress::by(
        progress::verb(decision.decision),
        decision.answered_by.as_deref(),
    )
}

/// What became of a call of a wait that is settled, where no decision is told. `nobody`: there was none.
fn of_results(results: &DeferredToolResults, id: &str, nobody: bool) -> String {
    let what = match (results.approvals.get(id), results.calls.get(id)) {
        (None, None) => return "left pending".to_owned(),
        (Some(Approval::Denied { .. }), _) if nobody => {
            return "denied, since nobody decided it".to_owned();
        }
        (_, Some(CallResult::Failed(_))) if nobody => {
            return "failed, since nobody decided it".to_owned();
        }
        (Some(Approval::Approved { override_args_json }), _) => match override_args_json {
            None => "approved",
            Some(_) => "approved with other arguments",
        },
        (Some(Approval::Denied { .. }), _) => "denied",
        (_, Some(CallResult::Value(_) | CallResult::Return(_))) => "answered",
        (_, Some(CallResult::Failed(_))) => "failed",
        (_, Some(CallResult::Retry(_))) => "sent back for another try",
        (Some(_), _) | (_, Some(_)) => "decided in a way that this version does not know",
    };
    let by = results.answered_by.get(id).map(String::as_str);
    progress::by(what, by)
}

fn row_of_results(page: &mut Page, results: &DeferredToolResults, id: &str) {
    match results.approvals.get(id) {
        Some(Approval::Approved {
            override_args_json: Some(json),
        }) => page.json("runs with", &pretty(json)),
        Some(Approval::Denied {
            message: Some(message),
        }) => page.words("message", message),
        _ => {}
    }
    match results.calls.get(id) {
        Some(CallResult::Value(json)) => page.json("result", &pretty(json)),
        Some(CallResult::Return(value)) => {
            page.json("result", &pretty(&value.return_value_json));
            if let Some(json) = &value.content_json {
                page.json("content", &pretty(json));
            }
        }
        Some(CallResult::Failed(message) | CallResult::Retry(message)) => {
            page.words("message", message);
        }
        _ => {}
    }
    if let Some(json) = results.metadata_json.get(id) {
        page.json("noted", &pretty(json));
    }
}
