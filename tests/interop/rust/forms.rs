//! The JSON forms of the contract's messages, to and from the client's types.

use std::collections::BTreeMap;

use abeyance::client::{
    Approval, CallResult, Code, DeferredToolCall, DeferredToolRequests, DeferredToolRequestsJson,
    DeferredToolResults, Error, ExpiryCause, Form, Outcome, Question, Refusal, State,
    TimeoutSource, ToolReturn, Verdict,
};
use serde_json::{Map, Value, json};

/// What a request gives instead of an answer.
pub struct Failure(Value);

impl Failure {
    /// What the client, or this driver, says.
    pub fn client(message: impl ToString) -> Self {
        Self(json!({"code": "CLIENT", "message": message.to_string()}))
    }

    /// A status of which only code and message are known.
    pub fn status(status: Code, message: &str) -> Self {
        Self(json!({"code": code(status), "message": message}))
    }

    /// A status with all that it says.
    fn refused(refusal: &Refusal) -> Self {
        let violations: Vec<Value> = refusal
            .violations
            .iter()
            .map(|v| json!({"field": v.field, "description": v.description}))
            .collect();
        Self(json!({
            "code": code(refusal.code),
            "reason": refusal.reason,
            "message": refusal.message,
            "metadata": refusal.metadata,
            "violations": violations,
        }))
    }

    pub fn to_json(&self) -> Value {
        self.0.clone()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error.refusal() {
            Some(refusal) => Self::refused(refusal),
            None => Self::client(error),
        }
    }
}

fn code(code: Code) -> String {
    // `InvalidArgument` becomes `INVALID_ARGUMENT`.
    let mut name = String::new();
    for (i, c) in format!("{code:?}").chars().enumerate() {
        if c.is_uppercase() && i > 0 {
            name.push('_');
        }
        name.push(c.to_ascii_uppercase());
    }
    name
}

/// A text of a request, and its absence as the error it is.
pub fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str, Failure> {
    value[field]
        .as_str()
        .ok_or_else(|| Failure::client(format!("{field} must be a text")))
}

/// A text that may be left out. Empty counts as left out, as in the JSON form of protobuf.
fn maybe(value: &Value, field: &str) -> Option<String> {
    value[field]
        .as_str()
        .filter(|t| !t.is_empty())
        .map(str::to_owned)
}

pub fn state(state: State) -> String {
    state.name().to_ascii_uppercase()
}

pub fn timeout_source(source: TimeoutSource) -> String {
    source.name().to_ascii_uppercase()
}

pub fn question(value: &Value) -> Result<Question, Failure> {
    let (kind, body) = only_arm(value)?;
    Ok(match kind {
        "freeJson" => body.as_str().unwrap_or_default().into(),
        "deferred" => {
            let mut requests = DeferredToolRequests::new();
            for each in body["calls"].as_array().into_iter().flatten() {
                requests = requests.call(call(each)?);
            }
            if body["mayLeavePending"] == true {
                requests = requests.may_leave_pending();
            }
            requests.into()
        }
        "deferredJson" => {
            let mut requests = DeferredToolRequestsJson::new(text(body, "requestsJson")?);
            if body["mayLeavePending"] == true {
                requests = requests.may_leave_pending();
            }
            requests.into()
        }
        "form" => {
            let mut form = Form::new(maybe(body, "message").unwrap_or_default());
            if let Some(payload) = maybe(body, "payloadJson") {
                form = form.payload(payload);
            }
            if let Some(schema) = maybe(body, "responseSchemaJson") {
                form = form.schema(schema);
            }
            form.into()
        }
        other => return Err(Failure::client(format!("no kind of question: {other}"))),
    })
}

fn call(value: &Value) -> Result<DeferredToolCall, Failure> {
    let (id, tool) = (text(value, "toolCallId")?, text(value, "toolName")?);
    let args = value["argsJson"].as_str().unwrap_or_default();
    let mut call = match text(value, "kind")? {
        "KIND_APPROVAL" => DeferredToolCall::approval(id, tool, args),
        "KIND_EXTERNAL" => DeferredToolCall::external(id, tool, args),
        "KIND_QUESTION" => DeferredToolCall::question(id, tool, args),
        other => return Err(Failure::client(format!("no kind of call: {other}"))),
    };
    if let Some(metadata) = maybe(value, "metadataJson") {
        call = call.metadata(metadata);
    }
    Ok(call.description(maybe(value, "description").unwrap_or_default()))
}

