//! Decisions on deferred tool calls: an answer to such a question, and what a worker goes on with.
//!
//! `grammar` reads them from their JSON form, `typed` places what came as a message, `normal` writes the one JSON form that workers
//! get, and `decided` is what is recorded of them. The grammar is that of Pydantic AI's `DeferredToolResults`; `tests/data` is the
//! judge of it, and names where the rules here are stricter.

mod decided;
mod grammar;
mod normal;
mod tool_return;
mod typed;

pub(super) use decided::denial;
pub use decided::{Decided, Entry};
pub use grammar::{UnknownKeys, read};
pub use typed::place;

use super::{
    json::{JsonText, Node, same_if_any},
    limits::{AnsweredBy, CallId},
};

/// What the model is told of a denial that gives no message of its own. Source: `tests/data`, `approval-denied-bare`.
pub const DENIED: &str = "The tool call was denied.";

/// Keys of an answer that this version does not know, and their values. Empty unless the broker is set to relay them.
pub type Unknown = Vec<(String, JsonText)>;

/// Decisions by call, in the order of the answer. `Id` is text as long as nobody looked whether such calls wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Results<Id = CallId> {
    /// Decisions on calls that wait for an approval.
    pub approvals: Vec<(Id, Approval)>,
    /// Results of external calls and answers to questions.
    pub calls: Vec<(Id, CallResult)>,
    /// What the tool is told about a call: an object each.
    pub metadata: Vec<(Id, JsonText)>,
    /// Who decided a call, as they say.
    pub answered_by: Vec<(Id, AnsweredBy)>,
    /// What else stood in the answer.
    pub unknown: Unknown,
    /// Calls that the answer means to decide and does not, since what it says of them is a fault.
    pub faulty: Vec<Id>,
}

/// The decision on a call that waits for an approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approval {
    /// The tool may run.
    Approved {
        /// Run it with these arguments instead of the model's: an object.
        override_args: Option<JsonText>,
        /// What else stood in the decision.
        unknown: Unknown,
    },
    /// The tool must not run.
    Denied {
        /// What the model is told.
        message: String,
        /// What else stood in the decision.
        unknown: Unknown,
    },
}

/// The result of a call that was made elsewhere, or the answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallResult {
    /// The value that the call returned. Always data, whatever it looks like.
    Value(JsonText),
    /// A value and what goes with it.
    Return(ToolReturn),
    /// The call failed; the model is told so.
    Failed(String),
    /// The model is to try again.
    Retry(String),
}

/// A value and what goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolReturn {
    /// The value that the call returned.
    pub value: JsonText,
    /// More for the model to see: a string or an array.
    pub content: Option<JsonText>,
    /// For the application alone.
    pub metadata: Option<JsonText>,
    /// Tools that the result makes known.
    pub tools: Vec<String>,
    /// Which objects of the value the library may make files of, as it wrote that itself: an array of strings.
    pub file_digests: Option<JsonText>,
}

/// The decision on one call, whatever kind of call it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decision<'a> {
    /// On an approval.
    Approval(&'a Approval),
    /// On an external call or a question.
    Call(&'a CallResult),
}

/// How many bytes a text is within the quotes of a JSON string, as [`super::json::quote`] writes it.
fn in_json(text: &str) -> usize {
    let escaped = |byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(escaped).sum()
}

impl<Id> Default for Results<Id> {
    fn default() -> Self {
        Self {
            approvals: Vec::new(),
            calls: Vec::new(),
            metadata: Vec::new(),
            answered_by: Vec::new(),
            unknown: Vec::new(),
            faulty: Vec::new(),
        }
    }
}

impl<Id> Results<Id> {
    /// How many bytes of others' text it holds, where that is longest: in its JSON form. What workers get is bounded by it.
    pub fn bytes(&self) -> usize {
        let unknown = |keys: &Unknown| {
            keys.iter()
                .map(|(k, v)| in_json(k) + v.as_str().len())
                .sum::<usize>()
        };
        let approvals = self.approvals.iter().map(|(_, approval)| match approval {
            Approval::Approved {
                override_args,
                unknown: keys,
            } => override_args.as_ref().map_or(0, |json| json.as_str().len()) + unknown(keys),
            Approval::Denied {
                message,
                unknown: keys,
            } => in_json(message) + unknown(keys),
        });
        let calls = self.calls.iter().map(|(_, result)| match result {
            CallResult::Value(json) => json.as_str().len(),
            CallResult::Return(given) => given.bytes(),
            CallResult::Failed(message) | CallResult::Retry(message) => in_json(message),
        });
        let metadata = self.metadata.iter().map(|(_, json)| json.as_str().len());
        approvals.chain(calls).chain(metadata).sum::<usize>() + unknown(&self.unknown)
    }
}

impl Results {
    /// The calls that are decided: approvals first, each in the order of the answer.
    pub fn decisions(&self) -> impl Iterator<Item = (&CallId, Decision<'_>)> {
        let approvals = self
            .approvals
            .iter()
            .map(|(id, d)| (id, Decision::Approval(d)));
        approvals.chain(self.calls.iter().map(|(id, d)| (id, Decision::Call(d))))
    }

    /// The decision on one call. There are few.
    pub fn decision(&self, id: &CallId) -> Option<Decision<'_>> {
        self.decisions()
            .find(|(with, _)| *with == id)
            .map(|(_, d)| d)
    }

    /// What the tool is told about a call.
    pub fn metadata_of(&self, id: &CallId) -> Option<&JsonText> {
        self.metadata
            .iter()
            .find(|(with, _)| with == id)
            .map(|(_, m)| m)
    }

    /// Who decided a call.
    pub fn answered_by_of(&self, id: &CallId) -> Option<&AnsweredBy> {
        self.answered_by
            .iter()
            .find(|(with, _)| with == id)
            .map(|(_, by)| by)
    }

    /// Whether `other` records the same of a call: the same decision and the same metadata.
    fn same_of(&self, id: &CallId, other: &Self) -> bool {
        let same_decision = match (self.decision(id), other.decision(id)) {
            (Some(a), Some(b)) => a.same(b),
            (a, b) => a.is_none() && b.is_none(),
        };
        same_decision && same_if_any(self.metadata_of(id), other.metadata_of(id))
    }
}

