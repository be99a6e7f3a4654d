//! Decisions on tool calls.

use std::collections::BTreeMap;

use super::convert::{filled, given};
use crate::proto::v1::{self, tool_approval::Decision, tool_call_result::Result as Wire};

/// Decisions on tool calls: an answer to [`DeferredToolRequests`](super::DeferredToolRequests), and what a worker goes on with.
///
/// ```
/// use abeyance::client::DeferredToolResults;
///
/// let decisions = DeferredToolResults::new()
///     .approve("call_1")
///     .approve_with("call_2", r#"{"amount":100}"#)
///     .deny("call_3", "Over the limit.")
///     .value("call_4", r#"{"status":"shipped"}"#)
///     .answered_by("call_3", "alice");
/// # assert_eq!(decisions.approvals.len(), 3);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeferredToolResults {
    /// Decisions on calls that wait for an approval, by call id.
    pub approvals: BTreeMap<String, Approval>,
    /// Results of external calls and answers to questions, by call id.
    pub calls: BTreeMap<String, CallResult>,
    /// What the resolver tells the tool about a call, by call id: JSON text of an object each, kept byte for byte.
    pub metadata_json: BTreeMap<String, String>,
    /// Who decided a call, by call id, as the resolver claims: up to 256 characters each. Not part of the decision: an equal
    /// decision by somebody else is a repeat.
    pub answered_by: BTreeMap<String, String>,
}

impl DeferredToolResults {
    /// No decisions yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the tool run with the model's arguments.
    pub fn approve(self, tool_call_id: impl Into<String>) -> Self {
        self.approval(
            tool_call_id,
            Approval::Approved {
                override_args_json: None,
            },
        )
    }

    /// Lets the tool run with these arguments instead of the model's: JSON text of an object.
    pub fn approve_with(
        self,
        tool_call_id: impl Into<String>,
        override_args_json: impl Into<String>,
    ) -> Self {
        let override_args_json = Some(override_args_json.into());
        self.approval(tool_call_id, Approval::Approved { override_args_json })
    }

    /// Keeps the tool from running; `message` is what the model is told.
    pub fn deny(self, tool_call_id: impl Into<String>, message: impl Into<String>) -> Self {
        let message = Some(message.into());
        self.approval(tool_call_id, Approval::Denied { message })
    }

    /// Decides a call that waits for an approval.
    pub fn approval(mut self, tool_call_id: impl Into<String>, approval: Approval) -> Self {
        self.approvals.insert(tool_call_id.into(), approval);
        self
    }

    /// The value that the call returned, or the answer to the question: JSON text. Always data, whatever it looks like.
    pub fn value(self, tool_call_id: impl Into<String>, json: impl Into<String>) -> Self {
        self.result(tool_call_id, CallResult::Value(json.into()))
    }

    /// The call failed; `message` is what the model is told.
    pub fn failed(self, tool_call_id: impl Into<String>, message: impl Into<String>) -> Self {
        self.result(tool_call_id, CallResult::Failed(message.into()))
    }

    /// The call cannot be made so, and the model is to try again; `message` is what it is told.
    pub fn retry(self, tool_call_id: impl Into<String>, message: impl Into<String>) -> Self {
        self.result(tool_call_id, CallResult::Retry(message.into()))
    }

    /// The result of an external call, or the answer to a question, of any kind.
    pub fn result(mut self, tool_call_id: impl Into<String>, result: CallResult) -> Self {
        self.calls.insert(tool_call_id.into(), result);
        self
    }

    /// Tells the tool something about a call: JSON text of an object.
    pub fn metadata(mut self, tool_call_id: impl Into<String>, json: impl Into<String>) -> Self {
        self.metadata_json.insert(tool_call_id.into(), json.into());
        self
    }

    /// Says who decided a call: up to 256 characters. [`Answer::by`](super::Answer::by) says it for all calls at once.
    pub fn answered_by(mut self, tool_call_id: impl Into<String>, who: impl Into<String>) -> Self {
        self.answered_by.insert(tool_call_id.into(), who.into());
        self
    }

