//! Tool calls that wait for somebody else.

use super::{
    convert::{filled, given},
    results::DeferredToolResults,
};
use crate::proto::v1::{self, deferred_tool_call::Kind};

/// Tool calls of an agent's run that wait for somebody else.
///
/// ```
/// use abeyance::client::{DeferredToolCall, DeferredToolRequests};
///
/// let requests = DeferredToolRequests::new()
///     .approval("call_1", "issue_refund", r#"{"amount":500}"#)
///     .external("call_2", "ship", r#"{"order":"4711"}"#)
///     .call(
///         DeferredToolCall::question("call_3", "ask_user", r#"{"text":"Which size?"}"#)
///             .description("The customer did not say."),
///     );
/// # assert_eq!(requests.calls.len(), 3);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeferredToolRequests {
    /// The calls: at most 64, each with an id of its own.
    pub calls: Vec<DeferredToolCall>,
    /// One answer may leave calls undecided and still settle the wait. Default: false, an answer decides them all. It has nothing
    /// to do with [`Answer::partial`](super::Answer::partial).
    pub may_leave_pending: bool,
}

impl DeferredToolRequests {
    /// No calls yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a call that waits for somebody's permission to run the tool.
    pub fn approval(
        self,
        tool_call_id: impl Into<String>,
        tool_name: impl Into<String>,
        args_json: impl Into<String>,
    ) -> Self {
        self.call(DeferredToolCall::approval(
            tool_call_id,
            tool_name,
            args_json,
        ))
    }

    /// Adds a call whose result is made elsewhere.
    pub fn external(
        self,
        tool_call_id: impl Into<String>,
        tool_name: impl Into<String>,
        args_json: impl Into<String>,
    ) -> Self {
        self.call(DeferredToolCall::external(
            tool_call_id,
            tool_name,
            args_json,
        ))
    }

    /// Adds a call that waits for an answer to a question of the model.
    pub fn question(
        self,
        tool_call_id: impl Into<String>,
        tool_name: impl Into<String>,
        args_json: impl Into<String>,
    ) -> Self {
        self.call(DeferredToolCall::question(
            tool_call_id,
            tool_name,
            args_json,
        ))
    }

    /// Adds a call.
    pub fn call(mut self, call: DeferredToolCall) -> Self {
        self.calls.push(call);
        self
    }

    /// Lets one answer leave calls undecided and still settle the wait. For runs that can go on with calls left pending.
    pub fn may_leave_pending(mut self) -> Self {
        self.may_leave_pending = true;
        self
    }

    /// The decisions that approve each call that waits for an approval, and say nothing about the others: what an "approve all"
    /// of a page or a chat message sends with [`Client::decide`](super::Client::decide). What was decided otherwise before is not
    /// overruled: then all of it is refused.
    pub fn approve_all(&self) -> DeferredToolResults {
        self.approvals()
            .fold(DeferredToolResults::new(), |results, call| {
                results.approve(&call.tool_call_id)
            })
    }

    /// As [`DeferredToolRequests::approve_all`], but denies them; `message` is what the model is told.
    pub fn deny_all(&self, message: &str) -> DeferredToolResults {
        self.approvals()
            .fold(DeferredToolResults::new(), |results, call| {
                results.deny(&call.tool_call_id, message)
            })
    }

    fn approvals(&self) -> impl Iterator<Item = &DeferredToolCall> {
        self.calls.iter().filter(|c| c.kind == CallKind::Approval)
    }

    pub(super) fn into_wire(self) -> v1::DeferredToolRequests {
        v1::DeferredToolRequests {
            calls: self
                .calls
                .into_iter()
                .map(DeferredToolCall::into_wire)
                .collect(),
            may_leave_pending: self.may_leave_pending,
        }
    }

    pub(super) fn from_wire(wire: v1::DeferredToolRequests) -> Self {
        Self {
            calls: wire
                .calls
                .into_iter()
                .map(DeferredToolCall::from_wire)
                .collect(),
            may_leave_pending: wire.may_leave_pending,
        }
    }
}

/// One tool call that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeferredToolCall {
    /// The call's id: 1 to 256 characters, unique in its wait.
    pub tool_call_id: String,
    /// The tool: 1 to 256 characters.
    pub tool_name: String,
    /// The arguments that the model gave: JSON text, kept byte for byte. An object; a string that holds JSON, as some models write
    /// it; or `null`.
    pub args_json: String,
    /// What the call waits for.
    pub kind: CallKind,
    /// What the worker tells about the call beside its arguments: JSON text of an object, kept byte for byte.
    pub metadata_json: Option<String>,
    /// What the call would do, for people who decide it: up to 4096 characters. May be empty.
    pub description: String,
}

