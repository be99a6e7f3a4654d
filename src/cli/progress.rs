//! What is decided so far, in words.

use super::output::{self, clean};
use crate::client::{
    CallDecision, CallKind, Decided, Decision, DeferredToolCall, DeferredToolRequests, Settled,
    State, WaitInfo,
};

/// What became of a call, as it goes before or behind its id.
pub(super) fn verb(decision: Decision) -> &'static str {
    match decision {
        Decision::Approved => "approved",
        Decision::ApprovedWithOverride => "approved with other arguments",
        Decision::Denied => "denied",
        Decision::Returned => "answered",
        Decision::Failed => "failed",
        Decision::Retry => "sent back for another try",
        _ => "decided",
    }
}

/// What a pending call waits for.
pub(super) fn needs(kind: CallKind) -> &'static str {
    match kind {
        CallKind::Approval => "needs your approval",
        CallKind::External => "needs a result",
        CallKind::Question => "asks a question",
        _ => "needs what this version does not know",
    }
}

/// `approved by alice`.
pub(super) fn by(decision: &str, answered_by: Option<&str>) -> String {
    match answered_by {
        Some(who) => format!("{decision} by {}", clean(who)),
        None => decision.to_owned(),
    }
}

/// `call_1 approved by alice`.
pub(super) fn told(decision: &CallDecision) -> String {
    let what = by(verb(decision.decision), decision.answered_by.as_deref());
    format!("{} {what}", output::id(&decision.tool_call_id))
}

/// `1 of 2 decided`.
pub(super) fn count(decided: &Decided) -> String {
    let all = decided.decided_calls + decided.pending_calls;
    format!("{} of {all} decided", decided.decided_calls)
}

/// `pending, 1/2 decided`: the state, for a cell of a table.
pub(super) fn state(wait: &WaitInfo) -> String {
    match short(wait) {
        Some(decided) => format!("{}, {decided}", wait.state),
        None => wait.state.to_string(),
    }
}

/// `1/2 decided`, for waits about tool calls that go on.
pub(super) fn short(wait: &WaitInfo) -> Option<String> {
    wait.decided.as_ref().map(|decided| {
        let all = decided.decided_calls + decided.pending_calls;
        format!("{}/{all} decided", decided.decided_calls)
    })
}

/// The ids of the calls that are not decided, in the order in which they were asked.
pub(super) fn pending<'a>(requests: &'a DeferredToolRequests, decided: &Decided) -> Vec<&'a str> {
    let is_pending = |id: &str| decided.decisions.iter().all(|d| d.tool_call_id != id);
    let ids = requests.calls.iter().map(|call| call.tool_call_id.as_str());
    ids.filter(|id| is_pending(id)).collect()
}

/// How many ids a line names.
const NAMED: usize = 8;

/// `call_1, call_2 and 3 more`.
pub(super) fn names(ids: &[&str]) -> String {
    let named: Vec<_> = ids.iter().take(NAMED).map(|id| output::id(id)).collect();
    let named = named.join(", ");
    match ids.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// What an answer recorded, and what is pending: `approved call_1; 1 of 2 decided, still pending: call_2`.
pub(super) fn recorded(
    settled: &Settled,
    requests: &DeferredToolRequests,
    calls: &[&DeferredToolCall],
) -> String {
    // A broker that knows tool calls always tells it.
    let decided = settled.decided.clone().unwrap_or_default();
    let of = |call: &DeferredToolCall| {
        let mut decisions = decided.decisions.iter();
        decisions.find(|d| d.tool_call_id == call.tool_call_id)
    };
    let decisions: Vec<_> = calls.iter().filter_map(|call| of(call)).collect();
    let what = if decisions.is_empty() {
        "recorded".to_owned()
    } else if settled.replayed {
        let told: Vec<_> = decisions.iter().map(|d| told(d)).collect();
        format!("recorded before: {}", told.join(", "))
    } else {
        let done: Vec<_> = decisions.iter().map(|d| done(d)).collect();
        done.join(", ")
    };
    let count = count(&decided);
    match settled.state {
        State::Pending => {
            let pending = names(&pending(requests, &decided));
            format!("{what}; {count}, still pending: {pending}")
        }
        state => format!("{what}; {count}, {state}"),
    }
}

/// `approved call_1`.
fn done(decision: &CallDecision) -> String {
    let id = output::id(&decision.tool_call_id);
    match decision.decision {
        // Of the commands, only `deny` makes a call fail.
        Decision::Failed => format!("denied {id} (the call fails)"),
        Decision::ApprovedWithOverride => format!("approved {id} with other arguments"),
        decision => format!("{} {id}", verb(decision)),
    }
}

/// Tells each decision once.
#[derive(Debug, Default)]
pub(super) struct Teller {
    told: usize,
}

impl Teller {
    /// A line for each decision that was not told yet: `call_1 approved by alice; 1 of 2 decided`.
    pub(super) fn news(&mut self, decided: &Decided) -> Vec<String> {
        let all = decided.decided_calls + decided.pending_calls;
        let news = decided.decisions.iter().enumerate().skip(self.told);
        let lines = news.map(|(at, d)| format!("{}; {} of {all} decided", told(d), at + 1));
        let lines = lines.collect();
        self.told = self.told.max(decided.decisions.len());
        lines
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn decided(decisions: &[(&str, Decision)], pending_calls: u32) -> Decided {
        let decisions: Vec<_> = decisions
            .iter()
            .map(|(id, decision)| CallDecision {
                tool_call_id: (*id).to_owned(),
                decision: *decision,
                answered_by: (*id == "a").then(|| "al\rice".to_owned()),
                decide_time: SystemTime::UNIX_EPOCH,
            })
            .collect();
        Decided {
            decided_calls: decisions.len() as u32,
            decisions,
            pending_calls,
        }
    }

    #[test]
    fn each_decision_is_told_once() {
        let mut teller = Teller::default();
        let one = decided(&[("a", Decision::Approved)], 2);
        assert_eq!(
            teller.news(&one),
            ["a approved by al\\rice; 1 of 3 decided"]
        );
        assert!(teller.news(&one).is_empty());
        let all = [
            ("a", Decision::Approved),
            ("b", Decision::Returned),
            ("c", Decision::Retry),
        ];
        assert_eq!(
            teller.news(&decided(&all, 0)),
            [
                "b answered; 2 of 3 decided",
                "c sent back for another try; 3 of 3 decided"
            ]
        );
        assert!(teller.news(&one).is_empty(), "an old state is no news");
    }

    #[test]
    fn many_names_are_counted() {
        let names: Vec<_> = (0..10).map(|n| n.to_string()).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        assert_eq!(super::names(&names[..2]), "0, 1");
        assert_eq!(super::names(&names), "0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
    }
}
