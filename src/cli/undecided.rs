//! Why a decision on tool calls was not recorded, and what can be done about it.

use std::time::SystemTime;

use super::{
    exit::{self, Failure},
    output, progress, time,
    way::Way,
};
use crate::client::{
    CallDecision, CallKind, Client, Decision, DeferredToolCall, Error, Question, State, Token,
    WaitInfo,
};

/// Finds out why, by a look at the wait.
pub(super) struct Why<'a> {
    pub(super) client: &'a Client,
    pub(super) token: &'a Token,
    pub(super) way: &'a Way,
}

impl Why<'_> {
    /// Tells why a decision was refused, and by whom it was decided otherwise.
    pub(super) async fn refused(&self, error: &Error, calls: &[&DeferredToolCall]) -> Failure {
        let failure = self.way.failure(error.clone());
        let show = format!("hint: `{}` tells what is decided", self.way.command("show"));
        let decided = async || {
            let wait = self.client.describe(self.token).await.ok();
            let decided = wait.and_then(|wait| wait.decided).unwrap_or_default();
            decided.decisions
        };
        match (error.reason(), error.metadata("tool_call_id")) {
            (Some("ALREADY_DECIDED"), Some(id)) => {
                let decided = decided().await;
                match decided.iter().find(|d| d.tool_call_id == id) {
                    Some(decision) => {
                        let line = format!("error: {} (ALREADY_DECIDED)", was(decision));
                        let stays = "that stays, and nothing of this was recorded";
                        Failure::new(exit::REFUSED, line).and(stays).and(show)
                    }
                    None => failure.and(show),
                }
            }
            (Some("ALREADY_SETTLED"), _) => {
                let decided = decided().await;
                let is_meant = |d: &&CallDecision| {
                    let mut calls = calls.iter();
                    calls.any(|call| call.tool_call_id == d.tool_call_id)
                };
                let lines = decided.iter().filter(is_meant).map(was);
                lines.fold(failure, |failure, line| failure.and(format!("  {line}")))
            }
            _ => failure,
        }
    }

    /// Tells why nothing of this wait can be decided call by call.
    pub(super) async fn nothing_asked(&self, wait: &WaitInfo) -> Failure {
        let refused = |what: String| Failure::new(exit::REFUSED, format!("error: {what}"));
        let hint = |what: &str, json: &str| {
            let command = |name| self.way.command(name);
            match wait.state {
                State::Pending => format!("hint: {what} `{} {json}`", command("resolve")),
                _ => format!("hint: it has ended; `{}` tells how", command("show")),
            }
        };
        let what = match &wait.question {
            Some(Question::Deferred(_)) => {
                let none = "this wait asks about no tool calls".to_owned();
                return refused(none).and(hint("end it with", "'{}'"));
            }
            Some(Question::Form(_)) => "it asks for a form",
            Some(Question::Json(_)) => "it asks a free question",
            Some(_) => "it asks what this version of the program does not know",
            None if self.is_question_pending(wait).await => {
                let later = "the worker has not said yet what this wait asks".to_owned();
                return refused(later).and("hint: try again in a moment");
            }
            None => "it has no question",
        };
        refused(format!("this wait is not about tool calls: {what}"))
            .and(hint("answer it with", "JSON"))
    }

    /// Whether the question of a wait that has none is still to come. Only who attaches is told.
    async fn is_question_pending(&self, wait: &WaitInfo) -> bool {
        wait.state == State::Pending
            && (self.client.attach(self.token).await)
                .is_ok_and(|wait| wait.opened().question_pending)
    }
}

/// `call_1 was denied by bob, 2026-11-30 12:30:00 (2s ago)`.
fn was(decision: &CallDecision) -> String {
    let id = output::id(&decision.tool_call_id);
    let verb = match decision.decision {
        Decision::Failed => "failed".to_owned(),
        decision => format!("was {}", progress::verb(decision)),
    };
    let what = progress::by(&verb, decision.answered_by.as_deref());
    let when = time::at(decision.decide_time, SystemTime::now());
    format!("{id} {what}, {when}")
}

/// The call cannot be decided so.
pub(super) fn wrong_kind(call: &DeferredToolCall, way: &Way) -> Failure {
    let id = output::id(&call.tool_call_id);
    let needs = match call.kind {
        CallKind::Approval => "needs an approval, not a result",
        CallKind::External => "needs a result, not an approval",
        CallKind::Question => "asks a question, and needs no approval",
        _ => {
            let unknown = "needs what this version of the program does not know";
            return Failure::new(exit::PROTOCOL, format!("error: {id} {unknown}"));
        }
    };
    Failure::new(exit::REFUSED, format!("error: {id} {needs}")).and(hint(call, way))
}

/// How such a call is decided.
pub(super) fn hint(call: &DeferredToolCall, way: &Way) -> String {
    let [decide, deny] = way.decide(call);
    format!("hint: {decide}, or {deny}")
}