impl DeferredToolCall {
    /// A call that waits for somebody's permission to run the tool.
    pub fn approval(
        tool_call_id: impl Into<String>,
        tool_name: impl Into<String>,
        args_json: impl Into<String>,
    ) -> Self {
        Self::new(CallKind::Approval, tool_call_id, tool_name, args_json)
    }

    /// A call whose result is made elsewhere.
    pub fn external(
        tool_call_id: impl Into<String>,
        tool_name: impl Into<String>,
        args_json: impl Into<String>,
    ) -> Self {
        Self::new(CallKind::External, tool_call_id, tool_name, args_json)
    }

    /// A call that waits for an answer to a question of the model.
    pub fn question(
        tool_call_id: impl Into<String>,
        tool_name: impl Into<String>,
        args_json: impl Into<String>,
    ) -> Self {
        Self::new(CallKind::Question, tool_call_id, tool_name, args_json)
    }

    fn new(
        kind: CallKind,
        tool_call_id: impl Into<String>,
        tool_name: impl Into<String>,
        args_json: impl Into<String>,
    ) -> Self {
        Self {
            tool_call_id: tool_call_id.into(),
            tool_name: tool_name.into(),
            args_json: args_json.into(),
            kind,
            metadata_json: None,
            description: String::new(),
        }
    }

    /// What the worker tells about the call beside its arguments: JSON text of an object. Default: nothing.
    pub fn metadata(mut self, json: impl Into<String>) -> Self {
        self.metadata_json = Some(json.into());
        self
    }

    /// What the call would do, for people who decide it: up to 4096 characters. Default: empty.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = text.into();
        self
    }

    fn into_wire(self) -> v1::DeferredToolCall {
        let kind = match self.kind {
            CallKind::Approval => Kind::Approval,
            CallKind::External => Kind::External,
            CallKind::Question => Kind::Question,
            CallKind::Other => Kind::Unspecified,
        };
        v1::DeferredToolCall {
            tool_call_id: self.tool_call_id,
            tool_name: self.tool_name,
            args_json: self.args_json,
            kind: kind.into(),
            metadata_json: given(self.metadata_json),
            description: self.description,
        }
    }

    fn from_wire(wire: v1::DeferredToolCall) -> Self {
        Self {
            kind: match wire.kind() {
                Kind::Approval => CallKind::Approval,
                Kind::External => CallKind::External,
                Kind::Question => CallKind::Question,
                Kind::Unspecified => CallKind::Other,
            },
            tool_call_id: wire.tool_call_id,
            tool_name: wire.tool_name,
            // An empty text means null on the wire; here it can be parsed without a look at that.
            args_json: filled(wire.args_json).unwrap_or_else(|| "null".to_owned()),
            metadata_json: filled(wire.metadata_json),
            description: wire.description,
        }
    }
}

/// What a tool call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallKind {
    /// Somebody's permission to run the tool: decided under [`DeferredToolResults::approvals`].
    Approval,
    /// A result that is made elsewhere: decided under [`DeferredToolResults::calls`].
    External,
    /// An answer to a question of the model: decided under [`DeferredToolResults::calls`].
    Question,
    /// Something that this version of the client does not know. Refused where it is sent.
    Other,
}

impl CallKind {
    /// The kind's name, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::External => "external",
            Self::Question => "question",
            Self::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Approval;

    #[test]
    fn calls_survive_the_wire() {
        let requests = DeferredToolRequests::new()
            .approval("a", "refund", r#"{"n":1.0}"#)
            .external("b", "ship", "null")
            .call(
                DeferredToolCall::question("c", "ask", r#""{}""#)
                    .metadata(r#"{"m": 1}"#)
                    .description("why"),
            )
            .may_leave_pending();
        assert_eq!(
            DeferredToolRequests::from_wire(requests.clone().into_wire()),
            requests
        );
    }

    #[test]
    fn what_is_not_known_stays_that() {
        let mut wire = DeferredToolCall::approval("a", "t", "").into_wire();
        assert_eq!(wire.args_json, "");
        wire.kind = 77;
        let call = DeferredToolCall::from_wire(wire);
        assert_eq!(call.kind, CallKind::Other);
        assert_eq!(call.args_json, "null");
        assert_eq!(call.into_wire().kind(), Kind::Unspecified);
    }

    #[test]
    fn all_means_all_that_wait_for_an_approval() {
        let requests = DeferredToolRequests::new()
            .approval("a", "t", "{}")
            .external("b", "t", "{}")
            .question("c", "t", "{}")
            .approval("d", "t", "{}");
        let approved = requests.approve_all();
        assert!(approved.approvals.keys().eq(["a", "d"]));
        assert!(approved.approvals.values().all(Approval::is_approved));
        assert!(approved.calls.is_empty());
        let denied = requests.deny_all("no");
        assert!(denied.approvals.keys().eq(["a", "d"]));
        assert!(!denied.approvals.values().any(Approval::is_approved));
    }
}
