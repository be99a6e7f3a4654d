//! What is recorded of the decisions on a wait's tool calls.

use std::collections::HashSet;

use super::{Approval, CallResult, Decision, Results, Unknown, says};
use crate::domain::{
    json::{JsonText, same_if_any},
    limits::{CallId, RequestId},
    question::{CallKind, Requests},
    time::Timestamp,
};

/// The decisions that are recorded: while the wait is open, those of partial answers; once it is settled, what its worker goes on
/// with. Decisions are added and never changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    results: Results,
    json: JsonText,
    entries: Vec<Entry>,
    request_ids: Vec<RequestId>,
}

/// That somebody decided a call. A denial which the broker made has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The call.
    pub call: CallId,
    /// When it was recorded.
    pub time: Timestamp,
    /// Whether a partial answer decided it.
    pub partial: bool,
}

impl Default for Decided {
    fn default() -> Self {
        let results = Results::default();
        Self {
            json: results.to_json(),
            results,
            entries: Vec::new(),
            request_ids: Vec::new(),
        }
    }
}

impl Decided {
    /// Takes what was stored. `results` is what [`super::read`] makes of `json`.
    pub fn from_store(
        results: Results,
        json: JsonText,
        entries: Vec<Entry>,
        request_ids: Vec<RequestId>,
    ) -> Self {
        Self {
            results,
            json,
            entries,
            request_ids,
        }
    }

    /// The decisions.
    pub fn results(&self) -> &Results {
        &self.results
    }

    /// The decisions in the JSON form that workers get.
    pub fn json(&self) -> &JsonText {
        &self.json
    }

    /// Who was first with which call, in the order of recording.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The ids of the answers that were accepted before the one that settled the wait.
    pub fn request_ids(&self) -> &[RequestId] {
        &self.request_ids
    }

    /// Whether somebody decided this call.
    pub fn has(&self, id: &CallId) -> bool {
        self.entries.iter().any(|entry| entry.call == *id)
    }

    /// How many bytes of others' text are recorded.
    pub fn bytes(&self) -> usize {
        self.results.bytes()
    }

    /// The first call that `answer` decides or annotates otherwise than is recorded.
    pub fn conflict(&self, answer: &Results) -> Option<CallId> {
        let named = answer.decisions().map(|(id, _)| id);
        let conflicting = named.filter(|id| self.has(id) && !answer.same_of(id, &self.results));
        let annotated = answer.metadata.iter().filter(|(id, metadata)| {
            // An annotation alone must be what is recorded, too.
            let recorded = self.results.metadata_of(id);
            self.has(id) && recorded.is_none_or(|m| !m.same_value(metadata))
        });
        conflicting
            .chain(annotated.map(|(id, _)| id))
            .next()
            .cloned()
    }

    /// The first key beside the decisions, unknown here, that is recorded with another value.
    pub fn contradicted(&self, answer: &Results) -> Option<String> {
        let recorded = &self.results.unknown;
        let mut others = answer.unknown.iter().filter(|(key, value)| {
            recorded.iter().any(|(known, _)| known == key) && !says(recorded, key, value)
        });
        others.next().map(|(key, _)| key.clone())
    }

    /// Whether everything that `answer` decides is recorded like that, by somebody's answer.
    pub fn records(&self, answer: &Results) -> bool {
        self.conflict(answer).is_none()
            && self.contradicted(answer).is_none()
            && answer.decisions().all(|(id, _)| self.has(id))
    }

    /// Whether `answer` as a whole is what settled the wait: everything in it is recorded, and what it leaves out was decided by
    /// partial answers. Those annotate only what they decide, so an annotation of an undecided call is the settling answer's.
    pub fn was_settled_by(&self, answer: &Results) -> bool {
        let left_out = |entry: &&Entry| answer.decision(&entry.call).is_none();
        let mut decided_else = self.entries.iter().filter(left_out);
        let annotations = answer.metadata.iter().chain(&self.results.metadata);
        let mut undecided = annotations.map(|(id, _)| id).filter(|id| !self.has(id));
        self.records(answer)
            && decided_else.all(|entry| entry.partial)
            && undecided.all(|id| same_if_any(answer.metadata_of(id), self.results.metadata_of(id)))
    }

    /// This, and what `answer` decides beyond it.
    #[must_use]
    pub fn with(
        &self,
        answer: Results,
        now: Timestamp,
        partial: bool,
        request_id: Option<&RequestId>,
    ) -> Self {
        let mut results = self.results.clone();
        let mut entries = self.entries.clone();
        let news: Vec<CallId> = answer
            .decisions()
            .map(|(id, _)| id.clone())
            .filter(|id| !self.has(id))
            .collect();
        entries.extend(news.into_iter().map(|call| Entry {
            call,
            time: now,
            partial,
        }));
        let new = |id: &CallId| !self.has(id);
        let added = answer.approvals.into_iter().filter(|(id, _)| new(id));
        results.approvals.extend(added);
        results
            .calls
            .extend(answer.calls.into_iter().filter(|(id, _)| new(id)));
        results
            .metadata
            .extend(answer.metadata.into_iter().filter(|(id, _)| new(id)));
        results
            .answered_by
            .extend(answer.answered_by.into_iter().filter(|(id, _)| new(id)));
        // The first one stays, as everything does. An answer has no key twice.
        let known: HashSet<&str> = self.results.unknown.iter().map(|(k, _)| &**k).collect();
        let unknown = answer.unknown.into_iter();
        results
            .unknown
            .extend(unknown.filter(|(key, _)| !known.contains(&**key)));
        let mut request_ids = self.request_ids.clone();
        request_ids.extend(request_id.cloned());
        Self {
            json: results.to_json(),
            results,
            entries,
            request_ids,
        }
    }

    /// This, and a denial of every call that nobody decided, since nobody will.
    #[must_use]
    pub fn denying_the_rest(&self, requests: &Requests, reason: &str) -> Self {
        let message = denial(reason);
        let mut results = self.results.clone();
        for call in requests.calls() {
            if self.has(&call.id) {
                continue;
            }
            let id = call.id.clone();
            match call.kind {
                CallKind::Approval => results.approvals.push((
                    id,
                    Approval::Denied {
                        message: message.clone(),
                        unknown: Unknown::new(),
                    },
                )),
                CallKind::External | CallKind::Question => {
                    results
                        .calls
                        .push((id, CallResult::Failed(message.clone())));
                }
            }
        }
        Self {
            json: results.to_json(),
            results,
            ..self.clone()
        }
    }

    /// The decisions that somebody made, in the order of recording.
    pub fn decisions(&self) -> impl Iterator<Item = (&Entry, Decision<'_>)> {
        let decision = |entry| Some((entry, self.results.decision(&(entry as &Entry).call)?));
        self.entries.iter().filter_map(decision)
    }
}

/// What the model is told of a call that nobody decided. Source: `denials` in `tests/data/deferred_tool_results.json`.
pub(in crate::domain) fn denial(reason: &str) -> String {
    format!("No decision on this tool call arrived: {reason}")
}
