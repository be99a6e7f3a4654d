//! Answers: from messages to checked domain values, and back.
//!
//! Whether an answer fits its question is for the rules to judge. Here it is only read.

use super::{
    check::{Faults, given},
    convert::to_timestamp,
    question::object,
};
use crate::{
    domain::{
        Command, Decided, JsonText, Progress, Refusal, Results, Submission,
        limits::{AnsweredBy, CallId, Limits, RequestId, quoted},
        results::{Approval, CallResult, DENIED, Decision, ToolReturn, Unknown},
        transition::Body,
    },
    proto::v1::{
        self, resolve_request::Answer, tool_approval::Decision as Approves,
        tool_call_result::Result as Returns,
    },
};

/// Checks an answer.
pub(super) fn resolve(request: v1::ResolveRequest, limits: &Limits) -> Result<Command, Refusal> {
    let mut faults = Faults::default();
    let request_id =
        given(&request.request_id).map(|id| faults.take("request_id", RequestId::new(id)));
    let answered_by =
        given(&request.answered_by).map(|by| faults.take("answered_by", AnsweredBy::new(by)));
    let body = match request.answer {
        Some(Answer::PayloadJson(text)) => {
            (faults.json(limits.json("payload_json", &text))?).map(Body::Json)
        }
        Some(Answer::Results(given)) => Some(Body::Results(results(given, limits, &mut faults)?)),
        None => faults.take(
            "payload_json",
            Err("is required, or results; a missing answer is not null".to_owned()),
        ),
    };
    faults.finish()?;
    let Some(body) = body else {
        return Err(Refusal::field("payload_json", "is required"));
    };
    Ok(Command::Resolve(Box::new(Submission {
        body,
        answered_by: answered_by.flatten(),
        partial: request.partial,
        fits_form: false,
        unknown_keys: limits.unknown_keys,
        max_bytes: limits.payload_bytes,
        request_id: request_id.flatten(),
    })))
}

/// Reads decisions, each under its own path, which is that of the JSON form.
fn results(
    given: v1::DeferredToolResults,
    limits: &Limits,
    faults: &mut Faults,
) -> Result<Results<String>, Refusal> {
    let mut results = Results::default();
    for (id, approval) in given.approvals {
        let field = format!("approvals[{}]", quoted(&id));
        let read = self::approval(&field, approval, limits, faults)?;
        results
            .approvals
            .extend(read.map(|approval| (id, approval)));
    }
    for (id, result) in given.calls {
        let field = format!("calls[{}]", quoted(&id));
        let read = call_result(&field, result, limits, faults)?;
        results.calls.extend(read.map(|result| (id, result)));
    }
    for (id, text) in given.metadata_json {
        let field = format!("metadata[{}]", quoted(&id));
        let read = faults.json(object(&field, &text, limits))?;
        results.metadata.extend(read.map(|json| (id, json)));
    }
    for (id, by) in given.answered_by {
        let field = format!("answered_by[{}]", quoted(&id));
        let read = faults.take(&field, AnsweredBy::new(&by));
        results.answered_by.extend(read.map(|by| (id, by)));
    }
    if results.bytes() > limits.payload_bytes {
        let (is, max) = (results.bytes(), limits.payload_bytes);
        faults.push(
            "results",
            format!("comes to {is} bytes; at most {max} are taken"),
        );
    }
    Ok(results)
}

fn approval(
    field: &str,
    given: v1::ToolApproval,
    limits: &Limits,
    faults: &mut Faults,
) -> Result<Option<Approval>, Refusal> {
    let unknown = Unknown::new();
    Ok(match given.decision {
        Some(Approves::Approved(approved)) => match approved.override_args_json.as_str() {
            "" => Some(Approval::Approved {
                override_args: None,
                unknown,
            }),
            text => {
                let field = format!("{field}.override_args");
                let args = faults.json(object(&field, text, limits))?;
                args.map(|args| Approval::Approved {
                    override_args: Some(args),
                    unknown,
                })
            }
        },
        Some(Approves::Denied(denied)) => Some(Approval::Denied {
            message: denied.message.unwrap_or_else(|| DENIED.to_owned()),
            unknown,
        }),
        None => faults.take(
            field,
            Err("needs a decision: approved or denied".to_owned()),
        ),
    })
}