    /// Takes out all that is said about a call, and says whether it was decided.
    pub(super) fn forget(&mut self, tool_call_id: &str) -> bool {
        self.metadata_json.remove(tool_call_id);
        self.answered_by.remove(tool_call_id);
        let approval = self.approvals.remove(tool_call_id).is_some();
        self.calls.remove(tool_call_id).is_some() || approval
    }

    pub(super) fn into_wire(self) -> v1::DeferredToolResults {
        v1::DeferredToolResults {
            approvals: each(self.approvals, Approval::into_wire),
            calls: each(self.calls, CallResult::into_wire),
            metadata_json: self.metadata_json,
            answered_by: self.answered_by,
        }
    }

    pub(super) fn from_wire(wire: v1::DeferredToolResults) -> Self {
        Self {
            approvals: each(wire.approvals, Approval::from_wire),
            calls: each(wire.calls, CallResult::from_wire),
            metadata_json: wire.metadata_json,
            answered_by: wire.answered_by,
        }
    }
}

fn each<T, U>(map: BTreeMap<String, T>, convert: impl Fn(T) -> U) -> BTreeMap<String, U> {
    map.into_iter().map(|(id, t)| (id, convert(t))).collect()
}

/// The decision on a call that waits for an approval. A tool may run after [`Approval::Approved`] and after nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Approval {
    /// The tool may run.
    Approved {
        /// With these arguments instead of the model's: JSON text of an object, byte for byte. `None`: with the model's.
        override_args_json: Option<String>,
    },
    /// The tool must not run.
    Denied {
        /// What the model is told. `None`: `The tool call was denied.`
        message: Option<String>,
    },
    /// A decision that this version of the client does not know. No approval. Refused where it is sent.
    Other,
}

impl Approval {
    /// Whether the tool may run.
    pub fn is_approved(&self) -> bool {
        matches!(self, Self::Approved { .. })
    }

    fn into_wire(self) -> v1::ToolApproval {
        let decision = match self {
            Self::Approved { override_args_json } => Some(Decision::Approved(v1::ToolApproved {
                override_args_json: given(override_args_json),
            })),
            Self::Denied { message } => Some(Decision::Denied(v1::ToolDenied { message })),
            Self::Other => None,
        };
        v1::ToolApproval { decision }
    }

    fn from_wire(wire: v1::ToolApproval) -> Self {
        match wire.decision {
            Some(Decision::Approved(approved)) => Self::Approved {
                override_args_json: filled(approved.override_args_json),
            },
            Some(Decision::Denied(denied)) => Self::Denied {
                message: denied.message,
            },
            None => Self::Other,
        }
    }
}

/// The result of a call that was made elsewhere, or the answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallResult {
    /// The value that the call returned: JSON text, byte for byte.
    Value(String),
    /// A value and what goes with it.
    Return(ToolReturn),
    /// The call failed. What the model is told.
    Failed(String),
    /// The model is to try again. What it is told.
    Retry(String),
    /// A result that this version of the client does not know. No success. Refused where it is sent.
    Other,
}

impl From<ToolReturn> for CallResult {
    fn from(tool_return: ToolReturn) -> Self {
        Self::Return(tool_return)
    }
}

impl CallResult {
    fn into_wire(self) -> v1::ToolCallResult {
        let result = match self {
            Self::Value(json) => Some(Wire::ReturnValueJson(json)),
            Self::Return(value) => Some(Wire::ToolReturn(v1::ToolReturn {
                return_value_json: value.return_value_json,
                content_json: given(value.content_json),
                metadata_json: given(value.metadata_json),
                tools: value.tools,
                content_file_digests_json: given(value.content_file_digests_json),
            })),
            Self::Failed(message) => Some(Wire::Failed(v1::ToolFailed { message })),
            Self::Retry(message) => Some(Wire::Retry(v1::ModelRetry { message })),
            Self::Other => None,
        };
        v1::ToolCallResult { result }
    }

