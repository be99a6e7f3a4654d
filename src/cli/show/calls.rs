//! Tool calls, as whoever decides them reads them.

use std::time::SystemTime;

use super::{Way, page::Page};
use crate::{
    cli::{
        json::{pretty, pretty_arguments},
        output::{clean, quoted},
        progress, time,
    },
    client::{
        Approval, CallDecision, CallKind, CallResult, DeferredToolCall, DeferredToolRequests,
        DeferredToolResults, WaitInfo,
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
    let decided = wait.decided.clone().unwrap_or_default();
    let results = wait.outcome.as_ref().and_then(|o| o.results.as_ref());
    let mut pending = Pending::default();
    for (at, call) in requests.calls.iter().enumerate() {
        let id = &call.tool_call_id;
        let decision = decided.decisions.iter().find(|d| d.tool_call_id == *id);
        let status = match (decision, results) {
            (Some(decision), _) => of_decision(decision),
            (None, Some(results)) => of_results(results, id),
            (None, None) => progress::needs(call.kind).to_owned(),
        };
        page.part(&format!(
            "call {} of {}: {}, {status}",
            at + 1,
            requests.calls.len(),
            clean(&call.tool_name),
        ));
        row_of_call(page, call);
        match (decision, results) {
            (Some(decision), _) => page.row("decided", &time::at(decision.decide_time, now)),
            (None, Some(results)) => row_of_results(page, results, id),
            (None, None) => {
                pending.count(call.kind);
                for (head, command) in ["to decide", ""].iter().zip(commands(call, way)) {
                    page.row(head, &command);
                }
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
    page.row("id", &call.tool_call_id);
    if !call.description.is_empty() {
        page.words("about", &call.description);
    }
    page.json("arguments", &pretty_arguments(&call.args_json));
    if let Some(metadata) = &call.metadata_json {
        page.json("metadata", &pretty(metadata));
    }
}

/// What decides a pending call.
fn commands(call: &DeferredToolCall, way: &Way) -> [String; 2] {
    let id = quoted(&call.tool_call_id);
    // What follows two dashes is no flag.
    let is_like_flag = call.tool_call_id.starts_with('-');
    let command = |name: &str, rest: &str| match is_like_flag {
        true => format!("{}{rest} -- {id}", way.command(name)),
        false => format!("{} {id}{rest}", way.command(name)),
    };
    let first = match call.kind {
        CallKind::Approval => command("approve", ""),
        _ => format!("{} JSON", command("answer", "")),
    };
    [first, command("deny", " --message TEXT")]
}

fn of_decision(decision: &CallDecision) -> String {
    progress::by(
        progress::verb(decision.decision),
        decision.answered_by.as_deref(),
    )
}

/// What became of a call of a wait that is settled.
fn of_results(results: &DeferredToolResults, id: &str) -> String {
    let what = match (results.approvals.get(id), results.calls.get(id)) {
        (Some(Approval::Approved { override_args_json }), _) => match override_args_json {
            None => "approved",
            Some(_) => "approved with other arguments",
        },
        (Some(Approval::Denied { .. }), _) => "denied",
        (_, Some(CallResult::Value(_) | CallResult::Return(_))) => "answered",
        (_, Some(CallResult::Failed(_))) => "failed",
        (_, Some(CallResult::Retry(_))) => "sent back for another try",
        (Some(_), _) | (_, Some(_)) => "decided in a way that this version does not know",
        (None, None) => "left pending",
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
        Some(CallResult::Return(value)) => page.json("result", &pretty(&value.return_value_json)),
        Some(CallResult::Failed(message) | CallResult::Retry(message)) => {
            page.words("message", message);
        }
        _ => {}
    }
    if let Some(json) = results.metadata_json.get(id) {
        page.json("noted", &pretty(json));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_pasted_whatever_the_id_is() {
        let way = Way {
            token: " TOKEN".to_owned(),
            server: String::new(),
        };
        let [approve, deny] = commands(&DeferredToolCall::approval("it's", "t", "{}"), &way);
        assert_eq!(approve, r"abeyance approve TOKEN 'it'\''s'");
        assert_eq!(deny, r"abeyance deny TOKEN 'it'\''s' --message TEXT");
        let [answer, deny] = commands(&DeferredToolCall::external("-x y", "t", "{}"), &way);
        assert_eq!(answer, "abeyance answer TOKEN -- '-x y' JSON");
        assert_eq!(deny, "abeyance deny TOKEN --message TEXT -- '-x y'");
    }
}