impl ToolReturn {
    fn bytes(&self) -> usize {
        let json = [
            Some(&self.value),
            self.content.as_ref(),
            self.metadata.as_ref(),
            self.file_digests.as_ref(),
        ];
        let json = json.into_iter().flatten().map(|json| json.as_str().len());
        // Quotes and a comma around each: there may be many empty ones.
        json.chain(self.tools.iter().map(|tool| in_json(tool) + 3))
            .sum()
    }

    /// Whether it is a value and nothing else.
    fn is_bare(&self) -> bool {
        self.content.is_none() && self.metadata.is_none() && self.tools.is_empty()
    }

    fn same(&self, other: &Self) -> bool {
        self.value.same_value(&other.value)
            && same_if_any(self.content.as_ref(), other.content.as_ref())
            && same_if_any(self.metadata.as_ref(), other.metadata.as_ref())
            && self.tools == other.tools
            && (same_if_any(self.file_digests.as_ref(), other.file_digests.as_ref())
                || !self.may_hold_files())
    }

    fn may_hold_files(&self) -> bool {
        tool_return::special(self.value.as_str()).file
    }

    /// Whether the model is told just this value: nothing goes with it, and nothing in it becomes a file.
    fn is_value(&self, value: &JsonText) -> bool {
        let digests = self.file_digests.as_ref();
        let no_files =
            digests.is_some_and(|json| Node::of(json.as_str()) == Node::Array(Vec::new()));
        self.is_bare() && (no_files || !self.may_hold_files()) && self.value.same_value(value)
    }
}

impl Decision<'_> {
    /// Whether both decide the same: numbers by their text, objects without order. Keys that nobody knows here count, since somebody
    /// may know them.
    pub fn same(self, other: Decision<'_>) -> bool {
        match (self, other) {
            (Self::Approval(a), Decision::Approval(b)) => a.same(b),
            (Self::Call(a), Decision::Call(b)) => a.same(b),
            _ => false,
        }
    }
}

impl Approval {
    fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Approved {
                    override_args: a,
                    unknown,
                },
                Self::Approved {
                    override_args: b,
                    unknown: other,
                },
            ) => same_if_any(a.as_ref(), b.as_ref()) && same_unknown(unknown, other),
            (
                Self::Denied {
                    message: a,
                    unknown,
                },
                Self::Denied {
                    message: b,
                    unknown: other,
                },
            ) => a == b && same_unknown(unknown, other),
            _ => false,
        }
    }
}

/// Whether the same keys stand in both with the same values.
fn same_unknown(a: &Unknown, b: &Unknown) -> bool {
    a.len() == b.len() && a.iter().all(|(key, value)| says(b, key, value))
}

/// Whether a key stands among others with this value.
fn says(keys: &Unknown, key: &str, value: &JsonText) -> bool {
    keys.iter()
        .any(|(known, told)| known == key && told.same_value(value))
}

impl CallResult {
    fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Value(a), Self::Value(b)) => a.same_value(b),
            (Self::Return(a), Self::Return(b)) => a.same(b),
            (Self::Value(value), Self::Return(given))
            | (Self::Return(given), Self::Value(value)) => given.is_value(value),
            (Self::Failed(a), Self::Failed(b)) | (Self::Retry(a), Self::Retry(b)) => a == b,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::quote;

    #[test]
    fn a_text_counts_as_it_is_written() {
        let all: String = (0..0x250).filter_map(char::from_u32).collect();
        assert_eq!(in_json(&all) + 2, quote(&all).len());
        assert_eq!(in_json(""), 0);
    }
}