    fn from_wire(wire: v1::ToolCallResult) -> Self {
        match wire.result {
            Some(Wire::ReturnValueJson(json)) => Self::Value(json),
            Some(Wire::ToolReturn(value)) => Self::Return(ToolReturn {
                return_value_json: value.return_value_json,
                content_json: filled(value.content_json),
                metadata_json: filled(value.metadata_json),
                tools: value.tools,
                content_file_digests_json: filled(value.content_file_digests_json),
            }),
            Some(Wire::Failed(failed)) => Self::Failed(failed.message),
            Some(Wire::Retry(retry)) => Self::Retry(retry.message),
            None => Self::Other,
        }
    }
}

/// A value that a call returned, and what goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolReturn {
    /// The value: JSON text, byte for byte.
    pub return_value_json: String,
    /// More for the model to see, outside the result itself: JSON text of a string, or of an array as Pydantic AI's user content.
    pub content_json: Option<String>,
    /// For the application alone, never shown to the model: JSON text.
    pub metadata_json: Option<String>,
    /// Tools that the result makes known, where the library supports that.
    pub tools: Vec<String>,
    /// Which objects of the value may become files again: JSON text, as Pydantic AI itself wrote it.
    pub content_file_digests_json: Option<String>,
}

impl ToolReturn {
    /// A value, as JSON text, and nothing else yet.
    pub fn new(return_value_json: impl Into<String>) -> Self {
        Self {
            return_value_json: return_value_json.into(),
            content_json: None,
            metadata_json: None,
            tools: Vec::new(),
            content_file_digests_json: None,
        }
    }

    /// More for the model to see: JSON text of a string, or of an array. Default: none.
    pub fn content(mut self, json: impl Into<String>) -> Self {
        self.content_json = Some(json.into());
        self
    }

    /// For the application alone: JSON text. Default: none.
    pub fn metadata(mut self, json: impl Into<String>) -> Self {
        self.metadata_json = Some(json.into());
        self
    }

    /// Adds a tool that the result makes known.
    pub fn tool(mut self, name: impl Into<String>) -> Self {
        self.tools.push(name.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> DeferredToolResults {
        let with_all = ToolReturn::new("1.0")
            .content(r#""seen""#)
            .metadata("[]")
            .tool("t");
        DeferredToolResults::new()
            .approve("a")
            .approve_with("b", "{}")
            .deny("c", "")
            .approval("d", Approval::Denied { message: None })
            .approval("e", Approval::Other)
            .value("f", r#"{"kind": "tool-failed"}"#)
            .result("g", with_all.into())
            .result("h", ToolReturn::new("null").into())
            .failed("i", "broken")
            .retry("j", "again")
            .result("k", CallResult::Other)
            .metadata("a", r#"{"m": 1}"#)
            .answered_by("c", "alice")
    }

    #[test]
    fn results_survive_the_wire() {
        let results = all();
        assert_eq!((results.approvals.len(), results.calls.len()), (5, 6));
        assert_eq!(
            DeferredToolResults::from_wire(results.clone().into_wire()),
            results
        );
    }

    #[test]
    fn what_is_not_known_is_no_approval() {
        let unknown = Approval::from_wire(v1::ToolApproval { decision: None });
        assert_eq!(unknown, Approval::Other);
        assert!(!unknown.is_approved());
        assert!(!Approval::from_wire(Approval::Denied { message: None }.into_wire()).is_approved());
        let unknown = CallResult::from_wire(v1::ToolCallResult { result: None });
        assert_eq!(unknown, CallResult::Other);
    }

    #[test]
    fn empty_arguments_are_sent_as_what_they_are_and_not_as_none() {
        let sent = DeferredToolResults::new().approve_with("a", "").into_wire();
        let Some(Decision::Approved(approved)) = &sent.approvals["a"].decision else {
            panic!("no approval");
        };
        assert!(!approved.override_args_json.is_empty());
    }

    #[test]
    fn the_last_word_on_a_call_counts() {
        let results = DeferredToolResults::new().approve("a").deny("a", "no");
        assert!(!results.approvals["a"].is_approved());
    }

    #[test]
    fn a_call_is_forgotten_whole() {
        let mut results = all();
        assert!(results.forget("a") && results.forget("f") && results.forget("c"));
        assert!(!results.forget("a") && !results.forget("z"));
        assert!(results.metadata_json.is_empty() && results.answered_by.is_empty());
        assert_eq!((results.approvals.len(), results.calls.len()), (3, 5));
    }
}
