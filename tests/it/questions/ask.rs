//! Questions and answers, with short names.

use abeyance::proto::v1::{
    self, question::Kind, resolve_request::Answer, tool_approval::Decision as Approves,
    tool_call_result::Result as Returns,
};
use tonic::Status;

use crate::harness::{Calls, spec};

/// Tool calls in the JSON form of Pydantic AI.
pub fn deferred_json(requests: &str, may_leave_pending: bool) -> v1::Question {
    v1::Question {
        kind: Some(Kind::DeferredJson(v1::DeferredToolRequestsJson {
            requests_json: requests.to_owned(),
            may_leave_pending,
        })),
    }
}

/// Tool calls as a message.
pub fn deferred(calls: Vec<v1::DeferredToolCall>) -> v1::Question {
    v1::Question {
        kind: Some(Kind::Deferred(v1::DeferredToolRequests {
            calls,
            may_leave_pending: false,
        })),
    }
}

/// A call that waits for an approval.
pub fn approval(id: &str) -> v1::DeferredToolCall {
    call(id, v1::deferred_tool_call::Kind::Approval)
}

/// A call that waits for a result.
pub fn external(id: &str) -> v1::DeferredToolCall {
    call(id, v1::deferred_tool_call::Kind::External)
}

fn call(id: &str, kind: v1::deferred_tool_call::Kind) -> v1::DeferredToolCall {
    v1::DeferredToolCall {
        tool_call_id: id.to_owned(),
        tool_name: "refund".to_owned(),
        args_json: r#"{"amount": 50}"#.to_owned(),
        kind: kind.into(),
        ..v1::DeferredToolCall::default()
    }
}

/// A form with a schema.
pub fn form(schema: &str) -> v1::Question {
    v1::Question {
        kind: Some(Kind::Form(v1::Form {
            message: "How much?".to_owned(),
            payload_json: String::new(),
            response_schema_json: schema.to_owned(),
        })),
    }
}

/// A wait that asks something.
pub fn asking(question: v1::Question) -> v1::WaitSpec {
    v1::WaitSpec {
        question: Some(question),
        ..spec("ask")
    }
}

/// The leave to run a tool.
pub fn approved() -> v1::ToolApproval {
    v1::ToolApproval {
        decision: Some(Approves::Approved(v1::ToolApproved::default())),
    }
}

/// The refusal to run a tool.
pub fn denied(message: &str) -> v1::ToolApproval {
    v1::ToolApproval {
        decision: Some(Approves::Denied(v1::ToolDenied {
            message: Some(message.to_owned()),
        })),
    }
}

/// A value that a call returned.
pub fn value(json: &str) -> v1::ToolCallResult {
    v1::ToolCallResult {
        result: Some(Returns::ReturnValueJson(json.to_owned())),
    }
}

/// `Resolve` with decisions as a message.
pub fn typed(token: &str, results: v1::DeferredToolResults) -> v1::ResolveRequest {
    v1::ResolveRequest {
        token: token.to_owned(),
        answer: Some(Answer::Results(results)),
        ..v1::ResolveRequest::default()
    }
}

/// `Resolve` with JSON.
pub fn in_json(token: &str, json: &str) -> v1::ResolveRequest {
    v1::ResolveRequest {
        token: token.to_owned(),
        answer: Some(Answer::PayloadJson(json.to_owned())),
        ..v1::ResolveRequest::default()
    }
}

impl Calls {
    /// `Resolve`, with whatever the request carries.
    pub async fn answer(&self, request: v1::ResolveRequest) -> Result<v1::ResolveResponse, Status> {
        Ok(self.resolves.clone().resolve(request).await?.into_inner())
    }

    /// The outcome of a wait that is settled.
    pub async fn outcome(&self, token: &str) -> v1::Outcome {
        let wait = self.describe(token).await.expect("described");
        wait.outcome.expect("an outcome")
    }
}