fn call_result(
    field: &str,
    given: v1::ToolCallResult,
    limits: &Limits,
    faults: &mut Faults,
) -> Result<Option<CallResult>, Refusal> {
    Ok(match given.result {
        Some(Returns::ReturnValueJson(text)) => faults
            .json(limits.json(field, &text))?
            .map(CallResult::Value),
        Some(Returns::ToolReturn(given)) => tool_return(field, given, limits, faults)?,
        Some(Returns::Failed(failed)) => Some(CallResult::Failed(failed.message)),
        Some(Returns::Retry(retry)) => Some(CallResult::Retry(retry.message)),
        None => faults.take(
            field,
            Err("needs a result: return_value_json, tool_return, failed or retry".to_owned()),
        ),
    })
}

fn tool_return(
    field: &str,
    given: v1::ToolReturn,
    limits: &Limits,
    faults: &mut Faults,
) -> Result<Option<CallResult>, Refusal> {
    let value = format!("{field}.return_value");
    let value = faults.json(limits.json(&value, &given.return_value_json))?;
    let mut beside = |name: &str, text: &str| match text {
        "" => Ok(None),
        text => faults.json(limits.json(&format!("{field}.{name}"), text)),
    };
    let content = beside("content", &given.content_json)?;
    let metadata = beside("metadata", &given.metadata_json)?;
    Ok(value.map(|value| {
        CallResult::Return(ToolReturn {
            value,
            content: content.filter(|json| json.as_str().trim() != "null"),
            metadata: metadata.filter(|json| json.as_str().trim() != "null"),
            tools: given.tools,
            file_digests: None,
        })
    }))
}

/// Decisions as workers get them.
pub(super) fn message(results: &Results) -> v1::DeferredToolResults {
    let text = |id: &CallId| id.as_str().to_owned();
    let json = |json: &Option<JsonText>| {
        json.as_ref()
            .map_or_else(String::new, |json| json.as_str().to_owned())
    };
    let approvals = results.approvals.iter().map(|(id, approval)| {
        let decision = match approval {
            Approval::Approved { override_args, .. } => Approves::Approved(v1::ToolApproved {
                override_args_json: json(override_args),
            }),
            Approval::Denied { message, .. } => Approves::Denied(v1::ToolDenied {
                message: Some(message.clone()),
            }),
        };
        let decision = Some(decision);
        (text(id), v1::ToolApproval { decision })
    });
    let calls = results.calls.iter().map(|(id, result)| {
        let result = match result {
            CallResult::Value(value) => Returns::ReturnValueJson(value.as_str().to_owned()),
            CallResult::Return(given) => Returns::ToolReturn(v1::ToolReturn {
                return_value_json: given.value.as_str().to_owned(),
                content_json: json(&given.content),
                metadata_json: json(&given.metadata),
                tools: given.tools.clone(),
            }),
            CallResult::Failed(message) => Returns::Failed(v1::ToolFailed {
                message: message.clone(),
            }),
            CallResult::Retry(message) => Returns::Retry(v1::ModelRetry {
                message: message.clone(),
            }),
        };
        let result = Some(result);
        (text(id), v1::ToolCallResult { result })
    });
    let metadata = results.metadata.iter();
    let answered_by = results.answered_by.iter();
    v1::DeferredToolResults {
        approvals: approvals.collect(),
        calls: calls.collect(),
        metadata_json: metadata
            .map(|(id, json)| (text(id), json.as_str().to_owned()))
            .collect(),
        answered_by: answered_by
            .map(|(id, by)| (text(id), by.as_str().to_owned()))
            .collect(),
    }
}

/// Which calls are decided.
pub(super) fn progress(decided: Option<&Decided>, progress: Progress) -> v1::Progress {
    let decisions = decided.iter().flat_map(|decided| {
        decided
            .decisions()
            .map(|(entry, decision)| v1::CallDecision {
                tool_call_id: entry.call.as_str().to_owned(),
                decision: to_decision(decision).into(),
                answered_by: (decided.results().answered_by_of(&entry.call))
                    .map_or_else(String::new, |by| by.as_str().to_owned()),
                decide_time: Some(to_timestamp(entry.time)),
            })
    });
    // At most as many as a wait has calls.
    v1::Progress {
        decided: decisions.collect(),
        decided_calls: progress.decided as i32,
        pending_calls: progress.pending as i32,
    }
}

fn to_decision(decision: Decision<'_>) -> v1::call_decision::Decision {
    use v1::call_decision::Decision as D;
    match decision {
        Decision::Approval(Approval::Approved {
            override_args: None,
            ..
        }) => D::Approved,
        Decision::Approval(Approval::Approved { .. }) => D::ApprovedWithOverride,
        Decision::Approval(Approval::Denied { .. }) => D::Denied,
        Decision::Call(CallResult::Value(_) | CallResult::Return(_)) => D::Returned,
        Decision::Call(CallResult::Failed(_)) => D::Failed,
        Decision::Call(CallResult::Retry(_)) => D::Retry,
    }
}
