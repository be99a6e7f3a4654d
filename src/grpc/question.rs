//! Questions: from messages to checked domain values, and back.

use super::check::Faults;
use crate::{
    domain::{
        JsonText, Question, Refusal, Violation,
        json::Node,
        limits::{CallId, Description, Limits, ToolName},
        question::{Call, CallKind, Form, Requests, read_requests},
    },
    proto::v1::{self, deferred_tool_call::Kind, question::Kind as Asked},
};

/// Checks a question that came in `field`.
pub(super) fn check(
    field: &str,
    question: Option<v1::Question>,
    limits: &Limits,
) -> Result<Question, Refusal> {
    let question = match question.and_then(|q| q.kind) {
        Some(Asked::FreeJson(text)) => {
            Question::FreeJson(limits.json(&format!("{field}.free_json"), &text)?)
        }
        Some(Asked::Deferred(asked)) => {
            Question::Deferred(requests(&format!("{field}.deferred"), asked, limits)?)
        }
        Some(Asked::DeferredJson(asked)) => {
            let field = format!("{field}.deferred_json.requests_json");
            let json = limits.json(&field, &asked.requests_json)?;
            let read = read_requests(&field, &json, asked.may_leave_pending);
            Question::Deferred(read.map_err(Refusal::InvalidFields)?)
        }
        Some(Asked::Form(asked)) => Question::Form(form(&format!("{field}.form"), asked, limits)?),
        None => {
            let fault = "is required, with one of its kinds set";
            return Err(Refusal::field(field, fault));
        }
    };
    if question.bytes() > limits.payload_bytes {
        let (is, max) = (question.bytes(), limits.payload_bytes);
        let fault = format!("comes to {is} bytes; at most {max} are taken");
        return Err(Refusal::field(field, fault));
    }
    Ok(question)
}

fn requests(
    field: &str,
    asked: v1::DeferredToolRequests,
    limits: &Limits,
) -> Result<Requests, Refusal> {
    let mut faults = Faults::default();
    let mut calls = Vec::new();
    // One more than are taken, so that the count is told and no more is read.
    let count = asked.calls.len();
    for (at, asked) in asked.calls.into_iter().enumerate().take(Requests::MAX + 1) {
        calls.extend(call(
            &format!("{field}.calls[{at}]"),
            asked,
            limits,
            &mut faults,
        )?);
    }
    if count > Requests::MAX {
        let max = Requests::MAX;
        faults.push(
            format!("{field}.calls"),
            format!("has {count} tool calls; at most {max} are taken"),
        );
    }
    // Told beside what is wrong with single calls.
    for fault in Requests::twice(&format!("{field}.calls"), calls.iter().map(|call| &call.id)) {
        faults.push(fault.field, fault.description);
    }
    faults.finish()?;
    Requests::new(&format!("{field}.calls"), calls, asked.may_leave_pending)
        .map_err(Refusal::InvalidFields)
}

fn call(
    field: &str,
    asked: v1::DeferredToolCall,
    limits: &Limits,
    faults: &mut Faults,
) -> Result<Option<Call>, Refusal> {
    let at = |name: &str| format!("{field}.{name}");
    let kind = match asked.kind() {
        Kind::Approval => Some(CallKind::Approval),
        Kind::External => Some(CallKind::External),
        Kind::Question => Some(CallKind::Question),
        Kind::Unspecified => faults.take(
            &at("kind"),
            Err("is required: approval, external or question".to_owned()),
        ),
    };
    let id = faults.take(&at("tool_call_id"), CallId::new(&asked.tool_call_id));
    let tool = faults.take(&at("tool_name"), ToolName::new(&asked.tool_name));
    let description = faults.take(&at("description"), Description::new(&asked.description));
    let wanted = "must be an object, a string that holds JSON, or null";
    let args =
        match asked.args_json.as_str() {
            "" => Some(JsonText::part("null")),
            text => faults.json(limits.json(&at("args_json"), text).and_then(
                |json| match Node::of(json.as_str()) {
                    Node::Object(_) | Node::String(_) | Node::Null => Ok(json),
                    _ => Err(Refusal::field(at("args_json"), wanted)),
                },
            ))?,
        };
    let metadata = match asked.metadata_json.as_str() {
        "" => Some(None),
        text => faults
            .json(object(&at("metadata_json"), text, limits))?
            .map(Some),
    };
    let (Some(id), Some(tool), Some(args), Some(kind), Some(metadata), Some(description)) =
        (id, tool, args, kind, metadata, description)
    else {
        return Ok(None);
    };
    Ok(Some(Call {
        id,
        tool,
        args,
        kind,
        metadata,
        description,
    }))
}

/// Checks JSON text that must be an object.
pub(super) fn object(field: &str, text: &str, limits: &Limits) -> Result<JsonText, Refusal> {
    let json = limits.json(field, text)?;
    match Node::of(json.as_str()) {
        Node::Object(_) => Ok(json),
        _ => Err(Refusal::field(field, "must be an object")),
    }
}

fn form(field: &str, asked: v1::Form, limits: &Limits) -> Result<Form, Refusal> {
    let mut faults = Faults::default();
    let at = |name: &str| format!("{field}.{name}");
    let message = faults.take(&at("message"), Description::new(&asked.message));
    let mut json = |name: &str, text: &str| match text {
        "" => Ok(None),
        text => faults.json(limits.json(&at(name), text)),
    };
    let payload = json("payload_json", &asked.payload_json)?;
    let schema = json("response_schema_json", &asked.response_schema_json)?;
    faults.finish()?;
    let Some(message) = message else {
        return Err(Refusal::InvalidFields(vec![Violation::new(
            field,
            "is invalid",
        )]));
    };
    Ok(Form {
        message,
        payload,
        schema,
    })
}

/// A question as whoever may answer sees it.
pub(super) fn message(question: &Question) -> v1::Question {
    let text = |json: &Option<JsonText>| {
        json.as_ref()
            .map_or_else(String::new, |json| json.as_str().to_owned())
    };
    let kind = match question {
        Question::FreeJson(json) => Asked::FreeJson(json.as_str().to_owned()),
        Question::Deferred(requests) => Asked::Deferred(v1::DeferredToolRequests {
            calls: requests.calls().iter().map(call_message).collect(),
            may_leave_pending: requests.may_leave_pending(),
        }),
        Question::Form(form) => Asked::Form(v1::Form {
            message: form.message.as_str().to_owned(),
            payload_json: text(&form.payload),
            response_schema_json: text(&form.schema),
        }),
    };
    v1::Question { kind: Some(kind) }
}

fn call_message(call: &Call) -> v1::DeferredToolCall {
    let metadata = call.metadata.as_ref();
    v1::DeferredToolCall {
        tool_call_id: call.id.as_str().to_owned(),
        tool_name: call.tool.as_str().to_owned(),
        args_json: call.args.as_str().to_owned(),
        kind: match call.kind {
            CallKind::Approval => Kind::Approval,
            CallKind::External => Kind::External,
            CallKind::Question => Kind::Question,
        }
        .into(),
        metadata_json: metadata.map_or_else(String::new, |json| json.as_str().to_owned()),
        description: call.description.as_str().to_owned(),
    }
}
