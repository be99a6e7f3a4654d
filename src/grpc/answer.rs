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
        Command, Decided, JsonText, Progress, Record, Refusal, Results, Submission, Violation,
        json::Node,
        limits::{AnsweredBy, CallId, Limits, RequestId},
        question::Section,
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
    let mut misfits = Vec::new();
    let body = match request.answer {
        Some(Answer::PayloadJson(text)) => {
            (faults.json(limits.json("payload_json", &text))?).map(Body::Json)
        }
        Some(Answer::Results(given)) => {
            let (results, found) = results(given, limits);
            misfits = found;
            Some(Body::Results(results))
        }
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
        faults: misfits,
        answered_by: answered_by.flatten(),
        partial: request.partial,
        fits_form: false,
        unknown_keys: limits.unknown_keys,
        max_bytes: limits.payload_bytes,
        request_id: request_id.flatten(),
    })))
}

/// Reads decisions, each under its own path, which is that of the JSON form. What is wrong with them is for the rules to tell, who
/// know what else is.
fn results(given: v1::DeferredToolResults, limits: &Limits) -> (Results<String>, Vec<Violation>) {
    let mut reader = Reader {
        limits,
        faults: Vec::new(),
    };
    let mut results = Results::default();
    for (id, given) in given.approvals {
        match reader.approval(&Section::Approvals.at(&id), given) {
            Some(approval) => results.approvals.push((id, approval)),
            None => results.faulty.push(id),
        }
    }
    for (id, given) in given.calls {
        match reader.result(&Section::Calls.at(&id), given) {
            Some(result) => results.calls.push((id, result)),
            None => results.faulty.push(id),
        }
    }
    for (id, text) in given.metadata_json {
        let metadata = reader.object(&Section::Metadata.at(&id), &text);
        results.metadata.extend(metadata.map(|json| (id, json)));
    }
    for (id, by) in given.answered_by {
        match AnsweredBy::new(&by) {
            Ok(by) => results.answered_by.push((id, by)),
            Err(fault) => reader.fault(&Section::AnsweredBy.at(&id), fault),
        }
    }
    if results.bytes() > limits.payload_bytes {
        let (is, max) = (results.bytes(), limits.payload_bytes);
        reader.fault(
            "results",
            format!("comes to {is} bytes; at most {max} are taken"),
        );
    }
    (results, reader.faults)
}

struct Reader<'a> {
    limits: &'a Limits,
    faults: Vec<Violation>,
}

impl Reader<'_> {
    fn fault(&mut self, field: &str, fault: impl Into<String>) {
        self.faults.push(Violation::new(field, fault));
    }

    fn take<T>(&mut self, checked: Result<T, Refusal>) -> Option<T> {
        match checked {
            Ok(value) => return Some(value),
            Err(Refusal::InvalidFields(faults)) => self.faults.extend(faults),
            Err(Refusal::InvalidJson(fault)) => self.faults.push(fault),
            Err(other) => self.fault("results", other.to_string()),
        }
        None
    }

    fn json(&mut self, field: &str, text: &str) -> Option<JsonText> {
        self.take(self.limits.json(field, text))
    }

    fn object(&mut self, field: &str, text: &str) -> Option<JsonText> {
        self.take(object(field, text, self.limits))
    }

    /// JSON that may be left out. The outer `None`: it is there, and none.
    fn json_if_any(&mut self, field: &str, text: &str) -> Option<Option<JsonText>> {
        match text {
            "" => Some(None),
            text => self.json(field, text).map(Some),
        }
    }

    fn digests(&mut self, field: &str, text: &str) -> Option<Option<JsonText>> {
        let json = self.json_if_any(field, text)?;
        let is_string = |item: &&str| matches!(Node::of(item), Node::String(_));
        match json.as_ref().map(|json| Node::of(json.as_str())) {
            None => Some(None),
            Some(Node::Array(items)) if items.iter().all(is_string) => Some(json),
            Some(_) => {
                self.fault(field, "must be an array of strings");
                None
            }
        }
    }

    fn approval(&mut self, field: &str, given: v1::ToolApproval) -> Option<Approval> {
        let unknown = Unknown::new();
        match given.decision {
            Some(Approves::Approved(approved)) => {
                let override_args = match approved.override_args_json.as_str() {
                    "" => None,
                    text => Some(self.object(&format!("{field}.override_args"), text)?),
                };
                Some(Approval::Approved {
                    override_args,
                    unknown,
                })
            }
            Some(Approves::Denied(denied)) => Some(Approval::Denied {
                message: denied.message.unwrap_or_else(|| DENIED.to_owned()),
                unknown,
            }),
            None => {
                self.fault(field, "needs a decision: approved or denied");
                None
            }
        }
    }

    fn result(&mut self, field: &str, given: v1::ToolCallResult) -> Option<CallResult> {
        match given.result {
            Some(Returns::ReturnValueJson(text)) => self.json(field, &text).map(CallResult::Value),
            Some(Returns::ToolReturn(given)) => self.tool_return(field, given),
            Some(Returns::Failed(failed)) => Some(CallResult::Failed(failed.message)),
            Some(Returns::Retry(retry)) => Some(CallResult::Retry(retry.message)),
            None => {
                let fault = "needs a result: return_value_json, tool_return, failed or retry";
                self.fault(field, fault);
                None
            }
        }
    }

    fn tool_return(&mut self, field: &str, given: v1::ToolReturn) -> Option<CallResult> {
        let at = |name: &str| format!("{field}.{name}");
        let value = self.json(&at("return_value"), &given.return_value_json);
        let content = self.json_if_any(&at("content"), &given.content_json);
        let metadata = self.json_if_any(&at("metadata"), &given.metadata_json);
        let digests = self.digests(
            &at("content_file_digests"),
            &given.content_file_digests_json,
        );
        Some(CallResult::Return(ToolReturn {
            value: value?,
            content: content?,
            metadata: metadata?,
            tools: given.tools,
            file_digests: digests?,
        }))
    }
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
                content_file_digests_json: json(&given.file_digests),
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

/// Which of a wait's calls are decided, whether or not it is settled.
pub(super) fn progress_of(record: &Record) -> Option<v1::Progress> {
    let calls = record.question.as_ref()?.requests()?.calls().len();
    let decided = record.decided().map(|decided| &**decided);
    let count = decided.map_or(0, |decided| decided.entries().len());
    let counts = Progress {
        decided: count,
        pending: calls.saturating_sub(count),
    };
    Some(progress(decided, counts))
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