pub fn results(value: &Value) -> Result<DeferredToolResults, Failure> {
    let mut results = DeferredToolResults::new();
    for (id, approval) in entries(&value["approvals"]) {
        let (arm, body) = only_arm(approval)?;
        let approval = match arm {
            "approved" => Approval::Approved {
                override_args_json: maybe(body, "overrideArgsJson"),
            },
            "denied" => Approval::Denied {
                message: body["message"].as_str().map(str::to_owned),
            },
            other => return Err(Failure::client(format!("no approval: {other}"))),
        };
        results = results.approval(id, approval);
    }
    for (id, result) in entries(&value["calls"]) {
        let (arm, body) = only_arm(result)?;
        let result = match arm {
            "returnValueJson" => CallResult::Value(body.as_str().unwrap_or_default().to_owned()),
            "toolReturn" => tool_return(body)?.into(),
            "failed" => CallResult::Failed(maybe(body, "message").unwrap_or_default()),
            "retry" => CallResult::Retry(maybe(body, "message").unwrap_or_default()),
            other => return Err(Failure::client(format!("no result: {other}"))),
        };
        results = results.result(id, result);
    }
    for (id, json) in texts(&value["metadataJson"]) {
        results = results.metadata(id, json);
    }
    for (id, who) in texts(&value["answeredBy"]) {
        results = results.answered_by(id, who);
    }
    Ok(results)
}

fn tool_return(body: &Value) -> Result<ToolReturn, Failure> {
    let mut value = ToolReturn::new(text(body, "returnValueJson")?);
    value.content_json = maybe(body, "contentJson");
    value.metadata_json = maybe(body, "metadataJson");
    for name in body["tools"].as_array().into_iter().flatten() {
        value = value.tool(name.as_str().unwrap_or_default());
    }
    Ok(value)
}

fn results_to_json(results: &DeferredToolResults) -> Value {
    let approvals = results.approvals.iter().map(|(id, approval)| {
        let arm = match approval {
            Approval::Approved { override_args_json } => {
                json!({"approved": filled([("overrideArgsJson", override_args_json)])})
            }
            Approval::Denied { message } => json!({"denied": filled([("message", message)])}),
            _ => json!({}),
        };
        (id.clone(), arm)
    });
    let calls = results.calls.iter().map(|(id, result)| {
        let arm = match result {
            CallResult::Value(value) => json!({"returnValueJson": value}),
            CallResult::Return(value) => {
                let mut body = filled([
                    ("contentJson", &value.content_json),
                    ("metadataJson", &value.metadata_json),
                ]);
                body.insert("returnValueJson".to_owned(), json!(value.return_value_json));
                body.insert("tools".to_owned(), json!(value.tools));
                json!({"toolReturn": body})
            }
            CallResult::Failed(message) => json!({"failed": {"message": message}}),
            CallResult::Retry(message) => json!({"retry": {"message": message}}),
            _ => json!({}),
        };
        (id.clone(), arm)
    });
    json!({
        "approvals": approvals.collect::<Map<_, _>>(),
        "calls": calls.collect::<Map<_, _>>(),
        "metadataJson": results.metadata_json,
        "answeredBy": results.answered_by,
    })
}

/// The answer to `outcome`.
pub fn outcome(outcome: &Outcome, reattached: u64) -> Value {
    let mut answer = json!({"state": state(outcome.state()), "reattached": reattached});
    match &outcome.verdict {
        Verdict::Resolved {
            payload_json,
            answered_by,
        } => {
            answer["payload_json"] = json!(payload_json);
            answer["answered_by"] = json!(answered_by);
        }
        Verdict::Failed {
            reason,
            error_type,
            details_json,
        } => {
            answer["reason"] = json!(reason);
            answer["error_type"] = json!(error_type);
            answer["details_json"] = json!(details_json);
        }
        Verdict::Expired { cause, reason } => {
            answer["reason"] = json!(reason);
            answer["cause"] = json!(match cause {
                ExpiryCause::Timeout => "TIMEOUT",
                ExpiryCause::Heartbeat => "HEARTBEAT",
                _ => "OTHER",
            });
        }
        Verdict::Cancelled { reason } => answer["reason"] = json!(reason),
        _ => answer["state"] = json!("UNKNOWN"),
    }
    if let Some(results) = &outcome.results {
        answer["results"] = results_to_json(results);
    }
    if let Some(json) = outcome.results_json() {
        answer["results_json"] = json!(json);
    }
    answer
}

/// The one member of an object that stands for a `oneof`.
fn only_arm(value: &Value) -> Result<(&str, &Value), Failure> {
    entries(value)
        .next()
        .ok_or_else(|| Failure::client("a oneof without an arm"))
}

fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let map = value.as_object().into_iter().flatten();
    map.map(|(key, value)| (key.as_str(), value))
}

fn texts(value: &Value) -> BTreeMap<&str, &str> {
    entries(value)
        .filter_map(|(key, value)| Some((key, value.as_str()?)))
        .collect()
}

fn filled<const N: usize>(fields: [(&str, &Option<String>); N]) -> Map<String, Value> {
    fields
        .into_iter()
        .filter_map(|(name, text)| Some((name.to_owned(), json!(text.as_ref()?))))
        .collect()
}
